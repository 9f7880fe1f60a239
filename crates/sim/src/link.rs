//! One way of a network path: when each packet arrives, once, twice or never.

use fastrand::Rng;
use tautline_proto::time::Span;

use crate::clock::{TrueTime, normal};

/// How much later than the fastest a packet comes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Jitter {
    /// Not at all.
    None,
    /// Evenly between nothing and this.
    Uniform(Span),
    /// Half of a normal distribution of this deviation.
    HalfNormal(Span),
    /// Exponentially, this much on average.
    Exponential(Span),
    /// By Pareto's law: at least `scale`, with a tail the heavier the smaller `shape`; never more
    /// than `most`.
    Pareto {
        /// The least.
        scale: Span,
        /// Of the tail.
        shape: f64,
        /// The greatest.
        most: Span,
    },
}

/// Draws one delay.
pub(crate) fn draw(jitter: Jitter, rng: &mut Rng) -> Span {
    jitter.draw(rng)
}

impl Jitter {
    fn draw(self, rng: &mut Rng) -> Span {
        let nanos = |span: Span| span.as_nanos() as f64;
        let drawn = match self {
            Self::None => 0.0,
            Self::Uniform(most) => rng.f64() * nanos(most),
            Self::HalfNormal(deviation) => normal(rng).abs() * nanos(deviation),
            Self::Exponential(mean) => -(1.0 - rng.f64()).ln() * nanos(mean),
            Self::Pareto { scale, shape, most } => {
                (nanos(scale) / (1.0 - rng.f64()).powf(1.0 / shape)).min(nanos(most))
            }
        };
        Span::from_nanos(drawn as i64)
    }
}

/// Loss that comes in bursts: a chain of two states (Gilbert 1960, Elliott 1963).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Loss {
    /// Chance that a good packet is followed by a bad state.
    pub into_bad: f64,
    /// Chance that a bad packet is followed by the good state; its inverse is the mean length of a
    /// burst.
    pub into_good: f64,
    /// Chance of loss in the good state.
    pub in_good: f64,
    /// Chance of loss in the bad state.
    pub in_bad: f64,
}

impl Loss {
    /// Nothing is lost.
    pub const NONE: Self = Self { into_bad: 0.0, into_good: 1.0, in_good: 0.0, in_bad: 0.0 };

    /// Each packet is lost with this chance, whatever became of the one before.
    pub const fn random(chance: f64) -> Self {
        Self { in_good: chance, ..Self::NONE }
    }

    /// This share of packets is lost, in bursts of this mean length.
    pub fn bursts(share: f64, mean_length: f64) -> Self {
        let into_good = 1.0 / mean_length;
        Self { into_bad: into_good * share / (1.0 - share), into_good, in_good: 0.0, in_bad: 1.0 }
    }
}

/// Times in which packets are held and then come all at once: a Wi-Fi scan, a switch that is
/// busy, a modem that retrains.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Holds {
    /// Mean time from one to the next, exponentially distributed.
    pub every: Span,
    /// How long each lasts.
    pub length: Jitter,
}

/// A bottleneck with a queue before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bottleneck {
    /// Bits per second.
    pub rate: u64,
    /// Bytes that may wait; what comes on top is dropped.
    pub queue: usize,
}

/// What a path does to packets.
#[derive(Debug, Clone, PartialEq)]
pub struct PathModel {
    /// The least that a packet takes.
    pub delay: Span,
    /// What comes on top for each packet.
    pub jitter: Jitter,
    /// Whether jitter lets packets overtake each other. Queues do not.
    pub overtakes: bool,
    /// Loss.
    pub loss: Loss,
    /// Chance that a packet comes twice.
    pub duplicates: f64,
    /// Chance that a packet is held back by this much and is overtaken.
    pub reorders: (f64, Span),
    /// Times in which everything is held.
    pub holds: Option<Holds>,
    /// A bottleneck.
    pub bottleneck: Option<Bottleneck>,
    /// Times in which nothing comes through, in order.
    pub outages: Vec<(TrueTime, TrueTime)>,
    /// The largest datagram that is carried whole; a longer one goes in as many parts as it takes,
    /// each of which may be lost.
    pub mtu: usize,
}

impl PathModel {
    /// A path that takes `delay` and does nothing else.
    pub const fn ideal(delay: Span) -> Self {
        Self {
            delay,
            jitter: Jitter::None,
            overtakes: false,
            loss: Loss::NONE,
            duplicates: 0.0,
            reorders: (0.0, Span::ZERO),
            holds: None,
            bottleneck: None,
            outages: Vec::new(),
            mtu: 1500,
        }
    }
}

/// A path that packets take, the same way for the same seed.
#[derive(Debug, Clone)]
pub struct Path {
    model: PathModel,
    rng: Rng,
    bad: bool,
    /// When the last packet in order arrived.
    last: TrueTime,
    /// When the bottleneck has sent all that waits.
    busy_until: TrueTime,
    holds: Pauses,
}

/// Bytes of Ethernet, IPv4 and UDP around a datagram: preamble and gap 20, header and check 18, IP
/// 20, UDP 8.
const FRAMING: usize = 66;

impl Path {
    /// A path that behaves as `model` says.
    pub fn new(model: PathModel, seed: u64) -> Self {
        Self {
            holds: Pauses::new(model.holds, !seed),
            model,
            rng: Rng::with_seed(seed),
            bad: false,
            last: TrueTime::ZERO,
            busy_until: TrueTime::ZERO,
        }
    }

    /// Sends a datagram of `bytes` at `now`, no earlier than the one before; tells `arrives` of
    /// each instant at which it arrives.
    pub fn carry(&mut self, bytes: usize, now: TrueTime, mut arrives: impl FnMut(TrueTime)) {
        let parts = (bytes + 28).div_ceil(self.model.mtu.max(64));
        // Every part meets its own luck, whether or not one before it was lost.
        let lost = (0..parts).filter(|_| self.loses()).count() > 0;
        let out = self.model.outages.iter().any(|(from, to)| (*from..*to).contains(&now));
        let Some(queued) = self.queue(bytes + parts * FRAMING, now) else { return };
        let jitter = self.model.jitter.draw(&mut self.rng);
        let mut at = self.holds.end_of(queued.after(self.model.delay + jitter));
        let (chance, back) = self.model.reorders;
        if self.rng.f64() < chance {
            at = at.after(back);
        } else if !self.model.overtakes {
            at = at.max(self.last);
            self.last = at;
        }
        let twice = self.rng.f64() < self.model.duplicates;
        if lost || out {
            return;
        }
        arrives(at);
        if twice {
            arrives(at.after(Span::from_micros(50)));
        }
    }

    fn loses(&mut self) -> bool {
        let Loss { into_bad, into_good, in_good, in_bad } = self.model.loss;
        let lost = self.rng.f64() < if self.bad { in_bad } else { in_good };
        let flips = self.rng.f64() < if self.bad { into_good } else { into_bad };
        self.bad ^= flips;
        lost
    }

    /// When the bottleneck has sent the packet, or `None` if its queue is full.
    fn queue(&mut self, bytes: usize, now: TrueTime) -> Option<TrueTime> {
        let Some(Bottleneck { rate, queue }) = self.model.bottleneck else { return Some(now) };
        let waiting = self.busy_until.since(now).max(Span::ZERO);
        let nanos = |bytes: usize| {
            Span::from_nanos((bytes as u128 * 8_000_000_000 / u128::from(rate.max(1))) as i64)
        };
        if waiting > nanos(queue) {
            return None;
        }
        self.busy_until = self.busy_until.max(now).after(nanos(bytes));
        Some(self.busy_until)
    }
}

/// Times in which everything stands still, one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Pauses {
    holds: Option<Holds>,
    rng: Rng,
    /// The present or next one.
    next: (TrueTime, TrueTime),
}

impl Pauses {
    pub(crate) fn new(holds: Option<Holds>, seed: u64) -> Self {
        let mut pauses =
            Self { holds, rng: Rng::with_seed(seed), next: (TrueTime::ZERO, TrueTime::ZERO) };
        pauses.draw(TrueTime::ZERO);
        pauses
    }

    fn draw(&mut self, after: TrueTime) {
        let Some(holds) = self.holds else { return };
        let from = after.after(Jitter::Exponential(holds.every).draw(&mut self.rng));
        self.next = (from, from.after(holds.length.draw(&mut self.rng)));
    }

    /// The end of the pause that `at` falls into, or `at`. Asked in rising order, nearly.
    pub(crate) fn end_of(&mut self, at: TrueTime) -> TrueTime {
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

    /// Arrivals of `count` packets of 200 bytes sent every millisecond.
    fn arrivals(model: PathModel, count: i64, seed: u64) -> Vec<Vec<TrueTime>> {
        let mut path = Path::new(model, seed);
        (0..count)
            .map(|index| {
                let mut came = vec![];
                path.carry(200, TrueTime::from_nanos(index * 1_000_000), |at| came.push(at));
                came
            })
            .collect()
    }

    #[test]
    fn random_loss_loses_its_share() {
        let model = PathModel { loss: Loss::random(0.05), ..PathModel::ideal(Span::ZERO) };
        let lost = arrivals(model, 200_000, 1).iter().filter(|came| came.is_empty()).count();
        assert!((9_700..=10_300).contains(&lost), "{lost}");
    }

    #[test]
    fn burst_loss_loses_its_share_in_bursts_of_its_length() {
        let model = PathModel { loss: Loss::bursts(0.2, 3.0), ..PathModel::ideal(Span::ZERO) };
        let came: Vec<bool> =
            arrivals(model, 300_000, 2).iter().map(|came| !came.is_empty()).collect();
        let lost = came.iter().filter(|came| !**came).count();
        let bursts = came.windows(2).filter(|two| two[0] && !two[1]).count();
        assert!((57_000..=63_000).contains(&lost), "{lost}");
        let length = lost as f64 / bursts as f64;
        assert!((2.9..=3.1).contains(&length), "{length}");
    }

    #[test]
    fn a_queue_keeps_order_and_jitter_that_overtakes_does_not() {
        let jitter = Jitter::Uniform(Span::from_millis(5));
        for overtakes in [false, true] {
            let model = PathModel { jitter, overtakes, ..PathModel::ideal(Span::ZERO) };
            let came = arrivals(model, 1000, 3).concat();
            assert_eq!(came.is_sorted(), !overtakes);
        }
    }

    #[test]
    fn a_bottleneck_delays_and_then_drops() {
        // 266 bytes a millisecond are 2.128 Mbit/s: twice what goes through.
        let bottleneck = Some(Bottleneck { rate: 1_064_000, queue: 2660 });
        let model = PathModel { bottleneck, ..PathModel::ideal(Span::ZERO) };
        let came = arrivals(model, 1000, 4);
        let dropped = came.iter().filter(|came| came.is_empty()).count();
        assert!((480..=500).contains(&dropped), "{dropped}");
    }

    #[test]
    fn what_is_held_comes_at_once_when_the_hold_ends() {
        let length = Jitter::Uniform(Span::from_millis(80));
        let holds = Some(Holds { every: Span::from_millis(500), length });
        let model = PathModel { holds, ..PathModel::ideal(Span::from_micros(100)) };
        let came = arrivals(model, 20_000, 5).concat();
        assert!(came.is_sorted());
        let together = came.windows(2).filter(|two| two[0] == two[1]).count();
        assert!(together > 500, "{together}");
    }

    #[test]
    fn the_same_seed_does_the_same() {
        let model = PathModel {
            jitter: Jitter::Pareto {
                scale: Span::from_micros(100),
                shape: 1.5,
                most: Span::from_millis(50),
            },
            loss: Loss::bursts(0.1, 2.0),
            duplicates: 0.01,
            reorders: (0.02, Span::from_millis(3)),
            ..PathModel::ideal(Span::from_millis(1))
        };
        assert_eq!(arrivals(model.clone(), 5000, 9), arrivals(model.clone(), 5000, 9));
        assert_ne!(arrivals(model.clone(), 5000, 9), arrivals(model, 5000, 10));
    }
}
