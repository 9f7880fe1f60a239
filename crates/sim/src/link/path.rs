//! A path in operation, packet by packet in order of departure.

use std::collections::VecDeque;

use fastrand::Rng;
use tautline_proto::time::Span;

use super::{Bottleneck, Holds, Jitter, Loss, PathModel};
use crate::clock::TrueTime;

#[derive(Debug, Clone)]
pub struct Path {
    model: PathModel,
    changes: VecDeque<(TrueTime, PathModel)>,
    begin: TrueTime,
    rng: Rng,
    bad: bool,
    last: TrueTime,
    busy_until: TrueTime,
    holds: Pauses,
    /// Time of entry and queueing delay of each datagram. `None` if not recorded.
    pub(crate) waits: Option<Vec<(TrueTime, Span)>>,
}

/// Bytes around a datagram: preamble and gap 20, Ethernet header and FCS 18, IPv4 20, UDP 8.
const FRAMING: usize = 66;

impl Path {
    pub fn new(mut model: PathModel, seed: u64) -> Self {
        Self {
            holds: Pauses::new(model.holds, !seed),
            changes: core::mem::take(&mut model.changes).into(),
            begin: TrueTime::ZERO,
            model,
            rng: Rng::with_seed(seed),
            bad: false,
            last: TrueTime::ZERO,
            busy_until: TrueTime::ZERO,
            waits: None,
        }
    }

    /// Sends a datagram of `bytes` at `now`, which must not decrease. Calls `arrives` with each
    /// arrival time.
    pub fn carry(&mut self, bytes: usize, now: TrueTime, mut arrives: impl FnMut(TrueTime)) {
        while self.changes.front().is_some_and(|(when, _)| *when <= now) {
            let next = self.changes.pop_front();
            next.into_iter().for_each(|(when, model)| self.become_other(model, when));
        }
        self.change_rate(now);
        let recorded = self.model.trace.as_ref().map(|trace| trace.at(now.since(self.begin)));
        let parts = (bytes + 28).div_ceil(self.model.mtu.max(64));
        let lost = (0..parts).filter(|_| self.loses()).count() > 0;
        let out = self.model.outages.iter().any(|(from, to)| (*from..*to).contains(&now))
            || self.model.black_hole.is_some_and(|maximum| bytes > maximum);
        let Some(queued) = self.queue(bytes + parts * FRAMING, now) else { return };
        let jitter = self.model.jitter.draw(&mut self.rng);
        let record = recorded.flatten().unwrap_or(Span::ZERO);
        let mut at = self.holds.end_of(queued.after(self.model.delay + jitter + record));
        let (chance, back) = self.model.reorders;
        if self.rng.f64() < chance {
            at = at.after(back);
        } else if !self.model.overtakes {
            at = at.max(self.last);
            self.last = at;
        }
        let twice = self.rng.f64() < self.model.duplicates;
        if lost || out || recorded == Some(None) {
            return;
        }
        arrives(at);
        if twice {
            arrives(at.after(Span::from_micros(50)));
        }
    }

    fn become_other(&mut self, model: PathModel, when: TrueTime) {
        self.holds = Pauses::new(model.holds, self.rng.u64(..));
        self.model = model;
        self.begin = when;
        self.bad = false;
        self.last = when;
        self.busy_until = when;
    }

    fn change_rate(&mut self, now: TrueTime) {
        while let Some((when, rate)) =
            self.model.rates.first().copied().filter(|(at, _)| *at <= now)
        {
            self.model.rates.remove(0);
            self.set_rate(rate, when);
        }
    }

    /// `rate` is in bits per second. Queued packets remain.
    pub fn set_rate(&mut self, rate: u64, when: TrueTime) {
        let Some(bottleneck) = &mut self.model.bottleneck else { return };
        let waiting = self.busy_until.since(when).max(Span::ZERO).as_nanos() as f64;
        let scaled = waiting * bottleneck.rate as f64 / rate.max(1) as f64;
        self.busy_until = when.after(Span::from_nanos(scaled as i64));
        bottleneck.rate = rate;
    }

    fn loses(&mut self) -> bool {
        let Loss { into_bad, into_good, in_good, in_bad } = self.model.loss;
        let lost = self.rng.f64() < if self.bad { in_bad } else { in_good };
        let flips = self.rng.f64() < if self.bad { into_good } else { into_bad };
        self.bad ^= flips;
        lost
    }

    /// Time at which the bottleneck has sent the packet. `None` if the queue is full.
    fn queue(&mut self, bytes: usize, now: TrueTime) -> Option<TrueTime> {
        let Some(Bottleneck { rate, queue }) = self.model.bottleneck else { return Some(now) };
        let waiting = self.busy_until.since(now).max(Span::ZERO);
        let nanos = |bytes: usize| {
            Span::from_nanos((bytes as u128 * 8_000_000_000 / u128::from(rate.max(1))) as i64)
        };
        if waiting > nanos(queue) {
            return None;
        }
        self.waits.iter_mut().for_each(|waits| waits.push((now, waiting)));
        self.busy_until = self.busy_until.max(now).after(nanos(bytes));
        Some(self.busy_until)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Pauses {
    holds: Option<Holds>,
    rng: Rng,
    next: (TrueTime, TrueTime),
    chosen: Vec<(TrueTime, TrueTime)>,
}

impl Pauses {
    pub(crate) fn new(holds: Option<Holds>, seed: u64) -> Self {
        let mut pauses =
            Self { holds, rng: Rng::with_seed(seed), next: Default::default(), chosen: Vec::new() };
        pauses.draw(TrueTime::ZERO);
        pauses
    }

    pub(crate) fn and(self, chosen: Vec<(TrueTime, TrueTime)>) -> Self {
        Self { chosen, ..self }
    }

    fn draw(&mut self, after: TrueTime) {
        let Some(holds) = self.holds else { return };
        let from = after.after(Jitter::Exponential(holds.every).draw(&mut self.rng));
        self.next = (from, from.after(holds.length.draw(&mut self.rng)));
    }

    /// Returns the end of the pause that includes `at`, or `at`. `at` must be nearly monotonic.
    pub(crate) fn end_of(&mut self, at: TrueTime) -> TrueTime {
        let within = self.chosen.iter().find(|(from, to)| (*from..*to).contains(&at));
        let at = within.map_or(at, |(_, to)| *to);
        if self.holds.is_none() {
            return at;
        }
        while at >= self.next.1 {
            self.draw(self.next.1);
        }
        if at < self.next.0 { at } else { self.next.1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Trace;

    fn arrivals(model: PathModel, count: i64, seed: u64) -> Vec<Vec<TrueTime>> {
        let mut path = Path::new(model, seed);
        (0..count)
            .map(|index| {
                let mut arrived = vec![];
                path.carry(200, TrueTime::from_nanos(index * 1_000_000), |at| arrived.push(at));
                arrived
            })
            .collect()
    }

    #[test]
    fn random_loss_loses_its_share() {
        let model = PathModel { loss: Loss::random(0.05), ..PathModel::ideal(Span::ZERO) };
        let lost = arrivals(model, 200_000, 1).iter().filter(|arrived| arrived.is_empty()).count();
        assert!((9_700..=10_300).contains(&lost), "{lost}");
    }

    #[test]
    fn burst_loss_loses_its_share_in_bursts_of_its_length() {
        let model = PathModel { loss: Loss::bursts(0.2, 3.0), ..PathModel::ideal(Span::ZERO) };
        let arrived: Vec<bool> =
            arrivals(model, 300_000, 2).iter().map(|arrived| !arrived.is_empty()).collect();
        let lost = arrived.iter().filter(|arrived| !**arrived).count();
        let bursts = arrived.windows(2).filter(|two| two[0] && !two[1]).count();
        assert!((57_000..=63_000).contains(&lost), "{lost}");
        let length = lost as f64 / bursts as f64;
        assert!((2.9..=3.1).contains(&length), "{length}");
    }

    #[test]
    fn a_queue_keeps_order_and_jitter_that_overtakes_does_not() {
        let jitter = Jitter::Uniform(Span::from_millis(5));
        for overtakes in [false, true] {
            let model = PathModel { jitter, overtakes, ..PathModel::ideal(Span::ZERO) };
            let arrived = arrivals(model, 1000, 3).concat();
            assert_eq!(arrived.is_sorted(), !overtakes);
        }
    }

    #[test]
    fn a_bottleneck_delays_and_then_drops() {
        // 266 bytes per millisecond are 2.128 Mbit/s, twice the bottleneck's rate.
        let bottleneck = Some(Bottleneck { rate: 1_064_000, queue: 2660 });
        let model = PathModel { bottleneck, ..PathModel::ideal(Span::ZERO) };
        let arrived = arrivals(model, 1000, 4);
        let dropped = arrived.iter().filter(|arrived| arrived.is_empty()).count();
        assert!((480..=500).contains(&dropped), "{dropped}");
    }

    #[test]
    fn held_packets_arrive_together_when_the_hold_ends() {
        let length = Jitter::Uniform(Span::from_millis(80));
        let holds = Some(Holds { every: Span::from_millis(500), length });
        let model = PathModel { holds, ..PathModel::ideal(Span::from_micros(100)) };
        let arrived = arrivals(model, 20_000, 5).concat();
        assert!(arrived.is_sorted());
        let together = arrived.windows(2).filter(|two| two[0] == two[1]).count();
        assert!(together > 500, "{together}");
    }

    #[test]
    fn the_same_seed_does_the_same() {
        let model = PathModel {
            jitter: Jitter::Pareto {
                scale: Span::from_micros(100),
                shape: 1.5,
                maximum: Span::from_millis(50),
            },
            loss: Loss::bursts(0.1, 2.0),
            duplicates: 0.01,
            reorders: (0.02, Span::from_millis(3)),
            ..PathModel::ideal(Span::from_millis(1))
        };
        assert_eq!(arrivals(model.clone(), 5000, 9), arrivals(model.clone(), 5000, 9));
        assert_ne!(arrivals(model.clone(), 5000, 9), arrivals(model, 5000, 10));
    }

    #[test]
    fn a_path_that_is_replaced_delays_as_the_new_one() {
        let change = TrueTime::from_nanos(10_000_000);
        let (delay, longer) = (Span::from_millis(2), Span::from_millis(30));
        let model = PathModel::ideal(delay).longer_from(change, longer);
        for (index, arrived) in (0..20).zip(arrivals(model, 20, 1)) {
            let due = if index < 10 { delay } else { delay + longer };
            let left = TrueTime::from_nanos(index * 1_000_000);
            assert_eq!(arrived, [left.after(due)], "packet {index}");
        }
    }

    #[test]
    fn shorter_path_reorders_packets() {
        let change = TrueTime::from_nanos(10_000_000);
        let (delay, less) = (Span::from_millis(30), Span::from_millis(-20));
        let model = PathModel::ideal(delay).longer_from(change, less);
        assert!(!arrivals(model, 20, 1).concat().is_sorted());
    }

    #[test]
    fn a_record_delays_and_loses_as_it_was_recorded() {
        let trace = Trace::read("delay_us every 1ms\n100\n-\n300\n").unwrap();
        let model = PathModel { trace: Some(trace), ..PathModel::ideal(Span::from_millis(1)) };
        let micros: Vec<Option<i64>> = (0..)
            .zip(arrivals(model, 6, 1))
            .map(|(index, arrived)| arrived.first().map(|at| at.as_nanos() / 1000 - index * 1000))
            .collect();
        assert_eq!(micros, [Some(1100), None, Some(1300)].repeat(2));
    }
}
