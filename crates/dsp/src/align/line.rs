//! Fits the line that explains most of the received sound.

use super::Similarity;
use crate::fit::solve;
use crate::resample::{Quality, Resampler, Step};

const APART: f64 = 1.0 / 64.0;
const MAX_DRIFT: f64 = 1e-3;

/// Line of received frames in a sound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Along {
    /// Position of the first frame, in frames.
    pub place: f64,
    /// Additional distance per frame.
    pub drift: f64,
}

/// Reads sound along a line.
#[derive(Debug)]
pub struct Interpolator {
    resampler: Resampler,
    longest: usize,
    input: Vec<f32>,
}

impl Interpolator {
    /// Reads at most `longest` frames in one pass. Splits longer reads.
    pub fn new(quality: Quality, longest: usize) -> Self {
        let resampler = Resampler::new(quality, 1, longest);
        let input = Vec::with_capacity(longest + longest / 128 + 4 * resampler.half());
        Self { resampler, longest, input }
    }

    /// `sound` writes the frames from an index.
    pub fn read(&mut self, along: Along, out: &mut [f32], sound: impl Fn(i64, &mut [f32])) {
        let half = self.resampler.half();
        for (part, out) in out.chunks_mut(self.longest).enumerate() {
            let place = along.place + (part * self.longest) as f64 * (1.0 + along.drift);
            let whole = place.floor();
            // The drift is below 1 %.
            self.input.resize(out.len() + out.len() / 128 + 2 * half + 4, 0.0);
            sound(whole as i64 - half as i64, &mut self.input);
            self.resampler.reset();
            self.resampler.pass(&self.input[..half]);
            self.resampler.push(&self.input[half..]);
            // The cast saturates.
            self.resampler.set_fraction(((place - whole) * 2.0_f64.powi(32)) as u32);
            self.resampler.pull(out, Step::from_ppm(along.drift * 1e6));
        }
    }
}

/// Writes samples from an index, with silence outside.
pub fn padded(samples: &[f32]) -> impl Fn(i64, &mut [f32]) + '_ {
    move |from, out| {
        let before = usize::try_from(-from).unwrap_or(0).min(out.len());
        let there = samples.get(usize::try_from(from).unwrap_or(0)..).unwrap_or_default();
        let count = there.len().min(out.len() - before);
        out[..before].fill(0.0);
        out[before..before + count].copy_from_slice(&there[..count]);
        out[before + count..].fill(0.0);
    }
}

/// Fits the line of received sound. Allocates only at set-up.
#[derive(Debug)]
pub struct LineFitter {
    interpolator: Interpolator,
    here: Vec<f32>,
    after: Vec<f32>,
}

impl LineFitter {
    /// Fits up to `longest` frames; longer runs allocate.
    pub fn new(quality: Quality, longest: usize) -> Self {
        let (here, after) = (Vec::with_capacity(longest), Vec::with_capacity(longest));
        Self { interpolator: Interpolator::new(quality, longest), here, after }
    }

    /// `sound` writes the frames from an index.
    pub fn read(&mut self, along: Along, count: usize, sound: impl Fn(i64, &mut [f32])) -> &[f32] {
        self.here.resize(count, 0.0);
        self.interpolator.read(along, &mut self.here, sound);
        &self.here
    }

    /// Last frames read.
    pub fn last(&self) -> &[f32] {
        &self.here
    }

    /// Similarity of the received sound to the sound along a line.
    pub fn similarity(
        &mut self,
        received: &[f32],
        along: Along,
        sound: impl Fn(i64, &mut [f32]),
    ) -> Similarity {
        Similarity::between(received, self.read(along, received.len(), sound))
    }

    /// Gauss–Newton. Stops after `rounds`, or when no frame moves by more than `still`. `None`
    /// without a solution.
    pub fn refine(
        &mut self,
        received: &[f32],
        mut along: Along,
        (rounds, still): (usize, f64),
        sound: impl Fn(i64, &mut [f32]),
    ) -> Option<Along> {
        self.after.resize(received.len(), 0.0);
        for _ in 0..rounds {
            self.read(along, received.len(), &sound);
            let further = Along { place: along.place + APART, ..along };
            self.interpolator.read(further, &mut self.after, &sound);
            let Nudge { further, faster } = nudge(received, &self.here, &self.after, APART)?;
            along.place += further.clamp(-1.0, 1.0);
            along.drift = (along.drift + faster).clamp(-MAX_DRIFT, MAX_DRIFT);
            if further.abs() < still && faster.abs() * (received.len() as f64) < still {
                break;
            }
        }
        Some(along)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Nudge {
    /// In samples.
    further: f64,
    /// In samples per sample.
    faster: f64,
}

/// `here` and `after` are `apart` frames from each other. `None` without a solution or for a
/// negative gain.
fn nudge(received: &[f32], here: &[f32], after: &[f32], apart: f64) -> Option<Nudge> {
    let length = received.len() as f64;
    let mut rows = [[0.0_f64; 4]; 3];
    for (index, ((received, here), after)) in received.iter().zip(here).zip(after).enumerate() {
        let here = f64::from(*here);
        let slope = (f64::from(*after) - here) / apart;
        // All three terms have similar magnitude.
        let terms = [here, slope, slope * index as f64 / length];
        let others = [terms[0], terms[1], terms[2], f64::from(*received)];
        for (row, term) in rows.iter_mut().zip(terms) {
            row.iter_mut().zip(others).for_each(|(sum, other)| *sum += term * other);
        }
    }
    let [gain, further, faster] = solve(&mut rows).then(|| rows.map(|row| row[3]))?;
    (gain > 0.0).then(|| Nudge { further: further / gain, faster: faster / gain / length })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sound_is_padded_with_silence_wherever_it_is_cut() {
        let (samples, mut out) = ([1.0, 2.0, 3.0], [9.0; 4]);
        for (from, wanted) in [
            (0, [1.0, 2.0, 3.0, 0.0]),
            (-2, [0.0, 0.0, 1.0, 2.0]),
            (2, [3.0, 0.0, 0.0, 0.0]),
            (-9, [0.0; 4]),
            (9, [0.0; 4]),
        ] {
            padded(&samples)(from, &mut out);
            assert_eq!(out, wanted, "{from}");
        }
    }

    #[test]
    fn nearby_line_is_refined_to_the_true_line() {
        let sound: Vec<f32> = (0..3000).map(|at| (f64::from(at) * 0.1).sin() as f32).collect();
        let mut reader = Interpolator::new(Quality::Best, 500);
        let along = Along { place: 700.3, drift: 1e-4 };
        // Longer than the maximum.
        let mut received = [0.0; 1024];
        reader.read(along, &mut received, padded(&sound));
        let near = Along { place: 700.0, drift: 0.0 };
        let mut fitter = LineFitter::new(Quality::Best, 500);
        let found = fitter.refine(&received, near, (6, 1e-6), padded(&sound)).unwrap();
        assert!((found.place - along.place).abs() < 1e-3, "{found:?}");
        assert!((found.drift - along.drift).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn round_with_an_inverted_or_unlike_sound_has_no_result() {
        let (here, after) = ([1.0, 0.5, -1.0, 0.25], [0.5, 1.0, 0.25, 1.0]);
        let turned = here.map(|sample: f32| -sample);
        assert_eq!(nudge(&turned, &here, &after, 1.0), None);
        assert_eq!(nudge(&[0.0; 4], &here, &after, 1.0), None);
    }

    #[test]
    fn a_round_over_few_samples_counts_the_drift_by_their_place() {
        let (here, apart) = ([1.0_f32, -0.5, 2.0, 0.75, -1.0], 0.5);
        let slopes = [0.5_f32, 1.0, -1.5, 2.0, 0.25];
        let after: Vec<f32> = here.iter().zip(slopes).map(|(h, s)| h + s * apart as f32).collect();
        let received: Vec<f32> =
            (0..5).map(|n| 2.0 * (here[n] + slopes[n] * (0.25 + 0.125 * n as f32))).collect();
        let Nudge { further, faster } = nudge(&received, &here, &after, apart).unwrap();
        assert!(
            (further - 0.25).abs() < 1e-9 && (faster - 0.125).abs() < 1e-9,
            "{further} {faster}"
        );
    }

    #[test]
    fn round_estimates_phase_and_frequency_of_a_sine() {
        let sine = |index: f64| (index * 0.1).sin() as f32;
        let taken = |from: f64, step: f64| -> Vec<f32> {
            (0..1024).map(|index| sine(from + f64::from(index) * step)).collect()
        };
        let received = taken(5.1, 1.0001);
        let (here, after) = (taken(5.0, 1.0), taken(5.0 + 1.0 / 64.0, 1.0));
        let Nudge { further, faster } = nudge(&received, &here, &after, 1.0 / 64.0).unwrap();
        assert!((further - 0.1).abs() < 0.01 && (faster - 1e-4).abs() < 1e-5, "{further} {faster}");
        assert_eq!(nudge(&received, &[0.0; 1024], &[0.0; 1024], 1.0), None, "of silence");
    }
}
