//! Loops over three-byte samples.

#[cfg(target_arch = "x86_64")]
mod shuffled;

use super::{FULL_24, round};
use crate::vector::Wide;

/// Samples per group: enough for any vector.
const LANES: usize = 16;
const SCALE: f32 = 1.0 / (FULL_24 * 256.0);

#[inline(always)]
pub(super) fn decode(wide: Option<Wide>, bytes: &[u8], out: &mut [f32]) {
    let coded = bytes.as_chunks::<3>().0;
    let count = out.len().min(coded.len());
    let (coded, out) = (&coded[..count], &mut out[..count]);
    let (rest, out_rest) = match wide {
        #[cfg(target_arch = "x86_64")]
        Some(wide) => shuffled::decode(wide, coded, out),
        #[cfg(not(target_arch = "x86_64"))]
        Some(none) => match none {},
        None => decode_groups(coded, out),
    };
    for (sample, &[high, middle, low]) in out_rest.iter_mut().zip(rest) {
        *sample = scaled(i32::from_be_bytes([high, middle, low, 0]));
    }
}

#[inline(always)]
fn decode_groups<'a, 'b>(
    coded: &'a [[u8; 3]],
    out: &'b mut [f32],
) -> (&'a [[u8; 3]], &'b mut [f32]) {
    let (groups, rest) = coded.as_chunks::<LANES>();
    let (out_groups, out_rest) = out.as_chunks_mut::<LANES>();
    let groups = groups.as_flattened().as_flattened().as_chunks().0;
    for (out, coded) in out_groups.iter_mut().zip(groups) {
        *out = load(coded).map(scaled);
    }
    (rest, out_rest)
}

#[inline(always)]
pub(super) fn encode(wide: Option<Wide>, samples: &[f32], out: &mut [u8]) {
    let out = out.as_chunks_mut::<3>().0;
    let count = samples.len().min(out.len());
    let (samples, out) = (&samples[..count], &mut out[..count]);
    let (rest, out_rest) = match wide {
        #[cfg(target_arch = "x86_64")]
        Some(wide) => shuffled::encode(wide, samples, out),
        #[cfg(not(target_arch = "x86_64"))]
        Some(none) => match none {},
        None => encode_groups(samples, out),
    };
    for (coded, &sample) in out_rest.iter_mut().zip(rest) {
        *coded = big_endian(round(sample, FULL_24));
    }
}

#[inline(always)]
fn encode_groups<'a, 'b>(
    samples: &'a [f32],
    out: &'b mut [[u8; 3]],
) -> (&'a [f32], &'b mut [[u8; 3]]) {
    let (groups, rest) = samples.as_chunks::<LANES>();
    let (out_groups, out_rest) = out.as_chunks_mut::<LANES>();
    let out_groups = out_groups.as_flattened_mut().as_flattened_mut().as_chunks_mut().0;
    for (coded, samples) in out_groups.iter_mut().zip(groups) {
        store(samples.map(|sample| round(sample, FULL_24)), coded);
    }
    (rest, out_rest)
}

/// Ignores the lowest byte.
#[inline(always)]
fn scaled(wide: i32) -> f32 {
    (wide & !0xFF) as f32 * SCALE
}

/// Half the instructions of three single reads.
#[inline(always)]
fn load(coded: &[u8; 3 * LANES]) -> [i32; LANES] {
    let four =
        |at: usize| i32::from_be_bytes([coded[at], coded[at + 1], coded[at + 2], coded[at + 3]]);
    core::array::from_fn(|lane| match lane {
        ..15 => four(3 * lane),
        _ => four(3 * LANES - 4) << 8,
    })
}

/// Overlapping writes: half the instructions of three single writes.
#[inline(always)]
fn store(steps: [i32; LANES], out: &mut [u8; 3 * LANES]) {
    for lane in 0..LANES - 1 {
        out[3 * lane..3 * lane + 4].copy_from_slice(&(steps[lane] << 8).to_be_bytes());
    }
    out[3 * LANES - 3..].copy_from_slice(&big_endian(steps[LANES - 1]));
}

const fn big_endian(step: i32) -> [u8; 3] {
    let [_, high, middle, low] = step.to_be_bytes();
    [high, middle, low]
}
