//! Expected packet loss, for codecs with redundant copies.

/// Weight of a higher report. It counts fast, because losses are not repaired until then.
const RISES: f64 = 0.5;
/// Weight of a lower report. It counts slowly, over about 10 s, so the highest losses prevail.
const FALLS: f64 = 0.05;
/// Steps in per cent. libopus has no finer steps.
const STEPS: [u8; 7] = [0, 1, 2, 5, 10, 20, 30];
/// Loss share that counts as no loss. Below one packet in half a minute, copies are not worth their
/// bits.
const NOTHING: f64 = 0.000_5;

#[derive(Debug, Default)]
pub(super) struct ExpectedLoss {
    share: Option<f64>,
    said: Option<u8>,
}

impl ExpectedLoss {
    /// Adds a receiver's fraction lost in 1/256 (RFC 3550 §6.4.1).
    pub(super) fn reported(&mut self, of_256: u8) {
        let reported = f64::from(of_256) / 256.0;
        let share = self.share.get_or_insert(reported);
        let weight = if reported > *share { RISES } else { FALLS };
        *share += (reported - *share) * weight;
    }

    /// Share of lost packets; 0 before the first report.
    pub(super) fn share(&self) -> f64 {
        self.share.filter(|share| *share > NOTHING).unwrap_or(0.0)
    }

    pub(super) fn changed(&self) -> Option<u8> {
        let share = self.share?;
        let covers = |percent: &u8| share <= f64::from(*percent) / 100.0 + NOTHING;
        let maximum = STEPS[STEPS.len() - 1];
        let percent = STEPS.into_iter().find(covers).unwrap_or(maximum);
        (self.said != Some(percent)).then_some(percent)
    }

    pub(super) fn taken(&mut self, percent: u8) {
        self.said = Some(percent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codec_learns_of_loss_at_once_and_of_no_loss_after_long() {
        let mut expected = ExpectedLoss::default();
        assert_eq!(expected.changed(), None, "no report yet");
        expected.reported(0);
        assert_eq!(expected.changed(), Some(0));
        expected.taken(0);
        assert_eq!(expected.changed(), None);
        expected.reported(26);
        let risen = expected.changed().expect("reported immediately");
        assert!((5..=10).contains(&risen), "{risen}");
        expected.taken(risen);
        for _ in 0..8 {
            expected.reported(0);
        }
        assert!(expected.changed().unwrap_or(risen) >= 5, "four seconds prove nothing");
        for _ in 0..200 {
            expected.reported(0);
        }
        assert_eq!(expected.changed(), Some(0));
    }
}
