//! One way of a network path: when each packet arrives, once, twice or never.

mod path;

use fastrand::Rng;
use tautline_proto::time::Span;

use crate::clock::{TrueTime, normal};
use crate::trace::Trace;

pub use path::Path;
pub(crate) use path::Pauses;

/// How much later than the fastest a packet comes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Jitter {
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
        scale: Span,
        shape: f64,
        most: Span,
    },
}

impl Jitter {
    pub(crate) fn draw(self, rng: &mut Rng) -> Span {
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
    pub in_good: f64,
    pub in_bad: f64,
}

impl Loss {
    pub const NONE: Self = Self { into_bad: 0.0, into_good: 1.0, in_good: 0.0, in_bad: 0.0 };

    /// Each packet is lost with this chance, whatever became of the one before.
    pub const fn random(chance: f64) -> Self {
        Self { in_good: chance, ..Self::NONE }
    }

    /// The least mean length of bursts in which this share of packets, less than 1, can be lost: with
    /// one packet between two bursts.
    pub fn min_burst(share: f64) -> f64 {
        (share / (1.0 - share)).max(1.0)
    }

    /// This share of packets is lost, in bursts of this mean length, which is no less than
    /// [`Loss::min_burst`].
    pub fn bursts(share: f64, mean_length: f64) -> Self {
        let into_good = 1.0 / mean_length;
        Self { into_bad: into_good * share / (1.0 - share), into_good, in_good: 0.0, in_bad: 1.0 }
    }

    pub fn share(self) -> f64 {
        let Self { into_bad, into_good, in_good, in_bad } = self;
        let bad = if into_bad > 0.0 { into_bad / (into_bad + into_good) } else { 0.0 };
        bad * in_bad + (1.0 - bad) * in_good
    }
}

/// Times in which packets are held and then come all at once: a Wi-Fi scan, a switch that is
/// busy, a modem that retrains.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Holds {
    /// Mean time from one to the next, exponentially distributed.
    pub every: Span,
    pub length: Jitter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bottleneck {
    pub rate: u64,
    /// Bytes that may wait; what comes on top is dropped.
    pub queue: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PathModel {
    pub delay: Span,
    pub jitter: Jitter,
    /// Whether jitter lets packets overtake each other. Queues do not.
    pub overtakes: bool,
    pub loss: Loss,
    pub duplicates: f64,
    /// Chance that a packet is held back by this much and is overtaken.
    pub reorders: (f64, Span),
    pub holds: Option<Holds>,
    pub bottleneck: Option<Bottleneck>,
    /// When the bottleneck gets another rate, in bits per second, in order. What waits in its queue stays there.
    pub rates: Vec<(TrueTime, u64)>,
    /// Times in which nothing comes through, in order.
    pub outages: Vec<(TrueTime, TrueTime)>,
    /// The largest datagram that is carried whole; a longer one goes in as many parts as it takes,
    /// each of which may be lost.
    pub mtu: usize,
    /// Datagrams of more bytes vanish without a word: a black hole (RFC 8899 §1.1).
    pub black_hole: Option<usize>,
    /// A record of another network, whose delays come on top and whose losses are lost here too.
    pub trace: Option<Trace>,
    /// When the path is replaced by another, in order: what enters from then on takes the new one,
    /// and may overtake what is still on the old. A change of a change does not count.
    pub changes: Vec<(TrueTime, PathModel)>,
}

impl PathModel {
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
            rates: Vec::new(),
            outages: Vec::new(),
            mtu: 1500,
            black_hole: None,
            trace: None,
            changes: Vec::new(),
        }
    }

    /// The same, which from `when` on takes so much longer, or less if negative.
    #[must_use]
    pub fn longer_from(mut self, when: TrueTime, by: Span) -> Self {
        let before = self.changes.last().map_or(&self, |(_, model)| model);
        let changed = Self { delay: before.delay + by, changes: Vec::new(), ..before.clone() };
        self.changes.push((when, changed));
        self
    }
}
