//! Sample formats of sound card buffers in host byte order.

use core::fmt;
use core::str::FromStr;

use crate::format::{FULL_16, FULL_24, FULL_32, number, round};

/// Sample format of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CardFormat {
    /// 32-bit signed integer.
    S32,
    /// 32-bit IEEE 754 float.
    F32,
    /// 24-bit signed integer in the low bytes of 32 bits.
    S24,
    /// 24-bit signed integer in three bytes.
    S24In3,
    /// 16-bit signed integer.
    S16,
}

/// Unused bits of [`CardFormat::S24`].
const UNUSED: u32 = 8;

impl CardFormat {
    /// Best first: drivers convert floats again.
    pub const BEST_FIRST: [Self; 5] = [Self::S32, Self::F32, Self::S24, Self::S24In3, Self::S16];

    /// Bytes per sample.
    pub const fn bytes(self) -> usize {
        match self {
            Self::S32 | Self::F32 | Self::S24 => 4,
            Self::S24In3 => 3,
            Self::S16 => 2,
        }
    }

    /// ALSA name on this host.
    pub const fn name(self) -> &'static str {
        let [little, big] = match self {
            Self::S32 => ["S32_LE", "S32_BE"],
            Self::F32 => ["FLOAT_LE", "FLOAT_BE"],
            Self::S24 => ["S24_LE", "S24_BE"],
            Self::S24In3 => ["S24_3LE", "S24_3BE"],
            Self::S16 => ["S16_LE", "S16_BE"],
        };
        if cfg!(target_endian = "little") { little } else { big }
    }
}

impl fmt::Display for CardFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Error for an unknown format name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoSuchFormat;

impl FromStr for CardFormat {
    type Err = NoSuchFormat;

    /// Ignores case.
    fn from_str(name: &str) -> Result<Self, NoSuchFormat> {
        let known = |format: &Self| format.name().eq_ignore_ascii_case(name);
        Self::BEST_FIRST.into_iter().find(known).ok_or(NoSuchFormat)
    }
}

/// Converts to a full scale of ±1.0.
///
/// 16-bit and 24-bit values are exact; of 32 bits the upper 24. NaN becomes 0.0. Converts as many
/// samples as both slices hold.
pub fn decode(format: CardFormat, bytes: &[u8], out: &mut [f32]) {
    match format {
        CardFormat::S32 => {
            for (sample, &coded) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *sample = i32::from_ne_bytes(coded) as f32 * (1.0 / FULL_32);
            }
        }
        CardFormat::F32 => {
            for (sample, &coded) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *sample = number(f32::from_ne_bytes(coded));
            }
        }
        CardFormat::S24 => {
            for (sample, &coded) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
                let wide = i32::from_ne_bytes(coded) << UNUSED;
                *sample = wide as f32 * (1.0 / FULL_32);
            }
        }
        CardFormat::S24In3 => {
            for (sample, &coded) in out.iter_mut().zip(bytes.as_chunks::<3>().0) {
                *sample = i32::from_ne_bytes(upper(coded)) as f32 * (1.0 / FULL_32);
            }
        }
        CardFormat::S16 => {
            for (sample, &coded) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
                *sample = f32::from(i16::from_ne_bytes(coded)) * (1.0 / FULL_16);
            }
        }
    }
}

/// The inverse of [`decode`].
///
/// 16-bit and 24-bit integers round half away from zero, 32-bit integers towards zero. Clamps to
/// full scale; NaN becomes 0. Converts as many samples as both slices hold.
pub fn encode(format: CardFormat, samples: &[f32], out: &mut [u8]) {
    match format {
        CardFormat::S32 => {
            for (coded, &sample) in out.as_chunks_mut::<4>().0.iter_mut().zip(samples) {
                *coded = ((sample * FULL_32) as i32).to_ne_bytes();
            }
        }
        CardFormat::F32 => {
            for (coded, &sample) in out.as_chunks_mut::<4>().0.iter_mut().zip(samples) {
                *coded = number(sample).to_ne_bytes();
            }
        }
        CardFormat::S24 => {
            for (coded, &sample) in out.as_chunks_mut::<4>().0.iter_mut().zip(samples) {
                *coded = round(sample, FULL_24).to_ne_bytes();
            }
        }
        CardFormat::S24In3 => {
            for (coded, &sample) in out.as_chunks_mut::<3>().0.iter_mut().zip(samples) {
                *coded = lower(round(sample, FULL_24).to_ne_bytes());
            }
        }
        CardFormat::S16 => {
            for (coded, &sample) in out.as_chunks_mut::<2>().0.iter_mut().zip(samples) {
                *coded = (round(sample, FULL_16) as i16).to_ne_bytes();
            }
        }
    }
}

const fn upper([a, b, c]: [u8; 3]) -> [u8; 4] {
    if cfg!(target_endian = "little") { [0, a, b, c] } else { [a, b, c, 0] }
}

const fn lower([a, b, c, d]: [u8; 4]) -> [u8; 3] {
    if cfg!(target_endian = "little") { [a, b, c] } else { [b, c, d] }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn through(format: CardFormat, bytes: &[u8]) -> Vec<u8> {
        let mut samples = vec![f32::NAN; bytes.len() / format.bytes()];
        decode(format, bytes, &mut samples);
        let mut back = vec![0xa5; bytes.len()];
        encode(format, &samples, &mut back);
        back
    }

    #[test]
    fn every_16_bit_value_survives_in_every_format() {
        let samples: Vec<f32> =
            (i16::MIN..=i16::MAX).map(|value| f32::from(value) / FULL_16).collect();
        for format in CardFormat::BEST_FIRST {
            let mut bytes = vec![0; samples.len() * format.bytes()];
            encode(format, &samples, &mut bytes);
            let mut back = vec![f32::NAN; samples.len()];
            decode(format, &bytes, &mut back);
            assert!(back == samples, "{format}");
        }
    }

    #[test]
    fn every_24_bit_value_survives_where_there_is_room_for_it() {
        let values = || -(1 << 23)..1 << 23_i32;
        let four: Vec<u8> = values().flat_map(i32::to_ne_bytes).collect();
        assert!(through(CardFormat::S24, &four) == four);
        let three: Vec<u8> = values().flat_map(|value| lower(value.to_ne_bytes())).collect();
        assert!(through(CardFormat::S24In3, &three) == three);
        let wide: Vec<u8> = values().flat_map(|value| (value << 8).to_ne_bytes()).collect();
        assert!(through(CardFormat::S32, &wide) == wide);
    }

    #[test]
    fn unused_byte_is_ignored() {
        let mut out = [0.0];
        decode(CardFormat::S24, &(0x7f40_0000 | 0x55_i32).to_ne_bytes(), &mut out);
        let mut clean = [0.0];
        decode(CardFormat::S24, &(0x0040_0000 | 0x55_i32).to_ne_bytes(), &mut clean);
        assert_eq!(out, clean);
    }

    #[test]
    fn samples_out_of_range_are_clamped_and_nan_is_silence() {
        let samples = [2.0, -2.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1.0];
        for (format, maximum) in
            [(CardFormat::S32, i32::MAX), (CardFormat::S24, 0x7f_ffff), (CardFormat::S16, 0x7fff)]
        {
            let mut out = vec![0; samples.len() * format.bytes()];
            encode(format, &samples, &mut out);
            let steps: Vec<i32> = match format {
                CardFormat::S16 => {
                    out.as_chunks().0.iter().map(|&b| i16::from_ne_bytes(b).into()).collect()
                }
                _ => out.as_chunks().0.iter().map(|&bytes| i32::from_ne_bytes(bytes)).collect(),
            };
            let minimum = -maximum - 1;
            assert_eq!(steps, [maximum, minimum, maximum, minimum, 0, maximum], "{format}");
        }
    }

    #[test]
    fn a_format_is_read_by_the_name_it_displays() {
        for format in CardFormat::BEST_FIRST {
            assert_eq!(format.to_string().to_lowercase().parse(), Ok(format));
        }
        assert_eq!("S8".parse::<CardFormat>(), Err(NoSuchFormat));
    }

    proptest! {
        #[test]
        fn the_shorter_slice_decides(held in 0_usize..40, room in 0_usize..160) {
            for format in CardFormat::BEST_FIRST {
                let mut out = vec![0xa5; room];
                encode(format, &vec![0.0; held], &mut out);
                let written = format.bytes() * held.min(room / format.bytes());
                prop_assert!(out[..written].iter().all(|&byte| byte == 0));
                prop_assert!(out[written..].iter().all(|&byte| byte == 0xa5));
            }
        }
    }
}
