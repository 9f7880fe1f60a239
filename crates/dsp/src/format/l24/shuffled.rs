//! For x86-64-v3, which shuffles bytes in each half of a vector. Return the rest for the general
//! loop.

use fearless_simd::prelude::*;
use fearless_simd::{f32x8, i32x8, u8x16};

use super::{FULL_24, SCALE, round};
use crate::vector::Wide;

const LANES: usize = 8;
const AT_ONCE: usize = 4;

/// Source of each byte, for the first and last 16 of eight samples. The lowest of each four is
/// arbitrary.
const SPREAD: [u8; 32] = {
    let mut table = [0; 32];
    let mut at = 0;
    while at < 32 {
        let (lane, byte) = (at % 16 / 4, at % 4);
        if byte > 0 {
            table[at] = (3 * lane + 3 - byte + at / 16 * 4) as u8;
        }
        at += 1;
    }
    table
};

/// Source of each of 12 bytes, in each half.
const PACK: [u8; 32] = {
    let mut table = [0; 32];
    let mut at = 0;
    while at < 32 {
        let (lane, byte) = (at % 16 / 3, at % 16 % 3);
        if lane < 4 {
            table[at] = (4 * lane + 2 - byte) as u8;
        }
        at += 1;
    }
    table
};

#[inline(always)]
pub(super) fn decode<'a, 'b>(
    wide: Wide,
    coded: &'a [[u8; 3]],
    out: &'b mut [f32],
) -> (&'a [[u8; 3]], &'b mut [f32]) {
    let (groups, coded) = coded.as_chunks::<{ AT_ONCE * LANES }>();
    let (out_groups, out) = out.as_chunks_mut::<{ AT_ONCE * LANES }>();
    for (out, coded) in out_groups.iter_mut().zip(groups) {
        for (out, coded) in out.as_chunks_mut().0.iter_mut().zip(coded.as_chunks().0) {
            *out = load(wide, coded);
        }
    }
    let (whole, rest) = coded.as_chunks();
    let (out_whole, out_rest) = out.as_chunks_mut();
    for (out, coded) in out_whole.iter_mut().zip(whole) {
        *out = load(wide, coded);
    }
    (rest, out_rest)
}

#[inline(always)]
fn load(wide: Wide, coded: &[[u8; 3]; LANES]) -> [f32; LANES] {
    let coded = coded.as_flattened();
    let first = u8x16::from_slice(wide, &coded[..16]);
    let last = u8x16::from_slice(wide, &coded[3 * LANES - 16..]);
    let steps: i32x8<_> = first.combine(last).swizzle_dyn_within_blocks(SPREAD).bitcast();
    let steps: f32x8<_> = (steps & !0xFF).to_float();
    (steps * SCALE).into()
}

#[inline(always)]
pub(super) fn encode<'a, 'b>(
    wide: Wide,
    samples: &'a [f32],
    out: &'b mut [[u8; 3]],
) -> (&'a [f32], &'b mut [[u8; 3]]) {
    let (whole, rest) = samples.as_chunks();
    let (out_whole, out_rest) = out.as_chunks_mut();
    for (coded, samples) in out_whole.iter_mut().zip(whole) {
        store(wide, samples.map(|sample| round(sample, FULL_24)), coded);
    }
    (rest, out_rest)
}

#[inline(always)]
fn store(wide: Wide, steps: [i32; LANES], out: &mut [[u8; 3]; LANES]) {
    let steps: i32x8<_> = steps.simd_into(wide);
    let packed: [u8; 32] = steps.to_bytes().swizzle_dyn_within_blocks(PACK).into();
    let out = out.as_flattened_mut();
    out[..16].copy_from_slice(&packed[..16]);
    out[3 * LANES / 2..].copy_from_slice(&packed[16..16 + 3 * LANES / 2]);
}
