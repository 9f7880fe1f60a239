//! Field of 256 elements: polynomials modulo x⁸ + x⁴ + x³ + x² + 1 (RFC 8681 §3.7, RFC 5510 §8.1).
//! Addition is exclusive or.
//!
//! Payloads are rows of 64-bit words with eight elements each.

/// Polynomial of the field, without its highest term.
const POLYNOMIAL: u8 = 0x1D;

/// Words that [`add_multiples`] holds in registers.
pub(super) const LINE: usize = 8;

/// Powers of 2, repeated to save a reduction, and logarithms.
const TABLES: ([u8; 510], [u8; 256]) = {
    let (mut powers, mut logarithms) = ([0; 510], [0; 256]);
    let (mut power, mut exponent) = (1u8, 0);
    while exponent < 255 {
        powers[exponent] = power;
        powers[exponent + 255] = power;
        logarithms[power as usize] = exponent as u8;
        power = (power << 1) ^ if power & 0x80 != 0 { POLYNOMIAL } else { 0 };
        exponent += 1;
    }
    (powers, logarithms)
};
static POWERS: [u8; 510] = TABLES.0;
static LOGARITHMS: [u8; 256] = TABLES.1;

pub(super) fn product(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    POWERS[usize::from(LOGARITHMS[usize::from(a)]) + usize::from(LOGARITHMS[usize::from(b)])]
}

/// Multiplicative inverse; zero for zero.
pub(super) fn inverse(a: u8) -> u8 {
    if a == 0 { 0 } else { POWERS[255 - usize::from(LOGARITHMS[usize::from(a)])] }
}

/// Doubles each element in a word.
const fn doubled(word: u64) -> u64 {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let carries = (word & HIGH) >> 7;
    ((word & !HIGH) << 1) ^ carries ^ (carries << 2) ^ (carries << 3) ^ (carries << 4)
}

/// Adds each row of `parts` times its factor to `into`, all of equal length in whole lines.
///
/// Eight sums, one per factor bit, are combined by Horner's rule: four additions per row on
/// average.
pub(super) fn add_multiples<'a>(
    into: &mut [u64],
    parts: impl Iterator<Item = (u8, &'a [u64])> + Clone,
) {
    let (lines, _) = into.as_chunks_mut::<LINE>();
    for (number, line) in lines.iter_mut().enumerate() {
        let mut sums = [[0u64; LINE]; 8];
        for (factor, row) in parts.clone() {
            let Some(part) = row.as_chunks::<LINE>().0.get(number) else { continue };
            let mut bits = factor;
            while bits != 0 {
                let sum = &mut sums[bits.trailing_zeros() as usize];
                sum.iter_mut().zip(part).for_each(|(sum, part)| *sum ^= part);
                bits &= bits - 1;
            }
        }
        let total = sums.iter().rev().fold([0u64; LINE], |total, sum| {
            core::array::from_fn(|word| doubled(total[word]) ^ sum[word])
        });
        line.iter_mut().zip(total).for_each(|(word, total)| *word ^= total);
    }
}

pub(super) fn scale(row: &mut [u64], factor: u8) {
    if factor == 1 {
        return;
    }
    for word in row {
        let (mut total, mut doubling, mut bits) = (0, *word, factor);
        while bits != 0 {
            if bits & 1 != 0 {
                total ^= doubling;
            }
            doubling = doubled(doubling);
            bits >>= 1;
        }
        *word = total;
    }
}

/// Copies `bytes` to the row and fills the rest with zeros.
pub(super) fn load(row: &mut [u64], bytes: &[u8]) {
    let (words, rest) = bytes.as_chunks::<8>();
    let (whole, behind) = row.split_at_mut(words.len().min(row.len()));
    whole.iter_mut().zip(words).for_each(|(place, word)| *place = u64::from_le_bytes(*word));
    behind.fill(0);
    load_rest(behind, rest);
}

fn load_rest(behind: &mut [u64], rest: &[u8]) {
    if let (Some(place), false) = (behind.first_mut(), rest.is_empty()) {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        *place = u64::from_le_bytes(last);
    }
}

/// Like [`load`], for whole lines. Zeroes the whole last line: the compiler's `memset` is slower.
#[inline]
pub(super) fn load_whole(row: &mut [u64], bytes: &[u8]) {
    debug_assert!(row.len().is_multiple_of(LINE) && row.len() * 8 >= bytes.len());
    if let Some(last) = row.last_chunk_mut::<LINE>() {
        *last = [0; LINE];
    }
    let (words, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        load_rest(&mut row[words.len()..], rest);
    }
    row.iter_mut().zip(words).for_each(|(place, word)| *place = u64::from_le_bytes(*word));
}

pub(super) fn store(row: &[u64], bytes: &mut [u8]) {
    for (word, place) in row.iter().zip(bytes.chunks_mut(8)) {
        place.copy_from_slice(&word.to_le_bytes()[..place.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Textbook product: shift, add, reduce.
    fn slowly(a: u8, b: u8) -> u8 {
        (0..8).rev().fold(0u8, |sum, bit| {
            let doubled = (sum << 1) ^ if sum & 0x80 != 0 { POLYNOMIAL } else { 0 };
            doubled ^ if b >> bit & 1 != 0 { a } else { 0 }
        })
    }

    #[test]
    fn products_match_the_textbook_and_nonzero_elements_invert() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(product(a, b), slowly(a, b), "{a} times {b}");
            }
            assert_eq!(product(a, inverse(a)), u8::from(a != 0), "{a}");
        }
    }

    #[test]
    fn a_row_of_whole_lines_is_loaded_as_any_row() {
        let payload: Vec<u8> = (1..=255).cycle().take(768).collect();
        for bytes in 1..=payload.len() {
            let mut rows = [(); 2].map(|()| vec![u64::MAX; bytes.div_ceil(8 * LINE) * LINE]);
            load(&mut rows[0], &payload[..bytes]);
            load_whole(&mut rows[1], &payload[..bytes]);
            assert_eq!(rows[0], rows[1], "{bytes} bytes");
        }
    }

    #[test]
    fn sums_of_multiples_are_those_of_their_elements() {
        let mut random = fastrand_like();
        for bytes in [1, 7, 8, 63, 64, 65, 144, 300] {
            let words = bytes_to_words(bytes);
            let rows: Vec<Vec<u8>> =
                (0..5).map(|_| (0..bytes).map(|_| random()).collect()).collect();
            let loaded: Vec<Vec<u64>> = rows
                .iter()
                .map(|row| {
                    let mut words = vec![u64::MAX; words];
                    load(&mut words, row);
                    words
                })
                .collect();
            let factors: Vec<u8> = (0..5).map(|_| random()).collect();
            let mut sum = loaded[0].clone();
            let parts = factors.iter().copied().zip(loaded.iter().map(Vec::as_slice)).skip(1);
            add_multiples(&mut sum, parts);
            scale(&mut sum, factors[0]);
            let mut got = vec![0; bytes];
            store(&sum, &mut got);
            for (at, got) in got.iter().enumerate() {
                let wanted =
                    (1..5).fold(rows[0][at], |sum, row| sum ^ product(factors[row], rows[row][at]));
                assert_eq!(*got, product(factors[0], wanted), "byte {at} of {bytes}");
            }
        }
    }

    fn bytes_to_words(bytes: usize) -> usize {
        bytes.div_ceil(8).next_multiple_of(LINE)
    }

    fn fastrand_like() -> impl FnMut() -> u8 {
        let mut state = 7u32;
        move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        }
    }
}
