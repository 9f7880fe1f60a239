//! What happens again and again, and is told once for it.

use crate::time::{LocalTime, Span};

/// What is counted together.
pub const LATELY: Span = Span::from_secs(10);

/// Counts what happens now and then, and says once if it happens too often.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Often {
    /// Since when they are counted, and how many there were by then.
    since: Option<(LocalTime, u64)>,
    told: bool,
}

impl Often {
    /// More than a talker that is begun again by hand, whose clock is set, or whose path changes.
    const MANY: u64 = 8;

    /// Takes how many there were by `at`; tells how many there were lately, once, if that is too many.
    pub(super) fn follow(&mut self, times: u64, at: LocalTime) -> Option<u64> {
        let (since, before) = *self.since.get_or_insert((at, times));
        let lately = times.saturating_sub(before);
        if lately >= Self::MANY && !self.told {
            self.told = true;
            return Some(lately);
        }
        if at - since >= LATELY {
            self.since = Some((at, times));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_eight_times_in_ten_seconds_is_told_once_and_what_is_now_and_then_is_not() {
        let second = |second: i64| LocalTime::ZERO + Span::from_secs(second);
        let mut often = Often::default();
        let told: Vec<_> = (0..100).filter_map(|at| often.follow(at, second(at as i64))).collect();
        assert_eq!(told, [8]);
        let mut seldom = Often::default();
        let told = (0..100).find_map(|at| seldom.follow(at, second(2 * at as i64)));
        assert_eq!(told, None);
    }
}
