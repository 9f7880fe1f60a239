//! Time marks: numbers in the sound, each at a known frame, which a correlator finds again.
//!
//! A mark is 120 *chips* of either sign, four frames each, one mark after the other:
//!
//! | chips | carry |
//! |---|---|
//! | 63 | the sync: a maximum-length sequence, whose centre is *where the mark is* |
//! | 40 | the mark's number, 20 bits, the highest first, each as a chip and its opposite |
//! | 16 | a CRC of the number, 8 bits, over which the run is laid, in the same way |
//! | 1 | nothing: rest |
//!
//! From chip to chip the sound fades as a raised cosine, which keeps it below a quarter of the
//! rate: a resampler changes nothing but where it lies, and that is found to a part of a frame. Only
//! signs carry anything, so gain, polarity, dither and coding do no harm. Every frame belongs to a
//! mark, so that none can be dropped or repeated unseen.
//!
//! No allocation after set-up.

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

/// Frames from one mark to the next: 10 ms at 48 kHz.
pub const SPACING: usize = CHIPS * CHIP;
/// Marks are numbered modulo this, which is three hours at 48 kHz.
pub const NUMBERS: u32 = 1 << NUMBER_BITS;

/// Whose marks they are: those of other runs are told apart, and are not found but counted.
///
/// Two runs are taken for one where 8 of these bits agree; the other 20 say which number comes first,
/// so that marks of such runs are rarely numbered alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunNumber(u32);

impl RunNumber {
    /// From 28 bits, picked at random; others are left out. Zero begins with number 0.
    pub const fn new(bits: u32) -> Self {
        Self(bits & (u32::MAX >> (32 - WORD_BITS)))
    }

    /// The number of the first mark.
    pub const fn first(self) -> u32 {
        self.0 >> 8
    }

    /// What is laid over the CRC.
    const fn cover(self) -> u8 {
        self.0 as u8
    }
}

/// Frames from chip to chip.
const CHIP: usize = 4;
const CHIPS: usize = 120;
const SYNC_CHIPS: usize = 63;
const NUMBER_BITS: u32 = 20;
const WORD_BITS: u32 = NUMBER_BITS + 8;
/// From a mark's first frame to where the mark is.
const CENTRE: usize = SYNC_CHIPS / 2 * CHIP;

/// One period of x⁶ + x + 1, the first chip in the lowest bit.
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

/// What a mark says: its number and, under what lies over it, the CRC.
fn word_of(number: u32, cover: u8) -> u32 {
    let number = number % NUMBERS;
    (number << 8) | u32::from(crc(number) ^ cover)
}

/// The chips of a run's mark with this number, the first in the lowest bit; a set bit is positive.
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

/// CRC-8 with the polynomial 0x2F, which finds any three wrong bits in words as short as these
/// (Koopman and Chakravarty, 2004), begun at 0xFF so that no silence passes.
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

/// The sign of chip `index`; the one after the last is the first of the next mark.
fn chip(chips: u128, index: usize) -> f64 {
    if (chips >> (index % CHIPS)) & 1 == 1 { 1.0 } else { -1.0 }
}

/// What is left of a chip `frames` after its centre, up to [`CHIP`]; the rest is the next one's.
fn fade(frames: f64) -> f64 {
    0.5 + 0.5 * (core::f64::consts::PI / CHIP as f64 * frames).cos()
}

/// The sound of a mark `at` frames after its first, between that and the last.
fn wave(chips: u128, at: f64) -> f64 {
    let at = at.max(0.0);
    let index = at as usize / CHIP;
    let left = fade(at - (index * CHIP) as f64);
    chip(chips, index) * left + chip(chips, index + 1) * (1.0 - left)
}
