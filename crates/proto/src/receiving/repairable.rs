//! Whether the latency of a stream has long been too short for what its packets carry.

use crate::time::{LocalTime, Span};

/// Tells once that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Repairable {
    /// It was not when last seen.
    #[default]
    InTime,
    /// It is, since then.
    ShortSince(LocalTime),
    /// It was, and that was told.
    Told,
}

impl Repairable {
    /// What the sender promises and what its packets carry change one after the other, no further
    /// apart than two of its reports.
    const PATIENCE: Span = Span::from_secs(1);

    /// Takes whether the latency is too short at `now`, and says whether that is to be told.
    pub(super) fn turns_short(&mut self, now: LocalTime, short: bool) -> bool {
        let next = match *self {
            Self::Told => Self::Told,
            _ if !short => Self::InTime,
            Self::InTime => Self::ShortSince(now),
            Self::ShortSince(since) if now - since >= Self::PATIENCE => Self::Told,
            since => since,
        };
        let before = core::mem::replace(self, next);
        next == Self::Told && before != Self::Told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_that_stays_too_short_is_told_of_once() {
        let at = |millis| LocalTime::ZERO + Span::from_millis(millis);
        let mut repairable = Repairable::default();
        let mut told = Vec::new();
        for millis in (0..5_000).step_by(20) {
            // Half a second of it is a change under way.
            let short = (200..700).contains(&millis) || millis >= 2_000;
            if repairable.turns_short(at(millis), short) {
                told.push(millis);
            }
        }
        assert_eq!(told, [3_000]);
    }
}
