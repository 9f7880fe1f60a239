//! One exchange by what it says of a line: how long each leg took.

use super::Exchange;
use super::line::Line;

/// An exchange in nanoseconds: asked here, received and left there, answered here.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeptExchange {
    pub(super) asked: i64,
    pub(super) received: i64,
    pub(super) left: i64,
    pub(super) answered: i64,
    pub(super) reading_error: f64,
    /// What the legs took by the line as it was then.
    pub(super) legs: Legs,
}

/// How an exchange lies about the line: what the legs there and back took by it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Legs {
    pub(super) there: f64,
    pub(super) back: f64,
}

impl Legs {
    pub(super) const ENDLESS: Self = Self { there: f64::MAX, back: f64::MAX };

    pub(super) fn round_trip(self) -> f64 {
        self.there + self.back
    }

    /// The shorter of each leg.
    pub(super) fn least(self, other: Self) -> Self {
        Self { there: self.there.min(other.there), back: self.back.min(other.back) }
    }
}

/// How the legs were before the path became another, and what that made of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before {
    pub(super) usual: Legs,
    pub(super) longer: Legs,
    pub(super) lopsided: f64,
}

impl From<&Exchange> for KeptExchange {
    fn from(exchange: &Exchange) -> Self {
        Self {
            asked: exchange.asked.as_nanos(),
            received: exchange.peer_received.as_unix_nanos(),
            left: exchange.peer_answered.as_unix_nanos(),
            answered: exchange.answered.as_nanos(),
            reading_error: exchange.reading_error.as_nanos() as f64,
            legs: Legs::default(),
        }
    }
}

impl KeptExchange {
    pub(super) fn legs(&self, line: &Line) -> Legs {
        Legs {
            there: line.error(self.asked, self.received),
            back: -line.error(self.answered, self.left),
        }
    }

    pub(super) fn by(self, line: &Line) -> Self {
        Self { legs: self.legs(line), ..self }
    }
}
