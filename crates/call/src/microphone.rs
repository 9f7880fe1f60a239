//! Muting and push-to-talk.

use tautline_proto::time::{LocalTime, Span};

/// Time until the first key repeat: terminals repeat after 660 ms by default (`xset q`).
const UNTIL_REPEATED: Span = Span::from_millis(1000);
/// Time after a repeat until the key counts as released: repeats follow within 50 ms.
const UNTIL_LET_GO: Span = Span::from_millis(500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Microphone {
    pub(crate) muted: bool,
    talks_until: LocalTime,
}

impl Microphone {
    pub(crate) const fn new(muted: bool) -> Self {
        Self { muted, talks_until: LocalTime::ZERO }
    }

    /// Mutes or opens the microphone. Ends push-to-talk.
    pub(crate) fn mute(&mut self, muted: bool) {
        *self = Self::new(muted);
    }

    pub(crate) fn talk(&mut self, now: LocalTime) {
        let is_held = now < self.talks_until;
        self.talks_until = now + if is_held { UNTIL_LET_GO } else { UNTIL_REPEATED };
    }

    pub(crate) fn is_open(&self, now: LocalTime) -> bool {
        !self.muted || now < self.talks_until
    }

    pub(crate) fn word(&self, now: LocalTime) -> &'static str {
        match (self.muted, self.is_open(now)) {
            (false, _) => "open",
            (true, true) => "talk",
            (true, false) => "muted",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> LocalTime {
        LocalTime::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn a_held_key_talks_until_half_a_second_after_it_is_let_go() {
        let mut microphone = Microphone::new(true);
        assert!(!microphone.is_open(at(10_000)));
        microphone.talk(at(10_000));
        assert!(microphone.is_open(at(10_659)));
        let mut now = 10_660;
        while now < 12_000 {
            microphone.talk(at(now));
            assert!(microphone.is_open(at(now)) && microphone.word(at(now)) == "talk");
            now += 30;
        }
        let last = now - 30;
        assert!(microphone.is_open(at(last + 499)));
        assert!(!microphone.is_open(at(last + 500)));
        assert_eq!(microphone.word(at(last + 500)), "muted");
    }

    #[test]
    fn a_key_that_is_pressed_once_talks_for_a_second() {
        let mut microphone = Microphone::new(true);
        microphone.talk(at(5_000));
        assert!(microphone.is_open(at(5_999)) && !microphone.is_open(at(6_000)));
    }

    #[test]
    fn mute_ends_push_to_talk_and_talk_keeps_an_open_mic_open() {
        let mut microphone = Microphone::new(true);
        microphone.talk(at(5_000));
        microphone.mute(true);
        assert!(!microphone.is_open(at(5_001)));
        microphone.mute(false);
        microphone.talk(at(5_002));
        assert!(microphone.is_open(at(9_000)) && microphone.word(at(9_000)) == "open");
    }
}
