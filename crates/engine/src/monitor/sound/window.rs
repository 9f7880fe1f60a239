//! Compares a window of sound with packets' frames at one place.

use core::ops::RangeInclusive;

use tautline_dsp::align::{Landmarks, Similarity, dot};
use tautline_proto::time::{Frames, MediaTime};

use super::between::WINDOW;
use super::recent::RecentFrames;

/// Maximum residual energy: −60 dB, above a volume's rounding errors and below other sound.
const LEFT_OVER: f64 = 1e-6;
/// Maximum residual energy of a sound that repeats itself: −40 dB, as its period may end between
/// frames.
const REPEATED: f64 = 1e-4;
/// Longest period, in frames: a third of the window is left to compare.
const LONGEST_PERIOD: usize = WINDOW * 2 / 3;
const SILENCE: f64 = 1e-9;
const LIKELY: f32 = 0.01;
/// Maximum deviation between frames: at half a frame, an 8 kHz tone deviates by half.
const ALIKE: f32 = 0.5;
/// Step between compared samples. It is coprime to [`WINDOW`], so that the first samples are far
/// apart.
const STRIDE: usize = 389;
const FIRST: usize = 8;
const TOGETHER: usize = 32;

pub(super) struct SoundWindow<'a> {
    pub(super) samples: &'a [f32],
    pub(super) brought: &'a RecentFrames,
    landmarks: Landmarks,
}

/// Extra tolerance over [`LIKELY`], so that rounding hides no match.
const SAFE: f32 = 1.001;

pub(super) fn longest_run(reach: Frames) -> Frames {
    Frames::from_len(Landmarks::reach(2 * reach.as_len() + 1, WINDOW))
}

fn loudest(samples: &[f32]) -> usize {
    let (chunks, rest) = samples.as_chunks::<TOGETHER>();
    let mut maximum = [0.0_f32; TOGETHER];
    for chunk in chunks {
        for (maximum, sample) in maximum.iter_mut().zip(chunk) {
            *maximum = if sample.abs() > *maximum { sample.abs() } else { *maximum };
        }
    }
    let maximum =
        maximum.iter().chain(rest).fold(0.0_f32, |maximum, sample| maximum.max(sample.abs()));
    samples.iter().position(|sample| sample.abs() >= maximum).unwrap_or(0)
}

impl<'a> SoundWindow<'a> {
    pub(super) fn new(samples: &'a [f32], brought: &'a RecentFrames) -> Option<Self> {
        let energy = dot(samples, samples);
        let received = f64::from(energy) >= SILENCE * WINDOW as f64 && energy.is_finite();
        received.then(|| {
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
        self.is_likely(self.there(place)) && self.similarity(place).left_over() <= LEFT_OVER
    }

    pub(super) fn similarity(&self, place: MediaTime) -> Similarity {
        Similarity::between(self.samples, self.there(place))
    }

    pub(super) fn resembles(&self, place: MediaTime, gain: f32) -> bool {
        self.is_near(self.there(place), gain, ALIKE)
    }

    fn is_likely(&self, there: &[f32]) -> bool {
        let gain =
            there.get(self.loudest()).map_or(f32::NAN, |at| self.samples[self.loudest()] / at);
        gain > 0.0 && gain.is_finite() && self.is_near(there, gain, LIKELY)
    }

    /// Whether all samples deviate by at most `part` of the loudest; `false` for NaN.
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

    /// Whether the sound repeats itself at a place near `best` with missing frames, which may be
    /// the right place instead: a lost packet of a tone is concealed by the tone.
    pub(super) fn repeats_where_frames_miss(&self, best: MediaTime, reach: i64) -> bool {
        let misses = |away: i64| {
            let there = self.there(best + Frames::new(away));
            there.len() != WINDOW || there.iter().any(|sample| sample.is_nan())
        };
        if !(-reach..=reach).step_by(WINDOW / 2).any(misses) {
            return false;
        }
        let Some(period) = self.period() else { return false };
        let period = Frames::from_len(period).count();
        (1..=reach / period).flat_map(|times| [times * period, -times * period]).any(misses)
    }

    /// Smallest lag at which the window matches itself, beyond the lags at which slow sound
    /// resembles itself.
    fn period(&self) -> Option<usize> {
        let unlike = |lag: usize| {
            let (early, late) = (&self.samples[..WINDOW - lag], &self.samples[lag..]);
            Similarity::between(late, early).left_over() > REPEATED
        };
        let differs = (1..=LONGEST_PERIOD).find(|lag| unlike(*lag))?;
        (differs..=LONGEST_PERIOD).find(|lag| !unlike(*lag))
    }

    pub(super) fn settle(&self, mut best: MediaTime) -> MediaTime {
        let one = Frames::new(1);
        let left_over = |place: MediaTime| self.similarity(place).left_over();
        let mut left = left_over(best);
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

    pub(super) fn neighbours(&self, best: MediaTime, reach: i64) -> RangeInclusive<MediaTime> {
        let run = |sign: i64| {
            let away = (1..=reach).map(|away| best + Frames::new(sign * away));
            Frames::from_len(away.take_while(|place| self.matches(*place)).count())
        };
        best - run(-1)..=best + run(1)
    }
}
