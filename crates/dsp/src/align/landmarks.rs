//! Coarse search for sound. Compares a few samples at many places together.

use crate::vector::widest;

const TOGETHER: usize = 32;

/// Three samples of a sound. The loudest determines the gain.
#[derive(Debug, Clone, Copy)]
pub struct Landmarks {
    /// Indices, the loudest sample's first.
    pub indices: [usize; 3],
    /// Their values.
    pub samples: [f32; 3],
    /// Tolerance, relative to the loudest.
    pub part: f32,
}

impl Landmarks {
    /// `brought` must hold [`reach`](Self::reach) samples. NaN excludes a place, except at the
    /// second sample.
    pub fn places<'a>(
        &'a self,
        brought: &'a [f32],
        count: usize,
    ) -> impl Iterator<Item = usize> + 'a {
        let mut next = 0;
        let (mut begin, mut bits) = (0, 0_u32);
        core::iter::from_fn(move || {
            if bits == 0 {
                let (block, found) = self.next_block(brought, next, count.div_ceil(TOGETHER))?;
                (next, begin, bits) = (block + 1, block * TOGETHER, found);
            }
            let lane = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            Some(begin + lane)
        })
        .take_while(move |index| *index < count)
    }

    /// Samples needed for `count` places.
    pub const fn reach(count: usize, length: usize) -> usize {
        count.next_multiple_of(TOGETHER) + length
    }

    fn next_block(&self, brought: &[f32], next: usize, blocks: usize) -> Option<(usize, u32)> {
        widest(
            #[inline(always)]
            |_| {
                // A plain loop: closures called by iterators are not compiled for specific
                // processors.
                for block in next..blocks {
                    let bits = self.block(brought, block);
                    if bits != 0 {
                        return Some((block, bits));
                    }
                }
                None
            },
        )
    }

    #[inline(always)]
    fn block(&self, brought: &[f32], block: usize) -> u32 {
        let [Some(loudest), Some(second), Some(third)] = self.indices.map(
            #[inline(always)]
            |index| brought.get(block * TOGETHER + index..)?.first_chunk::<TOGETHER>(),
        ) else {
            return 0;
        };
        // All lanes together: compilers vectorise sign bits, but not minimums.
        let mut signs = 0;
        for lane in 0..TOGETHER {
            signs |= self.excess(loudest[lane], second[lane], third[lane]).to_bits();
        }
        if signs >> 31 == 0 {
            return 0;
        }
        let likely = |lane: usize| {
            self.samples[0] * loudest[lane] > 0.0
                && self.excess(loudest[lane], second[lane], third[lane]) < 0.0
        };
        (0..TOGETHER).fold(0, |bits, lane| bits | u32::from(likely(lane)) << lane)
    }

    /// Times the loudest of `brought`, to avoid a division. Negative if both match.
    #[inline(always)]
    fn excess(&self, loudest: f32, second: f32, third: f32) -> f32 {
        let off = |sample: f32, brought: f32| (sample * loudest - self.samples[0] * brought).abs();
        let slack = self.samples[0].abs() * self.part;
        let (second, third) = (off(self.samples[1], second), off(self.samples[2], third));
        // A single instruction: the second operand if either is NaN.
        let worse = if second > third { second } else { third };
        worse - slack * loudest.abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDICES: [usize; 3] = [5, 0, 9];
    const LENGTH: usize = 10;

    fn landmarks(sound: &[f32], part: f32) -> Landmarks {
        Landmarks { indices: INDICES, samples: INDICES.map(|index| sound[index]), part }
    }

    fn sound() -> Vec<f32> {
        (0..LENGTH).map(|n| if n == 5 { -1.0 } else { 0.05 * (n as f32 + 1.0) }).collect()
    }

    fn found(landmarks: &Landmarks, brought: &[f32], count: usize) -> Vec<usize> {
        landmarks.places(brought, count).collect()
    }

    fn brought(count: usize, at: &[usize]) -> Vec<f32> {
        let mut brought = vec![0.0; Landmarks::reach(count, LENGTH)];
        for &at in at {
            let half = sound().into_iter().map(|sample| sample / 2.0);
            brought[at..].iter_mut().zip(half).for_each(|(brought, sample)| *brought = sample);
        }
        brought
    }

    #[test]
    fn sound_is_found_wherever_it_begins_and_nowhere_else() {
        let landmarks = landmarks(&sound(), 0.01);
        crate::vector::prepare();
        for at in (0..20).chain([31, 32, 33, 63, 64, 98, 99]) {
            assert_eq!(found(&landmarks, &brought(100, &[at]), 100), [at]);
        }
        assert_eq!(
            found(&landmarks, &brought(100, &[3, 15, 40, 64, 80]), 100),
            [3, 15, 40, 64, 80]
        );
        assert_eq!(found(&landmarks, &brought(100, &[100]), 100), [0; 0], "beyond the last place");
        assert_eq!(found(&landmarks, &brought(100, &[]), 100), [0; 0], "of silence");
    }

    #[test]
    fn sound_upside_down_or_further_off_than_the_part_is_not_found() {
        let mut turned = brought(40, &[7]);
        turned.iter_mut().for_each(|sample| *sample = -*sample);
        assert_eq!(found(&landmarks(&sound(), 0.01), &turned, 40), [0; 0]);
        for index in [0, 9] {
            let mut off = brought(40, &[7]);
            off[7 + index] += 0.015;
            assert_eq!(found(&landmarks(&sound(), 0.02), &off, 40), [0; 0], "{index}");
            assert_eq!(found(&landmarks(&sound(), 0.04), &off, 40), [7], "{index}");
        }
    }

    #[test]
    fn holes_and_short_input_match_nothing() {
        let landmarks = landmarks(&sound(), 0.01);
        assert_eq!(found(&landmarks, &[f32::NAN; 60], 40), [0; 0]);
        assert_eq!(found(&landmarks, &brought(40, &[7])[..12], 40), [0; 0]);
        assert_eq!(found(&landmarks, &[], 40), [0; 0]);
    }
}
