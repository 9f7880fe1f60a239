//! Looks roughly where sound may come from: at a few samples of it, at many places together.

use crate::vector::widest;

/// So many places are looked at together.
const TOGETHER: usize = 32;

/// Three samples of a sound and where they lie in it: of the loudest the volume is taken, by which the others
/// are compared.
#[derive(Debug, Clone, Copy)]
pub struct Landmarks {
    /// Indices, the loudest sample's first.
    pub indices: [usize; 3],
    /// The samples there.
    pub samples: [f32; 3],
    /// How far from its place another may be, as a part of the loudest.
    pub part: f32,
}

impl Landmarks {
    /// The indices of `brought` at which the sound may begin: of the first `count`, those where each of the
    /// samples is roughly what was brought. Whole blocks are looked at, of which nothing may be missing: of as
    /// many samples as [`reach`](Self::reach) says. A place is as likely where NaN was brought for the second
    /// sample, and not likely where for another.
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

    /// How many samples are looked at for so many places of a sound this long.
    pub const fn reach(count: usize, length: usize) -> usize {
        count.next_multiple_of(TOGETHER) + length
    }

    /// The first block from `next` on that has such a place, and which: a bit each.
    fn next_block(&self, brought: &[f32], next: usize, blocks: usize) -> Option<(usize, u32)> {
        widest(
            #[inline(always)]
            |_| {
                // A loop, as what an iterator calls is compiled for every processor only.
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
        // All together, and seldom one by one: as near as that is hardly a place but the right one. Of signs,
        // other than of the least, a compiler makes vectors.
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

    /// By how much the worse of two samples is too far off at a place, times the sample that was brought for
    /// the loudest: so no quotient is needed. Less than nothing where none is; of what is no number, not less.
    #[inline(always)]
    fn excess(&self, loudest: f32, second: f32, third: f32) -> f32 {
        let off = |sample: f32, brought: f32| (sample * loudest - self.samples[0] * brought).abs();
        let slack = self.samples[0].abs() * self.part;
        let (second, third) = (off(self.samples[1], second), off(self.samples[2], third));
        // As one instruction has it: the second where either is no number.
        let worse = if second > third { second } else { third };
        worse - slack * loudest.abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDICES: [usize; 3] = [5, 0, 9];
    /// The longest index, and one more.
    const LENGTH: usize = 10;

    fn landmarks(sound: &[f32], part: f32) -> Landmarks {
        Landmarks { indices: INDICES, samples: INDICES.map(|index| sound[index]), part }
    }

    /// Sound that is told apart by the order of its samples; the one at 5 is the loudest.
    fn sound() -> Vec<f32> {
        (0..LENGTH).map(|n| if n == 5 { -1.0 } else { 0.05 * (n as f32 + 1.0) }).collect()
    }

    fn found(landmarks: &Landmarks, brought: &[f32], count: usize) -> Vec<usize> {
        landmarks.places(brought, count).collect()
    }

    /// So many places, with the sound at each of these at half its volume.
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
            // Of a loudest sample of a half: 0.03 of it.
            off[7 + index] += 0.015;
            assert_eq!(found(&landmarks(&sound(), 0.02), &off, 40), [0; 0], "{index}");
            assert_eq!(found(&landmarks(&sound(), 0.04), &off, 40), [7], "{index}");
        }
    }

    #[test]
    fn a_hole_or_what_is_shorter_than_asked_for_holds_no_sound_and_breaks_nothing() {
        let landmarks = landmarks(&sound(), 0.01);
        assert_eq!(found(&landmarks, &[f32::NAN; 60], 40), [0; 0]);
        assert_eq!(found(&landmarks, &brought(40, &[7])[..12], 40), [0; 0]);
        assert_eq!(found(&landmarks, &[], 40), [0; 0]);
    }
}
