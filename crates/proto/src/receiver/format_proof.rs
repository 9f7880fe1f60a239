//! What packets prove against the format that they are read in, except their size: another rate, or samples of another
//! kind. For the device's thread: no packet costs more than a look at 64 samples.

use tautline_dsp::format::SampleFormat;

use crate::evidence::Pace;
use crate::time::{LocalTime, MediaTime, Span};
use crate::units::Rate;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FormatProof {
    pace: Option<Pace>,
    /// The other rate that the last second proved.
    candidate: Option<Rate>,
    other_rate: Option<Rate>,
    wrong_samples: bool,
}

impl FormatProof {
    /// Two such times in a row must prove the same rate: packets that are held up, or a jump, change one.
    const PACED: Span = Span::from_secs(1);

    /// The rate at which packets come, if that is not the rate at which they are played.
    pub(super) const fn other_rate(&self) -> Option<Rate> {
        self.other_rate
    }

    /// Whether the samples of the newest packet cannot be of the sample format that they are read in.
    pub(super) const fn has_wrong_samples(&self) -> bool {
        self.wrong_samples
    }

    /// Timestamps jumped.
    pub(super) const fn restart_pace(&mut self) {
        (self.pace, self.candidate) = (None, None);
    }

    /// Takes the arrival of a packet whose first frame is `media`, of a stream that is played at `rate`.
    pub(super) fn observe_arrival(&mut self, media: MediaTime, arrival: LocalTime, rate: Rate) {
        let media = media.as_frames();
        let pace = self.pace.get_or_insert(Pace::from(media, arrival));
        pace.observe(media, arrival);
        if pace.took() < Self::PACED {
            return;
        }
        let other = pace.rate().filter(|proven| *proven != rate);
        if other == self.candidate {
            self.other_rate = other;
        }
        (self.pace, self.candidate) = (None, other);
    }

    /// Takes the payload of a packet that is read as `format`. Silence proves nothing.
    pub(super) fn observe_samples(&mut self, format: SampleFormat, payload: &[u8]) {
        let words =
            payload.as_chunks::<4>().0.iter().take(64).map(|word| u32::from_be_bytes(*word));
        match format {
            SampleFormat::F32 => {
                let (mut sounding, mut loud) = (0, 0);
                for sample in words.map(f32::from_bits).filter(|sample| *sample != 0.0) {
                    sounding += 1;
                    loud += u32::from(sample.is_nan() || sample.abs() > LOUDEST);
                }
                if sounding >= ENOUGH {
                    self.wrong_samples = loud * 20 > sounding;
                }
            }
            SampleFormat::L32 => {
                let (mut sounding, mut of_sound, mut exponents) = (0, 0, 0_u32);
                for word in words.filter(|word| *word != 0) {
                    let exponent = word << 1 >> 24;
                    let is_of_sound = FLOAT_EXPONENTS.contains(&exponent);
                    (sounding, of_sound) = (sounding + 1, of_sound + u32::from(is_of_sound));
                    exponents |=
                        1_u32.wrapping_shl(exponent.wrapping_sub(*FLOAT_EXPONENTS.start()));
                }
                if sounding >= ENOUGH {
                    // Integers with such bits are a square wave of one level.
                    self.wrong_samples = of_sound == sounding && exponents.count_ones() >= 3;
                }
            }
            SampleFormat::L16 | SampleFormat::L24 => self.wrong_samples = false,
        }
    }
}

/// Samples that prove something.
const ENOUGH: u32 = 16;
/// Floats beyond this are no sound: 18 dB above full scale.
const LOUDEST: f32 = 8.0;
/// Biased exponents (IEEE 754 §3.4) of floats from 2⁻²⁴ to 4.
const FLOAT_EXPONENTS: core::ops::RangeInclusive<u32> = 103..=128;

#[cfg(test)]
mod tests {
    use tautline_dsp::format::encode;

    use super::*;

    fn proof(read: SampleFormat, sent: SampleFormat, peak: f32) -> bool {
        let samples: Vec<f32> =
            (0..240).map(|at| peak * (f64::from(at) * 0.1).sin() as f32).collect();
        let mut payload = vec![0; samples.len() * sent.bytes()];
        encode(sent, &samples, &mut payload);
        let mut proof = FormatProof::default();
        proof.observe_samples(read, &payload);
        proof.has_wrong_samples()
    }

    #[test]
    fn samples_of_another_kind_are_wrong() {
        use SampleFormat::{F32, L16, L24, L32};
        for peak in [1.0, 0.5, 0.1, 0.001] {
            for sent in [L16, L24, L32] {
                assert!(proof(F32, sent, peak), "{sent:?} as floats, {peak}");
            }
            assert!(proof(L32, F32, peak), "floats as l32, {peak}");
            assert!(!proof(F32, F32, peak) && !proof(L32, L32, peak), "{peak}");
        }
        // Louder than full scale, and the end of a reverberation.
        assert!(!proof(F32, F32, 4.0) && !proof(F32, F32, 1e-30));
    }

    #[test]
    fn silence_changes_nothing() {
        let mut proof = FormatProof::default();
        proof.observe_samples(SampleFormat::F32, &[0xff; 240]);
        proof.observe_samples(SampleFormat::F32, &[0; 240]);
        assert!(proof.has_wrong_samples());
    }

    #[test]
    fn two_seconds_in_a_row_prove_another_rate() {
        let proven = |hertz: i64| {
            let mut proof = FormatProof::default();
            for packet in 0..3_000 {
                let arrival = LocalTime::from_nanos(packet * 1_000_000);
                let media = MediaTime::from_frames(packet * hertz / 1_000);
                proof.observe_arrival(media, arrival, Rate::HZ_48000);
            }
            proof.other_rate().map(Rate::hertz)
        };
        for hertz in [44_100, 88_200, 96_000, 192_000] {
            assert_eq!(proven(hertz.into()), Some(hertz));
        }
        assert_eq!(proven(48_000), None);
    }
}
