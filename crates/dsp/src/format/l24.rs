//! Loops over samples of three bytes, which no type of the language has.

use super::{FULL_24, round};

/// Samples that are rounded together before their bytes are stored: wide enough for any vector.
const LANES: usize = 16;

#[inline(always)]
pub(super) fn decode(bytes: &[u8], out: &mut [f32]) {
    let count = out.len().min(bytes.len() / 3);
    let (whole, rest) = bytes[..3 * count].as_chunks::<{ 3 * LANES }>();
    let (out_whole, out_rest) = out[..count].as_chunks_mut::<LANES>();
    for (out, coded) in out_whole.iter_mut().zip(whole) {
        *out = load(coded).map(scaled);
    }
    for (sample, &[high, middle, low]) in out_rest.iter_mut().zip(rest.as_chunks::<3>().0) {
        *sample = scaled(i32::from_be_bytes([high, middle, low, 0]));
    }
}

#[inline(always)]
pub(super) fn encode(samples: &[f32], out: &mut [u8]) {
    let count = samples.len().min(out.len() / 3);
    let (whole, rest) = samples[..count].as_chunks::<LANES>();
    let (out_whole, out_rest) = out[..3 * count].as_chunks_mut::<{ 3 * LANES }>();
    for (coded, samples) in out_whole.iter_mut().zip(whole) {
        store(samples.map(|sample| round(sample, FULL_24)), coded);
    }
    for (coded, &sample) in out_rest.as_chunks_mut::<3>().0.iter_mut().zip(rest) {
        *coded = big_endian(round(sample, FULL_24));
    }
}

/// A step in the upper three bytes, where the sign needs no extending; what is below is not part of it.
/// 256 goes into the scale.
#[inline(always)]
fn scaled(wide: i32) -> f32 {
    (wide & !0xFF) as f32 * (1.0 / (FULL_24 * 256.0))
}

/// Steps in the upper three bytes, read four bytes at a time, of which the last is the next step's:
/// half the instructions of three single ones.
#[inline(always)]
fn load(coded: &[u8; 3 * LANES]) -> [i32; LANES] {
    let four =
        |at: usize| i32::from_be_bytes([coded[at], coded[at + 1], coded[at + 2], coded[at + 3]]);
    core::array::from_fn(|lane| match lane {
        ..15 => four(3 * lane),
        _ => four(3 * LANES - 4) << 8,
    })
}

/// Stores steps one after the other. Four bytes at a time, the last of which the next step overwrites,
/// are half the instructions of three single ones.
#[inline(always)]
fn store(steps: [i32; LANES], out: &mut [u8; 3 * LANES]) {
    for lane in 0..LANES - 1 {
        out[3 * lane..3 * lane + 4].copy_from_slice(&(steps[lane] << 8).to_be_bytes());
    }
    out[3 * LANES - 3..].copy_from_slice(&big_endian(steps[LANES - 1]));
}

/// The lower three bytes of a step, the highest first.
const fn big_endian(step: i32) -> [u8; 3] {
    let [_, high, middle, low] = step.to_be_bytes();
    [high, middle, low]
}
