//! How many packets are lost, by which a coder makes copies of earlier sound: as receivers report it.

/// A report of more is followed by so much of the difference, as what is lost meanwhile is not mended,
const RISES: f64 = 0.5;
/// and one of less by so much: receivers report twice a second, so for ten seconds, and where there are several, the
/// one that loses most is followed.
const FALLS: f64 = 0.05;
/// What coders are told, in per cent: libopus weighs copies against sound by steps that are no finer.
const STEPS: [u8; 7] = [0, 1, 2, 5, 10, 20, 30];
/// Of a share so small no copy is worth its bits: a packet in half a minute.
const NOTHING: f64 = 0.000_5;

/// The share of packets that does not reach receivers.
#[derive(Debug, Default)]
pub(super) struct ExpectedLoss {
    share: Option<f64>,
    /// What coders were told.
    said: Option<u8>,
}

impl ExpectedLoss {
    /// A receiver whose word counts reports such a share of lost packets, of 256 (RFC 3550 §6.4.1).
    pub(super) fn told(&mut self, of_256: u8) {
        let told = f64::from(of_256) / 256.0;
        let share = self.share.get_or_insert(told);
        let weight = if told > *share { RISES } else { FALLS };
        *share += (told - *share) * weight;
    }

    /// The share of packets that is lost; none while nobody reports.
    pub(super) fn share(&self) -> f64 {
        self.share.filter(|share| *share > NOTHING).unwrap_or(0.0)
    }

    /// What coders are to be told, if that is something new; nothing as long as nobody reports.
    pub(super) fn changed(&self) -> Option<u8> {
        let share = self.share?;
        let covers = |percent: &u8| share <= f64::from(*percent) / 100.0 + NOTHING;
        let most = STEPS[STEPS.len() - 1];
        let percent = STEPS.into_iter().find(covers).unwrap_or(most);
        (self.said != Some(percent)).then_some(percent)
    }

    /// They were told so.
    pub(super) fn taken(&mut self, percent: u8) {
        self.said = Some(percent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coder_is_told_of_loss_at_once_and_of_none_when_there_was_none_for_long() {
        let mut expected = ExpectedLoss::default();
        assert_eq!(expected.changed(), None, "nobody reported");
        expected.told(0);
        assert_eq!(expected.changed(), Some(0));
        expected.taken(0);
        assert_eq!(expected.changed(), None);
        // A tenth.
        expected.told(26);
        let risen = expected.changed().expect("told at once");
        assert!((5..=10).contains(&risen), "{risen}");
        expected.taken(risen);
        for _ in 0..8 {
            expected.told(0);
        }
        assert!(expected.changed().unwrap_or(risen) >= 5, "four seconds are no proof");
        for _ in 0..200 {
            expected.told(0);
        }
        assert_eq!(expected.changed(), Some(0));
    }
}
