//! Sample formats of applications, in either byte order.

use core::ffi::{c_int, c_uint};

use alsa_sys::{
    SND_PCM_FORMAT_FLOAT_BE, SND_PCM_FORMAT_FLOAT_LE, SND_PCM_FORMAT_S16_BE, SND_PCM_FORMAT_S16_LE,
    SND_PCM_FORMAT_S24_3BE, SND_PCM_FORMAT_S24_3LE, SND_PCM_FORMAT_S24_BE, SND_PCM_FORMAT_S24_LE,
    SND_PCM_FORMAT_S32_BE, SND_PCM_FORMAT_S32_LE,
};
use tautline_dsp::card::{self, CardFormat};
use tautline_dsp::format::SampleFormat;

const FORMATS: [(CardFormat, c_int, c_int); 5] = [
    (CardFormat::S32, SND_PCM_FORMAT_S32_LE, SND_PCM_FORMAT_S32_BE),
    (CardFormat::F32, SND_PCM_FORMAT_FLOAT_LE, SND_PCM_FORMAT_FLOAT_BE),
    (CardFormat::S24, SND_PCM_FORMAT_S24_LE, SND_PCM_FORMAT_S24_BE),
    (CardFormat::S24In3, SND_PCM_FORMAT_S24_3LE, SND_PCM_FORMAT_S24_3BE),
    (CardFormat::S16, SND_PCM_FORMAT_S16_LE, SND_PCM_FORMAT_S16_BE),
];

pub(crate) fn numbers() -> impl Iterator<Item = c_uint> {
    FORMATS.into_iter().flat_map(|(_, little, big)| [little as c_uint, big as c_uint])
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SampleCoding {
    format: CardFormat,
    swapped: bool,
}

impl SampleCoding {
    /// Default until the application sets one.
    pub(crate) const S16: Self = Self { format: CardFormat::S16, swapped: false };

    pub(crate) fn of(number: c_int) -> Option<Self> {
        let known = |(_, little, big): &&(_, c_int, c_int)| [*little, *big].contains(&number);
        let (format, little, big) = FORMATS.iter().find(known)?;
        let ours = if cfg!(target_endian = "little") { little } else { big };
        Some(Self { format: *format, swapped: number != *ours })
    }

    pub(crate) const fn bytes(self) -> usize {
        self.format.bytes()
    }

    pub(crate) const fn on_wire(self) -> SampleFormat {
        match self.format {
            CardFormat::S32 => SampleFormat::L32,
            CardFormat::F32 => SampleFormat::F32,
            CardFormat::S24 | CardFormat::S24In3 => SampleFormat::L24,
            CardFormat::S16 => SampleFormat::L16,
        }
    }

    /// Leaves the bytes in native order.
    pub(crate) fn decode(self, bytes: &mut [u8], out: &mut [f32]) {
        self.swap(bytes);
        card::decode(self.format, bytes, out);
    }

    pub(crate) fn encode(self, samples: &[f32], out: &mut [u8]) {
        card::encode(self.format, samples, out);
        self.swap(out);
    }

    fn swap(self, bytes: &mut [u8]) {
        if self.swapped {
            bytes.chunks_exact_mut(self.bytes()).for_each(<[u8]>::reverse);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: [f32; 2] = [-0.25, 1.0 / 32_768.0];

    fn coded(number: c_int) -> Vec<u8> {
        let samples = SampleCoding::of(number).unwrap();
        let mut bytes = vec![0; SOUND.len() * samples.bytes()];
        samples.encode(&SOUND, &mut bytes);
        let mut back = [f32::NAN; 2];
        samples.decode(&mut bytes.clone(), &mut back);
        assert_eq!(back, SOUND);
        bytes
    }

    #[test]
    fn samples_are_coded_in_the_byte_order_that_their_format_names() {
        assert_eq!(coded(SND_PCM_FORMAT_S16_BE), [0xe0, 0, 0, 1]);
        assert_eq!(coded(SND_PCM_FORMAT_S16_LE), [0, 0xe0, 1, 0]);
        assert_eq!(coded(SND_PCM_FORMAT_S24_3BE), [0xe0, 0, 0, 0, 1, 0]);
        assert_eq!(coded(SND_PCM_FORMAT_S24_3LE), [0, 0, 0xe0, 0, 1, 0]);
        assert_eq!(coded(SND_PCM_FORMAT_S24_BE), [0xff, 0xe0, 0, 0, 0, 0, 1, 0]);
        assert_eq!(coded(SND_PCM_FORMAT_S32_BE), [0xe0, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(coded(SND_PCM_FORMAT_FLOAT_BE)[..4], (-0.25_f32).to_be_bytes());
        assert_eq!(coded(SND_PCM_FORMAT_FLOAT_LE)[..4], (-0.25_f32).to_le_bytes());
    }

    #[test]
    fn every_format_that_is_offered_is_known_and_no_other() {
        assert_eq!(
            numbers().filter(|number| SampleCoding::of(*number as c_int).is_some()).count(),
            10
        );
        assert_eq!(SampleCoding::of(alsa_sys::SND_PCM_FORMAT_S8), None);
    }
}
