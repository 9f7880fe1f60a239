//! Time marks: numbers in the sound, each at a known frame, which a correlator finds.
//!
//! A mark is 120 *chips* of either sign, four frames each, in a continuous sequence:
//!
//! | chips | carry |
//! |---|---|
//! | 63 | the sync: a maximum-length sequence, whose centre is the mark's position |
//! | 40 | the mark's number, 20 bits, highest first, each as a chip and its opposite |
//! | 16 | an 8-bit CRC of the number, XORed with the run, in the same way |
//! | 1 | unused |
//!
//! Chips fade as a raised cosine, limited to a quarter of the rate. Only signs carry information:
//! gain, polarity, dither and coding do no harm. No allocation after set-up.

pub mod bits;
mod buried;
mod finder;
mod marker;
mod readings;
mod spectrum;
mod stretch;
mod sync;
#[cfg(test)]
mod tests;
mod track;

pub use finder::{Finder, FoundMark};
pub use marker::{Marker, PlacedMark};
pub use stretch::MarkStretch;

/// Frames per mark: 10 ms at 48 kHz.
pub const SPACING: usize = CHIPS * CHIP;
/// Different mark numbers: three hours at 48 kHz.
pub const NUMBERS: u32 = 1 << NUMBER_BITS;

/// A finder only counts marks of other runs.
///
/// Two runs are indistinguishable if 8 of these bits agree; the other 20 select the first number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunNumber(u32);

impl RunNumber {
    /// Takes 28 random bits. Run 0 starts with number 0.
    pub const fn new(bits: u32) -> Self {
        Self(bits & (u32::MAX >> (32 - WORD_BITS)))
    }

    /// Number of the first mark.
    pub const fn first(self) -> u32 {
        self.0 >> 8
    }

    const fn cover(self) -> u8 {
        self.0 as u8
    }
}

const CHIP: usize = 4;
const CHIPS: usize = 120;
const SYNC_CHIPS: usize = 63;
const NUMBER_BITS: u32 = 20;
const WORD_BITS: u32 = NUMBER_BITS + 8;
const CENTRE: usize = SYNC_CHIPS / 2 * CHIP;

/// Sync sequence of the polynomial x⁶ + x + 1, first chip in the lowest bit.
const SYNC: u64 = {
    let (mut register, mut sync, mut chip) = (1_u64, 0, 0);
    while chip < SYNC_CHIPS {
        sync |= (register & 1) << chip;
        let next = (register ^ (register >> 1)) & 1;
        register = (register >> 1) | (next << 5);
        chip += 1;
    }
    sync
};

fn word_of(number: u32, cover: u8) -> u32 {
    let number = number % NUMBERS;
    (number << 8) | u32::from(crc(number) ^ cover)
}

/// First chip in the lowest bit; a set bit is positive.
fn chips_of(run: RunNumber, number: u32) -> u128 {
    let word = word_of(number, run.cover());
    let mut chips = u128::from(SYNC);
    for bit in 0..WORD_BITS {
        let one = (word >> (WORD_BITS - 1 - bit)) & 1;
        let pair = if one == 1 { 0b01 } else { 0b10 };
        chips |= pair << (SYNC_CHIPS as u32 + 2 * bit);
    }
    chips
}

/// Polynomial 0x2F (Koopman and Chakravarty, 2004). Starts at 0xFF so that silence fails.
fn crc(number: u32) -> u8 {
    let mut crc = 0xFF_u8;
    for byte in &number.to_be_bytes()[1..] {
        crc ^= byte;
        for _ in 0..8 {
            crc = (crc << 1) ^ if crc & 0x80 == 0 { 0 } else { 0x2F };
        }
    }
    crc
}

fn chip(chips: u128, index: usize) -> f64 {
    if (chips >> (index % CHIPS)) & 1 == 1 { 1.0 } else { -1.0 }
}

/// `frames` after its centre; the rest is the next chip's.
fn fade(frames: f64) -> f64 {
    0.5 + 0.5 * (core::f64::consts::PI / CHIP as f64 * frames).cos()
}

fn wave(chips: u128, at: f64) -> f64 {
    let at = at.max(0.0);
    let index = at as usize / CHIP;
    let left = fade(at - (index * CHIP) as f64);
    chip(chips, index) * left + chip(chips, index + 1) * (1.0 - left)
}
