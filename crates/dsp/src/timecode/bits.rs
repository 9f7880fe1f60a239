//! Bit-exactness test: words in the lowest bits of samples survive only an unchanged path.
//!
//! A word has 64 frames, one bit each, highest first: 16 bits of `SYNC`, a 32-bit count, and a
//! 16-bit CRC. Inverted polarity preserves the lowest bit; time marks detect that.

/// Frames per word.
pub const WORD: usize = 64;
const SYNC: u64 = 0xB3C5;

/// Bits of a sample that a path must carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BitDepth {
    /// 16 bits, full scale 2¹⁵.
    Bits16,
    /// 24 bits, full scale 2²³.
    Bits24,
}

impl BitDepth {
    const fn full_scale(self) -> f32 {
        match self {
            Self::Bits16 => 32_768.0,
            Self::Bits24 => 8_388_608.0,
        }
    }
}

/// Polynomial 0x1021, started at all ones.
fn crc(count: u32) -> u16 {
    count.to_be_bytes().into_iter().fold(0xFFFF, |mut crc: u16, byte| {
        crc ^= u16::from(byte) << 8;
        for _ in 0..8 {
            crc = (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 };
        }
        crc
    })
}

fn word_of(count: u32) -> u64 {
    (SYNC << 48) | (u64::from(count) << 16) | u64::from(crc(count))
}

/// Writes words into sound.
#[derive(Debug, Clone)]
pub struct BitWriter {
    full_scale: f32,
    count: u32,
    bit: usize,
}

impl BitWriter {
    /// Starts at the first bit of word 0.
    pub const fn new(depth: BitDepth) -> Self {
        Self { full_scale: depth.full_scale(), count: 0, bit: 0 }
    }

    /// Writes the lowest bit of each sample, in all channels.
    pub fn write(&mut self, channels: usize, samples: &mut [f32]) {
        for frame in samples.chunks_mut(channels.max(1)) {
            let bit = (word_of(self.count) >> (WORD - 1 - self.bit)) & 1;
            for sample in frame {
                // Nearest even number, plus 1 for a set bit.
                let steps =
                    (*sample * self.full_scale).clamp(1.0 - self.full_scale, self.full_scale - 2.0);
                let even = ((steps - bit as f32) / 2.0).round() * 2.0;
                *sample = (even + bit as f32) / self.full_scale;
            }
            self.bit = (self.bit + 1) % WORD;
            if self.bit == 0 {
                self.count = self.count.wrapping_add(1);
            }
        }
    }
}

/// Reads words from one channel.
#[derive(Debug, Clone)]
pub struct BitReader {
    full_scale: f32,
    bits: u64,
    words: u64,
}

impl BitReader {
    /// Creates a reader.
    pub const fn new(depth: BitDepth) -> Self {
        Self { full_scale: depth.full_scale(), bits: 0, words: 0 }
    }

    /// Reads the next frames.
    pub fn push(&mut self, samples: &[f32]) {
        for sample in samples {
            let steps = sample * self.full_scale;
            if steps.fract() != 0.0 || !steps.is_finite() {
                self.bits = 0;
                continue;
            }
            self.bits = (self.bits << 1) | (steps as i32 & 1) as u64;
            let count = (self.bits >> 16) as u32;
            self.words += u64::from(self.bits == word_of(count));
        }
    }

    /// Valid words so far.
    pub const fn words(&self) -> u64 {
        self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound(depth: BitDepth) -> Vec<f32> {
        let mut sound = vec![0.0; 2 * WORD * 50];
        crate::signal::Sine::new("997".parse().unwrap(), 48_000).fill(2, &mut sound);
        BitWriter::new(depth).write(2, &mut sound);
        sound
    }

    fn words_in(sound: impl Iterator<Item = f32>, depth: BitDepth) -> u64 {
        let mut reader = BitReader::new(depth);
        let left: Vec<f32> = sound.step_by(2).collect();
        left.chunks(7).for_each(|block| reader.push(block));
        reader.words()
    }

    #[test]
    fn every_word_survives_a_bit_exact_path() {
        for depth in [BitDepth::Bits16, BitDepth::Bits24] {
            assert_eq!(words_in(sound(depth).into_iter(), depth), 50, "{depth:?}");
            let mut loud = vec![1.0; 2 * WORD];
            BitWriter::new(depth).write(2, &mut loud);
            assert!(loud.iter().all(|sample| *sample < 1.0));
            assert_eq!(words_in(loud.into_iter(), depth), 1, "{depth:?}");
        }
    }

    #[test]
    fn the_sound_moves_by_less_than_a_step() {
        let mut plain = vec![0.0; 2 * WORD * 50];
        crate::signal::Sine::new("997".parse().unwrap(), 48_000).fill(2, &mut plain);
        for (plain, sample) in plain.iter().zip(sound(BitDepth::Bits16)) {
            assert!((plain - sample).abs() <= 1.0 / 32_768.0, "{plain} {sample}");
        }
    }

    #[test]
    fn words_do_not_survive_gain_dither_or_resampling() {
        let half = sound(BitDepth::Bits16).into_iter().map(|sample| sample * 0.5);
        assert_eq!(words_in(half, BitDepth::Bits16), 0, "half a step does not count");
        let louder = sound(BitDepth::Bits16).into_iter().map(|sample| sample * 2.0);
        assert_eq!(words_in(louder, BitDepth::Bits16), 0);
        let coarse = sound(BitDepth::Bits24).into_iter().map(|s| (s * 32_768.0).round() / 32_768.0);
        assert_eq!(words_in(coarse, BitDepth::Bits24), 0);
        let mut state = 1_u32;
        let dithered = sound(BitDepth::Bits16).into_iter().map(|sample| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            sample + ((state >> 30) as f32 - 1.0) / 32_768.0
        });
        assert_eq!(words_in(dithered, BitDepth::Bits16), 0);
        let whole = sound(BitDepth::Bits16);
        let between = whole.iter().zip(&whole[2..]).map(|(this, next)| (this + next) / 2.0);
        assert_eq!(words_in(between, BitDepth::Bits16), 0);
    }

    #[test]
    fn inverted_polarity_keeps_words_dropped_frame_loses_one() {
        let turned = sound(BitDepth::Bits16).into_iter().map(|sample| -sample);
        assert_eq!(words_in(turned, BitDepth::Bits16), 50);
        let mut short = sound(BitDepth::Bits16);
        short.drain(2 * WORD * 9 + 20..2 * WORD * 9 + 22);
        assert_eq!(words_in(short.into_iter(), BitDepth::Bits16), 49);
    }
}
