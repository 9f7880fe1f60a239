//! Compares what zones played with the truth.

use core::cmp::Ordering;
use core::fmt;

use tautline_proto::time::{Span, WallTime};
use tautline_proto::zone::Claim;

use super::zone::Heard;
use super::{DOWN, EPOCH, Truth, ZonesWorld};
use crate::clock::TrueTime;

/// A dead station's announcement occupies a zone for this long after its last frame.
const SILENCE: Span = Span::from_millis(500);
/// Maximum error of a start or end in a zone without faults: half a fade and a packet.
const NEAR: Span = Span::from_millis(30);
/// Maximum time until a zone without faults finds a running announcement: the interval of claims
/// and two lost claims.
const JOINED: Span = Span::from_millis(1600);

/// Verdict on a run. Each fault is described with zone and announcement.
#[derive(Debug, Default)]
pub struct ZonesOutcome {
    /// Turns that zones without faults should play, by the oracle.
    pub expected: usize,
    /// Announcements that were the first choice of a reachable zone during a fault.
    pub due: usize,
    pub lost: Vec<String>,
    /// Turns that played without being due, or at the same time as another turn.
    pub doubled: Vec<String>,
    /// Zones with a gain other than exactly 1 for the program in the end.
    pub unrestored: Vec<usize>,
    /// Turns that began over 30 ms late, because claims or packets were lost.
    pub late: usize,
    /// Claims refused for their departure: repeated by an attacker.
    pub replays_refused: u64,
    /// Differences between two zones: start of an announcement, duck, restore.
    pub start_skews: Vec<Span>,
    pub duck_skews: Vec<Span>,
    pub restore_skews: Vec<Span>,
}

impl fmt::Display for ZonesOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { expected, due, late, replays_refused, .. } = self;
        write!(
            f,
            "{expected} turns, {due} under faults, {late} late, {replays_refused} replays; "
        )?;
        write!(f, "lost {:?}, doubled {:?}, ", self.lost, self.doubled)?;
        write!(f, "unrestored {:?}", self.unrestored)
    }
}

/// A turn that the oracle expects.
#[derive(Debug, Clone, Copy)]
struct Expected {
    index: usize,
    from: TrueTime,
    to: TrueTime,
}

struct Oracle {
    world: ZonesWorld,
    claims: Vec<Claim>,
}

pub(super) fn judge(mut world: ZonesWorld) -> ZonesOutcome {
    let mut outcome = ZonesOutcome::default();
    for (number, zone) in world.zones.iter_mut().enumerate() {
        let local = zone.clock.reading(world.now);
        let duck = zone.arbiter.duck().settled_at(local);
        if duck.map(|gain| gain.factor()) != Some(1.0) {
            outcome.unrestored.push(number);
        }
        outcome.replays_refused += zone.refused;
    }
    let claims = world.truths.iter().zip(&world.senders).map(|(truth, sender)| {
        let mut claim = *sender.as_ref().expect("all announcements start before the end").claim();
        // The oracle knows the errors of clocks. Claims are compared in whole steps of 100 ms.
        let error = claim.starts.as_unix_nanos() - truth.starts.as_nanos() - EPOCH;
        let steps = (error + 50_000_000).div_euclid(100_000_000);
        claim.starts = claim.starts + Span::from_millis(-100).times(steps);
        claim
    });
    let claims = claims.collect();
    let oracle = Oracle { world, claims };
    for zone in 0..oracle.world.zones.len() {
        for cluster in oracle.clusters(zone) {
            oracle.judge_cluster(zone, &cluster, &mut outcome);
        }
        oracle.judge_overlaps(zone, &mut outcome);
    }
    oracle.measure_skews(&mut outcome);
    outcome
}

impl Oracle {
    fn truth(&self, index: usize) -> &Truth {
        &self.world.truths[index]
    }

    /// Time at which the zone is free again.
    fn frees(&self, index: usize) -> TrueTime {
        let truth = self.truth(index);
        truth.ends.after(if truth.dies.is_some() { SILENCE } else { Span::ZERO })
    }

    fn frees_claimed(&self, index: usize) -> WallTime {
        let truth = self.truth(index);
        self.claims[index].starts + self.frees(index).since(truth.starts)
    }

    /// Announcements to `zone` without a restored program between them.
    fn clusters(&self, zone: usize) -> Vec<Vec<usize>> {
        let mut all: Vec<usize> = (0..self.claims.len())
            .filter(|index| self.truth(*index).targets.contains(&zone))
            .collect();
        all.sort_by_key(|index| self.truth(*index).starts);
        let mut clusters: Vec<Vec<usize>> = Vec::new();
        let mut until = TrueTime::ZERO;
        for index in all {
            match clusters.last_mut() {
                Some(cluster)
                    if self.truth(index).starts < until.after(Span::from_millis(1500)) =>
                {
                    cluster.push(index);
                }
                _ => clusters.push(vec![index]),
            }
            until = until.max(self.frees(index));
        }
        clusters
    }

    fn window(&self, cluster: &[usize]) -> (TrueTime, TrueTime) {
        let starts = cluster.iter().map(|index| self.truth(*index).starts);
        let ends = cluster.iter().map(|index| self.frees(*index));
        let (from, to) = (starts.min().unwrap_or_default(), ends.max().unwrap_or_default());
        (from.after(Span::from_millis(-100)), to.after(Span::from_millis(600)))
    }

    fn is_reachable(&self, zone: usize, stations: &[usize], from: TrueTime, to: TrueTime) -> bool {
        let cut = self.world.cuts.iter().any(|cut| {
            cut.zones.contains(&zone)
                && cut.stations.iter().any(|it| stations.contains(it))
                && cut.from < to
                && from < cut.to
        });
        // After a restart, clocks are mapped again.
        let down = self.world.restarts.iter().any(|(restarted, at)| {
            *restarted == zone && *at < to && from < at.after(DOWN + Span::from_millis(700))
        });
        !cut && !down
    }

    fn is_clear(&self, zone: usize, cluster: &[usize]) -> bool {
        let stations: Vec<usize> = cluster.iter().map(|index| self.truth(*index).station).collect();
        let (from, to) = self.window(cluster);
        // The end of a dead station depends on the last packet that arrived.
        let died = cluster.iter().filter(|index| self.truth(**index).dies.is_some());
        let tied = died.into_iter().any(|dead| {
            let frees = self.frees_claimed(*dead);
            cluster.iter().any(|it| (self.claims[*it].starts - frees).abs() < NEAR)
        });
        !tied && self.is_reachable(zone, &stations, from, to)
    }

    fn judge_cluster(&self, zone: usize, cluster: &[usize], outcome: &mut ZonesOutcome) {
        if self.is_clear(zone, cluster) {
            self.judge_clear(zone, cluster, outcome);
        } else {
            self.judge_faulty(zone, cluster, outcome);
        }
    }

    /// Whether the announcement plays from its start on, and until when. Declarative, unlike the
    /// arbiter.
    fn expects(&self, index: usize, cluster: &[usize]) -> Option<Expected> {
        let claim = &self.claims[index];
        let precedes = |other: usize| self.claims[other].precedence(claim) == Ordering::Greater;
        let before = |other: usize| {
            let starts = self.claims[other].starts;
            starts < claim.starts || starts == claim.starts && precedes(other)
        };
        let others = || cluster.iter().copied().filter(|other| *other != index);
        let refused = others().filter(|it| before(*it)).any(|other| {
            let until = self.expects(other, cluster).map(|turn| self.claimed_end(&turn));
            until.is_some_and(|until| until > claim.starts) && precedes(other)
        });
        if refused {
            return None;
        }
        let (from, frees) = (self.truth(index).starts, self.frees(index));
        let later = others().filter(|it| !before(*it) && precedes(*it));
        let later = later.filter(|it| self.claims[*it].starts < self.frees_claimed(index));
        let to = later.map(|it| self.truth(it).starts).min().unwrap_or(frees).min(frees);
        Some(Expected { index, from, to })
    }

    fn claimed_end(&self, turn: &Expected) -> WallTime {
        // A pre-empted turn ends when the next turn starts.
        let frees = self.frees(turn.index);
        if turn.to < frees {
            let by = (0..self.claims.len()).find(|it| self.truth(*it).starts == turn.to);
            by.map_or(self.frees_claimed(turn.index), |by| self.claims[by].starts)
        } else {
            self.frees_claimed(turn.index)
        }
    }

    fn name(&self, zone: usize, index: usize) -> String {
        format!("zone {zone}, announcement {:x}", self.truth(index).id.0)
    }

    fn received(&self, zone: usize, from: TrueTime, to: TrueTime) -> Vec<Heard> {
        let received = self.world.zones[zone].received.iter();
        received.filter(|received| received.from < to && from < received.to).copied().collect()
    }

    fn judge_clear(&self, zone: usize, cluster: &[usize], outcome: &mut ZonesOutcome) {
        let (from, to) = self.window(cluster);
        let mut received = self.received(zone, from, to);
        let turns = cluster.iter().filter_map(|index| self.expects(*index, cluster));
        for turn in turns.filter(|turn| turn.to.since(turn.from) > NEAR) {
            outcome.expected += 1;
            let station = self.truth(turn.index).station;
            let found = received.iter().position(|received| {
                received.station == station
                    && received.to.since(turn.to).abs() <= NEAR
                    && received.from.since(turn.from) > -NEAR
                    && received.from.since(turn.from) < JOINED
            });
            match found {
                None => outcome.lost.push(format!("{}: {turn:?}", self.name(zone, turn.index))),
                Some(at) => {
                    let found = received.swap_remove(at);
                    outcome.late += usize::from(found.from.since(turn.from) > NEAR);
                }
            }
        }
        // Ignore turns shorter than the errors of both ends: another turn may end them at once.
        let rest =
            received.iter().filter(|received| received.to.since(received.from) > NEAR + NEAR);
        outcome.doubled.extend(rest.map(|received| format!("zone {zone}: {received:?}")));
    }

    /// Under faults, an announcement without a competitor must play while its packets arrive.
    fn judge_faulty(&self, zone: usize, cluster: &[usize], outcome: &mut ZonesOutcome) {
        for &index in cluster {
            let truth = self.truth(index);
            let contested = cluster.iter().any(|other| {
                let precedes = self.claims[*other].precedence(&self.claims[index]).is_gt();
                precedes
                    && self.claims[*other].starts < self.frees_claimed(index)
                    && self.claims[index].starts < self.frees_claimed(*other)
            });
            let reachable = |from, to| self.is_reachable(zone, &[truth.station], from, to);
            let windows = 0..truth.ends.since(truth.starts).as_nanos() / 100_000_000;
            let mut windows = windows.map(|step| {
                let from = truth.starts.after(Span::from_millis(100).times(step));
                (from, from.after(JOINED))
            });
            let due =
                windows.find(|(from, to)| *to < truth.ends && reachable(from.after(-NEAR), *to));
            if let Some((from, to)) = due.filter(|_| !contested) {
                outcome.due += 1;
                let received = self.received(zone, from, to);
                if !received.iter().any(|received| received.station == truth.station) {
                    outcome.lost.push(format!("{}, under faults", self.name(zone, index)));
                }
            }
        }
    }

    /// No zone plays two announcements at once.
    fn judge_overlaps(&self, zone: usize, outcome: &mut ZonesOutcome) {
        let received = &self.world.zones[zone].received;
        for (index, one) in received.iter().enumerate() {
            for other in &received[index + 1..] {
                if one.to.min(other.to).since(one.from.max(other.from)) > NEAR {
                    outcome.doubled.push(format!("zone {zone}: {one:?} and {other:?}"));
                }
            }
        }
    }

    fn measure_skews(&self, outcome: &mut ZonesOutcome) {
        for (index, truth) in self.world.truths.iter().enumerate() {
            let mut found: [Vec<TrueTime>; 3] = Default::default();
            for &zone in &truth.targets {
                let clusters = self.clusters(zone);
                let cluster = clusters.iter().find(|cluster| cluster.contains(&index));
                let cluster = cluster.filter(|cluster| self.is_clear(zone, cluster));
                let Some(cluster) = cluster else { continue };
                let zone = &self.world.zones[zone];
                let started = zone.started.iter().find(|(id, _)| *id == truth.id);
                found[0].extend(started.map(|(_, at)| *at));
                let after = |from: TrueTime, down| {
                    let mut crossings = zone.crossings.iter();
                    crossings.find(|it| it.0 >= from.after(-NEAR) && it.1 == down)
                };
                let turns = cluster.iter().filter_map(|it| self.expects(*it, cluster));
                let is_first = cluster.first() == Some(&index);
                let next = cluster.get(1).map(|it| self.truth(*it).starts);
                if is_first && next.is_none_or(|next| next.since(truth.starts) > NEAR) {
                    found[1].extend(after(truth.starts, true).map(|it| it.0));
                }
                let last = turns.max_by_key(|turn| turn.to);
                let restores = truth.dies.is_none() && truth.ends.since(truth.starts) > NEAR;
                if restores && last.is_some_and(|it| it.index == index && it.to == truth.ends) {
                    found[2].extend(after(truth.ends, false).map(|it| it.0));
                }
            }
            let into =
                [&mut outcome.start_skews, &mut outcome.duck_skews, &mut outcome.restore_skews];
            for (skews, times) in into.into_iter().zip(found) {
                for (number, time) in times.iter().enumerate() {
                    skews.extend(times[number + 1..].iter().map(|it| it.since(*time).abs()));
                }
            }
        }
    }
}
