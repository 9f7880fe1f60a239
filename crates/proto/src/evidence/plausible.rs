//! Sample formats that bytes may have. In a wrong format, the bytes are full-scale noise, or
//! impossible floats.

use core::ops::RangeInclusive;

use tautline_dsp::format::{SampleFormat, decode};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plausible([bool; 4]);

impl Plausible {
    /// Most likely first.
    pub(super) const FORMATS: [SampleFormat; 4] =
        [SampleFormat::L24, SampleFormat::L16, SampleFormat::F32, SampleFormat::L32];

    /// Checks whole frames. Silence excludes no format.
    pub(super) fn of(sound: &[u8], frame_bytes: usize) -> Self {
        let levels = Self::FORMATS.map(|format| level(format, sound, frame_bytes));
        let mut allowed = levels.map(|level| level.is_some());
        // Low bytes of quiet samples are small, but loud compared with the samples.
        if let [Some(of_24), Some(of_16), ..] = levels {
            allowed[0] = of_24 <= of_16 * LOUDER;
        }
        // The last byte of 24 or 16 bits in 32 is 0. Four bytes may also be 16-bit stereo with a
        // silent channel.
        let words = sound.as_chunks::<4>().0.iter().filter(|word| **word != [0; 4]);
        let begins_whole = frame_bytes.is_multiple_of(4);
        let (count, wide, third) = words.fold((0, true, false), |(count, wide, third), word| {
            (count + 1, wide && word[3] == 0, third || word[2] != 0)
        });
        if begins_whole && count >= ENOUGH && wide && (frame_bytes > 4 || third) {
            allowed[1] = false;
        }
        Self(allowed)
    }

    pub(super) fn allows(&self, format: SampleFormat) -> bool {
        Self::FORMATS.iter().zip(self.0).any(|(known, allowed)| *known == format && allowed)
    }
}

/// Samples of a channel needed to exclude a format.
const ENOUGH: usize = 64;
/// Mean level of a wrong width. Loud music reaches it too, but in all formats.
pub(crate) const NOISE: f32 = 0.42;
/// Maximum factor by which 24-bit samples are louder than the same bytes as 16 bits.
pub(crate) const LOUDER: f32 = 8.0;
/// Plausible float levels: −240 dB to +18 dB.
pub(crate) const FLOATS: RangeInclusive<f32> = 1e-12..=8.0;

/// Mean level of the non-zero samples. `None` if impossible.
fn level(format: SampleFormat, sound: &[u8], frame_bytes: usize) -> Option<f32> {
    let bytes = format.bytes();
    if frame_bytes == 0 || !frame_bytes.is_multiple_of(bytes) {
        return None;
    }
    let whole = sound.len() / frame_bytes * frame_bytes;
    let mut samples = vec![0.0; whole / bytes];
    decode(format, &sound[..whole], &mut samples);
    let channels = frame_bytes / bytes;
    let (mut sum, mut all) = (0.0, 0);
    for channel in 0..channels {
        let levels = samples.iter().skip(channel).step_by(channels).map(|sample| sample.abs());
        let sounding: Vec<f32> = levels.filter(|level| *level != 0.0).collect();
        let of_channel = sounding.iter().sum::<f32>();
        let ruled_out = match format {
            SampleFormat::F32 => {
                let odd = |level: &&f32| !FLOATS.contains(*level);
                sounding.iter().filter(odd).count() * 20 > sounding.len()
            }
            _ => sounding.len() >= ENOUGH && of_channel > NOISE * sounding.len() as f32,
        };
        if ruled_out {
            return None;
        }
        (sum, all) = (sum + of_channel, all + sounding.len());
    }
    Some(sum / all.max(1) as f32)
}

#[cfg(test)]
mod tests {
    use tautline_dsp::format::encode;

    use super::*;

    fn sound(format: SampleFormat, channels: usize, peak: f32) -> Vec<u8> {
        // Knuth, The Art of Computer Programming 2, §3.3.4.
        let mut random = 7_u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((random >> 40) as f32 / (1 << 23) as f32 - 1.0) * peak
        };
        let samples: Vec<f32> = (0..480 * channels).map(|_| next()).collect();
        let mut bytes = vec![0; samples.len() * format.bytes()];
        encode(format, &samples, &mut bytes);
        bytes
    }

    #[test]
    fn sound_is_plausible_only_in_its_own_width() {
        use SampleFormat::{F32, L16, L24, L32};
        for peak in [0.5, 0.1, 0.001] {
            for (format, channels, wrong) in [
                (L16, 4, &[F32][..]),
                (L16, 3, &[L24]),
                (L16, 6, &[L24]),
                (L24, 2, &[L16]),
                (L24, 4, &[L16]),
                (F32, 2, &[L16]),
                (F32, 1, &[L16]),
            ] {
                let bytes = sound(format, channels, peak);
                let plausible = Plausible::of(&bytes, format.bytes() * channels);
                assert!(plausible.allows(format), "{format:?} {channels} {peak}");
                for wrong in wrong {
                    assert!(!plausible.allows(*wrong), "{format:?} {channels} {peak}: {wrong:?}");
                }
            }
        }
        // 24 bits in 32.
        let wide: Vec<u8> =
            sound(L24, 2, 0.5).chunks(3).flat_map(|x| [x[0], x[1], x[2], 9]).collect();
        let plausible = Plausible::of(&wide, 8);
        assert!(plausible.allows(L32) && !plausible.allows(F32));
    }

    #[test]
    fn integers_of_24_or_16_bits_in_32_are_no_16_bits() {
        use SampleFormat::{L16, L24, L32};
        for (inner, channels) in [(L24, 1), (L24, 2), (L16, 2)] {
            let pad = 4 - inner.bytes();
            let widened = |sample: &[u8]| [sample, &[0, 0][..pad]].concat();
            let wide: Vec<u8> =
                sound(inner, channels, 0.3).chunks(inner.bytes()).flat_map(widened).collect();
            let plausible = Plausible::of(&wide, 4 * channels);
            assert!(plausible.allows(L32) && !plausible.allows(L16), "{inner:?} {channels}");
        }
        let mut left = sound(L16, 2, 0.3);
        left.chunks_mut(4).for_each(|frame| frame[2..].fill(0));
        assert!(Plausible::of(&left, 4).allows(L16));
    }

    #[test]
    fn silence_rules_nothing_out() {
        let silence = Plausible::of(&[0; 960], 12);
        assert!(Plausible::FORMATS.into_iter().all(|format| silence.allows(format)));
        assert!(!Plausible::of(&[0; 960], 2).allows(SampleFormat::F32), "it does not fit");
    }
}
