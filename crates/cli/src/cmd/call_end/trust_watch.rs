//! Whether those that a handshake took are trusted still, while what came of it lasts.

use tautline_proto::time::{LocalTime, Span};

/// From one look at the list of trusted hosts to the next: a look asks the system whether the file is another, and what is
/// ended for it is ended within two seconds.
const LOOK_EVERY: Span = Span::from_secs(1);

#[derive(Debug)]
pub(crate) struct TrustWatch(LocalTime);

impl Default for TrustWatch {
    fn default() -> Self {
        Self(LocalTime::ZERO)
    }
}

impl TrustWatch {
    /// Whether it is time to look; then it is time again a second later.
    pub(crate) fn is_due(&mut self, now: LocalTime) -> bool {
        let is_due = now >= self.0;
        if is_due {
            self.0 = now + LOOK_EVERY;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_looked_at_each_second_and_at_once_after_a_stall() {
        let mut watch = TrustWatch::default();
        let at = |millis| LocalTime::ZERO + Span::from_millis(millis);
        let looks = |watch: &mut TrustWatch, beats: core::ops::Range<i64>| -> Vec<i64> {
            beats.map(|beat| beat * 20).filter(|millis| watch.is_due(at(*millis))).collect()
        };
        assert_eq!(looks(&mut watch, 250..402), [5_000, 6_000, 7_000, 8_000]);
        assert_eq!(looks(&mut watch, 600..651), [12_000, 13_000], "each look from the last");
    }
}
