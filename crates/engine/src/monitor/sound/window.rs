//! Compares a window of a card's sound with the frames of packets at one place.

use core::ops::RangeInclusive;

use tautline_dsp::align::{Landmarks, Likeness, dot};
use tautline_proto::time::{Frames, MediaTime};

use super::between::WINDOW;
use super::recent::RecentFrames;

/// Maximum residual energy of a match: −60 dB. This is above the rounding errors of a volume and
/// below other sound.
const LEFT_OVER: f64 = 1e-6;
/// Mean square below which a window is silence and gives no result: −90 dBFS.
const SILENCE: f64 = 1e-9;
/// Maximum deviation of a sample in a candidate, relative to the loudest sample.
const LIKELY: f32 = 0.01;
/// Maximum deviation between frames: at half a frame's distance, a tone of 8 kHz deviates by half.
const ALIKE: f32 = 0.5;
/// Stride of the comparison, coprime to [`WINDOW`], so that the first samples are far from each
/// other.
const STRIDE: usize = 389;
/// Samples compared in that order before all are compared.
const FIRST: usize = 8;
/// Samples compared together.
const TOGETHER: usize = 32;

pub(super) struct SoundWindow<'a> {
    pub(super) samples: &'a [f32],
    pub(super) brought: &'a RecentFrames,
    /// The loudest sample, and two samples far from it.
    landmarks: Landmarks,
}

/// Extra tolerance over [`LIKELY`] when places are compared together, so that rounding hides no
/// match.
const SAFE: f32 = 1.001;

pub(super) fn longest_run(reach: Frames) -> Frames {
    Frames::from_len(Landmarks::reach(2 * reach.as_len() + 1, WINDOW))
}

fn loudest(samples: &[f32]) -> usize {
    let (chunks, rest) = samples.as_chunks::<TOGETHER>();
    let mut most = [0.0_f32; TOGETHER];
    for chunk in chunks {
        for (most, sample) in most.iter_mut().zip(chunk) {
            // This compiles to one instruction, unlike `max`.
            *most = if sample.abs() > *most { sample.abs() } else { *most };
        }
    }
    let most = most.iter().chain(rest).fold(0.0_f32, |most, sample| most.max(sample.abs()));
    samples.iter().position(|sample| sample.abs() >= most).unwrap_or(0)
}

impl<'a> SoundWindow<'a> {
    pub(super) fn new(samples: &'a [f32], brought: &'a RecentFrames) -> Option<Self> {
        let energy = dot(samples, samples);
        // NaN from a broken device counts as silence.
        let heard = f64::from(energy) >= SILENCE * WINDOW as f64 && energy.is_finite();
        heard.then(|| {
            let loudest = loudest(samples);
            let indices = [0, 1, 2].map(|step| (loudest + step * STRIDE) % WINDOW);
            let at = indices.map(|index| samples[index]);
            Self {
                samples,
                brought,
                landmarks: Landmarks { indices, samples: at, part: LIKELY * SAFE },
            }
        })
    }

    const fn loudest(&self) -> usize {
        self.landmarks.indices[0]
    }

    fn there(&self, place: MediaTime) -> &'a [f32] {
        self.brought.run(place, WINDOW).unwrap_or_default()
    }

    pub(super) fn matches(&self, place: MediaTime) -> bool {
        self.is_likely(self.there(place)) && self.likeness(place).left_over() <= LEFT_OVER
    }

    pub(super) fn likeness(&self, place: MediaTime) -> Likeness {
        Likeness::between(self.samples, self.there(place))
    }

    /// Returns whether the window can lie within a frame of `place`: no sample deviates much.
    pub(super) fn resembles(&self, place: MediaTime, gain: f32) -> bool {
        self.is_near(self.there(place), gain, ALIKE)
    }

    /// Returns whether every sample matches roughly, at the gain of the loudest.
    fn is_likely(&self, there: &[f32]) -> bool {
        let gain =
            there.get(self.loudest()).map_or(f32::NAN, |at| self.samples[self.loudest()] / at);
        gain > 0.0 && gain.is_finite() && self.is_near(there, gain, LIKELY)
    }

    /// Returns whether no sample deviates at this gain by more than `part` of the loudest. `false`
    /// for NaN.
    fn is_near(&self, there: &[f32], gain: f32, part: f32) -> bool {
        let slack = self.samples[self.loudest()].abs() * part;
        let near = |sample: f32, brought: f32| (sample - gain * brought).abs() <= slack;
        let (samples, brought) =
            (self.samples.as_chunks::<TOGETHER>(), there.as_chunks::<TOGETHER>());
        there.len() == WINDOW
            && self.order(FIRST).all(|index| near(self.samples[index], there[index]))
            && samples.0.iter().zip(brought.0).all(|(samples, brought)| {
                samples.iter().zip(brought).fold(true, |all, (s, b)| all & near(*s, *b))
            })
    }

    fn order(&self, count: usize) -> impl Iterator<Item = usize> + use<> {
        let loudest = self.loudest();
        (0..count).map(move |step| (loudest + step * STRIDE) % WINDOW)
    }

    pub(super) fn likely(
        &self,
        middle: MediaTime,
        reach: i64,
    ) -> impl Iterator<Item = MediaTime> + '_ {
        let (first, last) = (middle - Frames::new(reach), middle + Frames::new(reach));
        let count = (last - first).as_len() + 1;
        let span = self.brought.run(first, longest_run(Frames::new(reach)).as_len());
        let likely = span.into_iter().flat_map(move |span| self.landmarks.places(span, count));
        likely.map(move |index| first + Frames::from_len(index))
    }

    /// Returns the best place around a matching one. Low-frequency sound also matches at
    /// neighbouring places, but less well.
    pub(super) fn settle(&self, mut best: MediaTime) -> MediaTime {
        let one = Frames::new(1);
        let left_over = |place: MediaTime| self.likeness(place).left_over();
        let mut left = left_over(best);
        // An exact match, which is usual at full volume, cannot be improved.
        while left > 0.0 {
            let neighbours = [best - one, best + one].map(|place| (place, left_over(place)));
            let Some(better) = neighbours.into_iter().find(|(_, neighbour)| *neighbour < left)
            else {
                break;
            };
            (best, left) = better;
        }
        best
    }

    /// Returns the range of matching places around `best`, up to `reach` away.
    pub(super) fn neighbours(&self, best: MediaTime, reach: i64) -> RangeInclusive<MediaTime> {
        let run = |sign: i64| {
            let away = (1..=reach).map(|away| best + Frames::new(sign * away));
            Frames::from_len(away.take_while(|place| self.matches(*place)).count())
        };
        best - run(-1)..=best + run(1)
    }
}
