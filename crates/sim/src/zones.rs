//! Zones that play announcements, and stations that send them. Claims travel as bytes, clocks are
//! mapped by exchanges, and an oracle knows the truth ([`ZonesOutcome`]).

mod oracle;
mod zone;

use std::collections::BTreeMap;

use fastrand::Rng;
use tautline_proto::time::{LocalTime, Span, WallTime};
use tautline_proto::wire::rtcp::{MAX_CLAIM_BYTES, write_claim};
use tautline_proto::zone::{AnnouncementId, Claim, ClaimSender, Duck, Priority, Targets};

use crate::clock::{ClockError, SimClock, TrueTime};
use crate::link::{Jitter, Loss, Path, PathModel};
use zone::SimZone;

pub use oracle::ZonesOutcome;

/// Presentation minus press of the button.
const LINK_OFFSET: Span = Span::from_millis(20);
const PTIME: Span = Span::from_millis(5);
/// Number of the group of all zones.
const ALL_ZONES: u16 = 1000;
/// Time after the last announcement: zones restore the program and forget everything.
const QUIET: Span = Span::from_secs(5);
/// Clocks are mapped before the first announcement.
const MAPPED: Span = Span::from_secs(2);
/// A restarted zone is down for this long.
const DOWN: Span = Span::from_secs(1);

/// Wall clock of stations at true time 0.
const EPOCH: i64 = 1_800_000_000_000_000_000;

#[derive(Debug, Clone)]
pub struct ZonesScenario {
    pub seed: u64,
    pub zones: usize,
    pub stations: usize,
    /// In which announcements start.
    pub span: Span,
    pub loss: Loss,
    /// Partitions, dying stations and restarting zones.
    pub faults: bool,
}

impl ZonesScenario {
    pub fn random(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        Self {
            seed,
            zones: rng.usize(2..=6),
            stations: rng.usize(2..=5),
            span: Span::from_secs(15),
            loss: Loss::random(0.01),
            faults: seed.is_multiple_of(2),
        }
    }
}

/// An announcement as it was.
#[derive(Debug, Clone)]
struct Truth {
    id: AnnouncementId,
    station: usize,
    priority: Priority,
    /// Zones that should play the announcement, if they can.
    targets: Vec<usize>,
    pressed: TrueTime,
    length: Span,
    /// The station dies this long after the press.
    dies: Option<Span>,
    /// Presentation time of the first frame.
    starts: TrueTime,
    /// Presentation time after the last sent frame.
    ends: TrueTime,
}

#[derive(Debug, Clone)]
struct Cut {
    zones: Vec<usize>,
    stations: Vec<usize>,
    from: TrueTime,
    to: TrueTime,
}

struct SimStation {
    clock: SimClock,
    /// Wall clock minus local clock.
    ahead: Span,
}

impl SimStation {
    fn now(&mut self, at: TrueTime) -> (LocalTime, WallTime) {
        let local = self.clock.reading(at);
        (local, WallTime::of_local(local, self.ahead))
    }
}

enum ZonesEvent {
    Press(usize),
    Claim(usize),
    Packet(usize, i64),
    Exchange(usize, usize),
    Datagram(usize, usize, Vec<u8>),
    Sound(usize, usize, WallTime),
    Restart(usize),
}

struct ZonesWorld {
    now: TrueTime,
    rng: Rng,
    events: BTreeMap<(TrueTime, u64), ZonesEvent>,
    order: u64,
    stations: Vec<SimStation>,
    zones: Vec<SimZone>,
    truths: Vec<Truth>,
    senders: Vec<Option<ClaimSender>>,
    cuts: Vec<Cut>,
    restarts: Vec<(usize, TrueTime)>,
    /// Per zone and station: sound and claims, questions, answers.
    paths: Vec<Vec<[Path; 3]>>,
}

/// Plays a scenario and judges it.
pub fn play_zones(scenario: &ZonesScenario) -> ZonesOutcome {
    let mut world = ZonesWorld::new(scenario);
    let end = TrueTime::ZERO.after(MAPPED + scenario.span + QUIET);
    while let Some(((when, _), event)) = world.events.pop_first().filter(|((at, _), _)| *at < end) {
        world.now = when;
        world.happen(event);
    }
    world.now = end;
    world.zones.iter_mut().for_each(|zone| zone.advance(end));
    oracle::judge(world)
}

fn random_clock(rng: &mut Rng) -> SimClock {
    let start = LocalTime::from_nanos(rng.i64(0..1_000_000_000_000_000));
    SimClock::new(ClockError::quartz(start, rng.f64() * 100.0 - 50.0), vec![], rng.u64(..))
}

impl ZonesWorld {
    fn new(scenario: &ZonesScenario) -> Self {
        let mut rng = Rng::with_seed(!scenario.seed);
        let wrong = rng.u8(..4) == 0;
        let stations: Vec<SimStation> = (0..scenario.stations)
            .map(|number| {
                let mut clock = random_clock(&mut rng);
                // NTP on a LAN; one clock is not set.
                let mut wall = rng.i64(-2_000_000..2_000_000) + EPOCH;
                if wrong && number == 0 {
                    wall += 10_000_000_000 + rng.i64(0..10) * 100_000_000;
                    wall += rng.i64(-8_000_000..8_000_000);
                }
                let ahead =
                    Span::from_nanos(wall) - (clock.reading(TrueTime::ZERO) - LocalTime::ZERO);
                SimStation { clock, ahead }
            })
            .collect();
        let mut world = Self {
            now: TrueTime::ZERO,
            events: BTreeMap::new(),
            order: 0,
            zones: (0..scenario.zones)
                .map(|number| SimZone::new(number, scenario.stations, random_clock(&mut rng)))
                .collect(),
            stations,
            truths: Vec::new(),
            senders: Vec::new(),
            cuts: Vec::new(),
            restarts: Vec::new(),
            paths: Vec::new(),
            rng,
        };
        world.draw_truths(scenario);
        if scenario.faults {
            world.draw_faults(scenario);
        }
        world.lay_paths(scenario);
        for zone in 0..scenario.zones {
            for station in 0..scenario.stations {
                let when = Span::from_micros(world.rng.i64(0..50_000));
                world.after(when, ZonesEvent::Exchange(zone, station));
            }
        }
        world
    }

    fn draw_truths(&mut self, scenario: &ZonesScenario) {
        for station in 0..scenario.stations {
            let mut at = MAPPED;
            for number in 0.. {
                at += Span::from_millis(self.rng.i64(150..4000));
                // A station often starts at the same instant as other stations.
                if self.rng.bool() {
                    at = (LocalTime::ZERO + at).next_of(Span::from_millis(500)) - LocalTime::ZERO;
                }
                if at > MAPPED + scenario.span {
                    break;
                }
                self.draw_truth(scenario, station, number, TrueTime::ZERO.after(at));
                at += self.truths.last().map_or(Span::ZERO, |it| it.length);
            }
        }
        self.senders.resize_with(self.truths.len(), || None);
    }

    fn draw_truth(&mut self, scenario: &ZonesScenario, station: usize, number: u64, at: TrueTime) {
        let rng = &mut self.rng;
        let priority = Priority([100, 100, 100, 150, 230, 255][rng.usize(..6)]);
        let zones = 0..scenario.zones;
        let some: Vec<usize> = zones.clone().filter(|_| rng.bool()).collect();
        let targets = if rng.bool() || some.is_empty() { zones.collect() } else { some };
        let length = PTIME.times(rng.i64(40..600));
        let dies = scenario.faults && rng.u8(..10) == 0;
        let dies = dies
            .then(|| LINK_OFFSET + PTIME.times(rng.i64(0..length.as_nanos() / PTIME.as_nanos())));
        self.truths.push(Truth {
            id: AnnouncementId((station as u64) << 32 | number),
            station,
            priority,
            targets,
            pressed: at,
            length,
            dies,
            starts: at.after(LINK_OFFSET),
            ends: at.after(LINK_OFFSET),
        });
        let press = ZonesEvent::Press(self.truths.len() - 1);
        self.after(at.since(TrueTime::ZERO), press);
    }

    fn draw_faults(&mut self, scenario: &ZonesScenario) {
        let rng = &mut self.rng;
        for _ in 0..rng.usize(0..3) {
            let some =
                |rng: &mut Rng, count: usize| (0..count).filter(|_| rng.bool()).collect::<Vec<_>>();
            let from = MAPPED + Span::from_millis(rng.i64(0..15_000));
            let to = from + Span::from_millis(rng.i64(50..4000));
            let [from, to] = [from, to].map(|at| TrueTime::ZERO.after(at));
            let (zones, stations) = (some(rng, scenario.zones), some(rng, scenario.stations));
            self.cuts.push(Cut { zones, stations, from, to });
        }
        for _ in 0..rng.usize(0..2) {
            let at = MAPPED + Span::from_millis(rng.i64(0..15_000));
            let zone = rng.usize(..scenario.zones);
            self.restarts.push((zone, TrueTime::ZERO.after(at)));
        }
        for (zone, at) in self.restarts.clone() {
            self.after(at.since(TrueTime::ZERO), ZonesEvent::Restart(zone));
        }
    }

    fn lay_paths(&mut self, scenario: &ZonesScenario) {
        for zone in 0..scenario.zones {
            let paths = (0..scenario.stations).map(|station| {
                let cuts = self.cuts.iter();
                let cuts = cuts.filter(|it| it.zones.contains(&zone));
                let cuts = cuts.filter(|it| it.stations.contains(&station));
                let model = PathModel {
                    jitter: Jitter::Exponential(Span::from_micros(60)),
                    loss: scenario.loss,
                    duplicates: 0.01,
                    reorders: (0.01, Span::from_millis(3)),
                    outages: cuts.map(|it| (it.from, it.to)).collect(),
                    ..PathModel::ideal(Span::from_micros(200))
                };
                [(); 3].map(|()| Path::new(model.clone(), self.rng.u64(..)))
            });
            let paths = paths.collect();
            self.paths.push(paths);
        }
    }

    fn after(&mut self, span: Span, event: ZonesEvent) {
        self.order += 1;
        self.events.insert((self.now.after(span), self.order), event);
    }

    fn happen(&mut self, event: ZonesEvent) {
        match event {
            ZonesEvent::Press(index) => self.press(index),
            ZonesEvent::Claim(index) => self.claim(index),
            ZonesEvent::Packet(index, number) => self.send_packet(index, number),
            ZonesEvent::Exchange(zone, station) => self.exchange(zone, station),
            ZonesEvent::Datagram(zone, station, bytes) => {
                self.zones[zone].handle_datagram(station, &bytes, self.now);
            }
            ZonesEvent::Sound(zone, station, until) => {
                self.zones[zone].handle_sound(station, until, self.now);
            }
            ZonesEvent::Restart(zone) => {
                self.zones[zone].restart(self.now, DOWN);
            }
        }
    }

    fn press(&mut self, index: usize) {
        let truth = &mut self.truths[index];
        let station = &mut self.stations[truth.station];
        let (local, wall) = station.now(self.now);
        let claim = Claim {
            id: truth.id,
            priority: truth.priority,
            rank: truth.station as u16,
            starts: wall + LINK_OFFSET,
            ends: None,
            sent: wall,
            longest: Span::from_secs(60),
            duck: Duck::of(truth.priority.class()),
        };
        truth.starts = station.clock.when(local + LINK_OFFSET, self.now);
        truth.ends = truth.starts;
        self.senders[index] = Some(ClaimSender::new(claim, local));
        self.claim(index);
        self.schedule_packet(index, 1);
    }

    fn is_dead(&self, index: usize) -> bool {
        let truth = &self.truths[index];
        truth.dies.is_some_and(|dies| self.now >= truth.pressed.after(dies))
    }

    fn claim(&mut self, index: usize) {
        if self.is_dead(index) {
            return;
        }
        let truth = &self.truths[index];
        let station = &mut self.stations[truth.station];
        let (local, wall) = station.now(self.now);
        let Some(sender) = &mut self.senders[index] else { return };
        let claim = sender.poll(local, wall);
        let due = sender.poll_timeout();
        if claim.is_some() && !due.is_never() {
            // A clock's reading may be a nanosecond off.
            let next = station.clock.when(due, self.now).since(self.now) + Span::from_nanos(10);
            self.after(next, ZonesEvent::Claim(index));
        }
        claim.iter().for_each(|claim| self.send_claim(index, claim));
    }

    fn send_claim(&mut self, index: usize, claim: &Claim) {
        let Truth { station, ref targets, .. } = self.truths[index];
        let numbers: Vec<[u8; 2]> = if targets.len() == self.zones.len() {
            vec![ALL_ZONES.to_be_bytes()]
        } else {
            targets.iter().map(|zone| (*zone as u16 + 1).to_be_bytes()).collect()
        };
        let mut bytes = [0; MAX_CLAIM_BYTES];
        let targets = Targets::new(&numbers).expect("a scenario has few zones");
        let length = write_claim(station as u32, claim, targets, &mut bytes);
        let bytes = &bytes[..length.expect("a claim fits its maximum")];
        for zone in 0..self.zones.len() {
            let mut arrivals = Vec::new();
            self.paths[zone][station][0].carry(bytes.len(), self.now, |at| arrivals.push(at));
            // An attacker sends some claims again later.
            if self.rng.u8(..50) == 0 {
                arrivals.push(self.now.after(Span::from_millis(self.rng.i64(1100..8000))));
            }
            for at in arrivals {
                let event = ZonesEvent::Datagram(zone, station, bytes.to_vec());
                self.after(at.since(self.now), event);
            }
        }
    }

    fn schedule_packet(&mut self, index: usize, number: i64) {
        let truth = &self.truths[index];
        let station = &mut self.stations[truth.station];
        let pressed = station.clock.reading(truth.pressed);
        let due = station.clock.when(pressed + PTIME.times(number), self.now);
        self.after(due.since(self.now), ZonesEvent::Packet(index, number));
    }

    fn send_packet(&mut self, index: usize, number: i64) {
        if self.is_dead(index) {
            return;
        }
        let Truth { station, length, starts, .. } = self.truths[index];
        let (local, _) = self.stations[station].now(self.now);
        let Some(sender) = &mut self.senders[index] else { return };
        let until = sender.claim().starts + PTIME.times(number);
        let is_last = PTIME.times(number) >= length;
        if is_last {
            sender.end(until, local);
            self.truths[index].dies = None;
        }
        self.truths[index].ends = starts.after(PTIME.times(number));
        for zone in 0..self.zones.len() {
            let mut arrivals = Vec::new();
            self.paths[zone][station][0].carry(200, self.now, |at| arrivals.push(at));
            for at in arrivals {
                self.after(at.since(self.now), ZonesEvent::Sound(zone, station, until));
            }
        }
        if is_last {
            self.claim(index);
        } else {
            self.schedule_packet(index, number + 1);
        }
    }

    /// A zone reads a station's clock: quickly at first, then twice a second.
    fn exchange(&mut self, zone: usize, station: usize) {
        let [_, there, back] = &mut self.paths[zone][station];
        let (mut asked, mut answered) = (None, None);
        there.carry(100, self.now, |at| asked = Some(at));
        if let Some(asked) = asked {
            back.carry(100, asked, |at| answered = Some(at));
        }
        if let Some((asked, answered)) = asked.zip(answered) {
            let (_, wall) = self.stations[station].now(asked);
            self.zones[zone].handle_exchange(station, self.now, wall, answered);
        }
        let next = self.zones[zone].next_exchange(station);
        self.after(next, ZonesEvent::Exchange(zone, station));
    }
}
