//! Notices that the far end adapts the format that it sends.

use tautline_proto::time::{LocalTime, Span};

/// Answers to a request for another format and its packets arrive at different times.
const SETTLED: Span = Span::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct ReceivedFormat {
    /// Format other than the agreed and the reported one, and since when.
    new: Option<(String, LocalTime)>,
    reported: Option<String>,
    times: u32,
}

impl ReceivedFormat {
    /// Returns how often the format has adapted so far, when it does again. An agreed format
    /// does not count.
    pub(crate) fn follow(&mut self, agreed: &str, received: &str, now: LocalTime) -> Option<u32> {
        if received == agreed {
            (self.new, self.reported) = (None, None);
            return None;
        }
        if self.reported.as_deref() == Some(received) {
            self.new = None;
            return None;
        }
        let same = self.new.as_ref().filter(|(format, _)| format == received);
        let Some((_, since)) = same else {
            self.new = Some((received.to_owned(), now));
            return None;
        };
        if now - *since < SETTLED {
            return None;
        }
        self.reported = self.new.take().map(|(format, _)| format);
        self.times += 1;
        Some(self.times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> LocalTime {
        LocalTime::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn adapted_format_is_reported_after_a_second_and_once() {
        let mut format = ReceivedFormat::default();
        let mut follow = |received, millis| format.follow("l24", received, at(millis));
        assert_eq!(follow("l24", 0), None);
        assert_eq!(follow("opus", 100), None);
        assert_eq!(follow("opus", 1_099), None);
        assert_eq!(follow("opus", 1_100), Some(1));
        assert_eq!(follow("opus", 9_000), None);
        assert_eq!(follow("opus-voice", 9_100), None);
        assert_eq!(follow("opus", 9_900), None, "a trial");
        assert_eq!(follow("opus-voice", 10_000), None);
        assert_eq!(follow("opus-voice", 10_999), None);
        assert_eq!(follow("opus-voice", 11_000), Some(2));
        assert_eq!(follow("l24", 12_000), None);
        assert_eq!(follow("l24", 14_000), None, "as agreed");
        assert_eq!(follow("opus-voice", 15_000), None);
        assert_eq!(follow("opus-voice", 16_000), Some(3));
    }

    #[test]
    fn agreed_change_is_no_adaptation() {
        let mut format = ReceivedFormat::default();
        assert_eq!(format.follow("l24", "l16", at(0)), None);
        assert_eq!(format.follow("l16", "l16", at(200)), None);
        assert_eq!(format.follow("l16", "l16", at(5_000)), None);
    }
}
