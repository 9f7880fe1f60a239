//! One direction of a network path. Each packet arrives once, twice or never.

mod path;

use fastrand::Rng;
use tautline_proto::time::Span;

use crate::clock::{TrueTime, normal};
use crate::trace::Trace;

pub use path::Path;
pub(crate) use path::Pauses;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Jitter {
    None,
    Uniform(Span),
    /// Half of a normal distribution with this standard deviation.
    HalfNormal(Span),
    /// With this mean.
    Exponential(Span),
    /// From `scale` to `maximum`. A smaller `shape` gives a heavier tail.
    Pareto {
        scale: Span,
        shape: f64,
        maximum: Span,
    },
}

impl Jitter {
    pub(crate) fn draw(self, rng: &mut Rng) -> Span {
        let nanos = |span: Span| span.as_nanos() as f64;
        let drawn = match self {
            Self::None => 0.0,
            Self::Uniform(maximum) => rng.f64() * nanos(maximum),
            Self::HalfNormal(deviation) => normal(rng).abs() * nanos(deviation),
            Self::Exponential(mean) => -(1.0 - rng.f64()).ln() * nanos(mean),
            Self::Pareto { scale, shape, maximum } => {
                (nanos(scale) / (1.0 - rng.f64()).powf(1.0 / shape)).min(nanos(maximum))
            }
        };
        Span::from_nanos(drawn as i64)
    }
}

/// Burst loss: a two-state Markov chain (Gilbert 1960, Elliott 1963).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Loss {
    /// Per packet: probability of a change from the good to the bad state.
    pub into_bad: f64,
    /// Per packet: probability of a change back. Its inverse is the mean burst length.
    pub into_good: f64,
    pub in_good: f64,
    pub in_bad: f64,
}

impl Loss {
    pub const NONE: Self = Self { into_bad: 0.0, into_good: 1.0, in_good: 0.0, in_bad: 0.0 };

    pub const fn random(chance: f64) -> Self {
        Self { in_good: chance, ..Self::NONE }
    }

    /// Minimum mean burst length for this loss, with one packet between bursts. `share` must be
    /// below 1.
    pub fn min_burst(share: f64) -> f64 {
        (share / (1.0 - share)).max(1.0)
    }

    /// `mean_length` must be at least [`Loss::min_burst`].
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

/// Held packets arrive together: a Wi-Fi scan, a busy switch, or a modem that retrains.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Holds {
    /// Mean interval, exponentially distributed.
    pub every: Span,
    pub length: Jitter,
}

/// `rate` is in bits per second. `queue` is in bytes; excess packets are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bottleneck {
    pub rate: u64,
    pub queue: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PathModel {
    pub delay: Span,
    pub jitter: Jitter,
    /// Whether jitter reorders packets. Queues do not.
    pub overtakes: bool,
    pub loss: Loss,
    pub duplicates: f64,
    /// Reordering: probability that a packet is held back, and for how long.
    pub reorders: (f64, Span),
    pub holds: Option<Holds>,
    pub bottleneck: Option<Bottleneck>,
    /// Changes of the bottleneck's rate, in bits per second, in order. Queued packets remain.
    pub rates: Vec<(TrueTime, u64)>,
    pub outages: Vec<(TrueTime, TrueTime)>,
    /// Maximum unfragmented datagram. Each fragment of a longer datagram may be lost.
    pub mtu: usize,
    /// Longer datagrams are dropped without an error: a black hole (RFC 8899 §1.1).
    pub black_hole: Option<usize>,
    pub trace: Option<Trace>,
    /// In order. Packets on a new path may overtake packets on the old one. Nested changes are
    /// ignored.
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

    #[must_use]
    pub fn longer_from(mut self, when: TrueTime, by: Span) -> Self {
        let before = self.changes.last().map_or(&self, |(_, model)| model);
        let changed = Self { delay: before.delay + by, changes: Vec::new(), ..before.clone() };
        self.changes.push((when, changed));
        self
    }
}
