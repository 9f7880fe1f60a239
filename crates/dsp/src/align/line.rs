//! Sound between its frames, along a straight line, and the line along which it leaves the least of what was heard.

use super::{Nudge, nudge};
use crate::resample::{Quality, Resampler, Step};

/// Distance over which the slope of the sound is taken, in frames.
pub const APART: f64 = 1.0 / 64.0;
/// Two cards run no further apart than this.
pub const MAX_DRIFT: f64 = 1e-3;

/// Where frames that were heard lie in a sound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Along {
    /// The place of the first, in frames.
    pub place: f64,
    /// How much more than one frame further each next lies.
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
    /// For so many frames at once: of more, each part begins at its place on the line, to the float.
    pub fn new(quality: Quality, longest: usize) -> Self {
        let resampler = Resampler::new(quality, 1, longest);
        let input = Vec::with_capacity(longest + longest / 128 + 4 * resampler.half());
        Self { resampler, longest, input }
    }

    /// Fills `out`. `sound` writes the frames of the sound from a number on.
    pub fn read(&mut self, along: Along, out: &mut [f32], sound: impl Fn(i64, &mut [f32])) {
        let half = self.resampler.half();
        for (part, out) in out.chunks_mut(self.longest).enumerate() {
            let place = along.place + (part * self.longest) as f64 * (1.0 + along.drift);
            let whole = place.floor();
            // The drift is less than a frame in a hundred.
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

/// Writes the samples from a frame on, and silence beyond their ends.
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

/// Rounds of Gauss and Newton from a line near by, as many at most, or until one moves no frame by more than
/// `still`. `read` reads the sound along a line, `room` is for as many frames as were heard, twice. `None` where a
/// round says nothing.
pub fn refine(
    heard: &[f32],
    mut along: Along,
    [here, after]: [&mut [f32]; 2],
    (rounds, still): (usize, f64),
    mut read: impl FnMut(Along, &mut [f32]),
) -> Option<Along> {
    for _ in 0..rounds {
        read(along, here);
        read(Along { place: along.place + APART, ..along }, after);
        let Nudge { further, faster } = nudge(heard, here, after, APART)?;
        along.place += further.clamp(-1.0, 1.0);
        along.drift = (along.drift + faster).clamp(-MAX_DRIFT, MAX_DRIFT);
        if further.abs() < still && faster.abs() * (heard.len() as f64) < still {
            break;
        }
    }
    Some(along)
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
    fn a_line_near_by_is_refined_to_the_line_along_which_the_sound_was_heard() {
        let sound: Vec<f32> = (0..3000).map(|at| (f64::from(at) * 0.1).sin() as f32).collect();
        let mut reader = Interpolator::new(Quality::Best, 500);
        let along = Along { place: 700.3, drift: 1e-4 };
        // More than at once.
        let mut heard = [0.0; 1024];
        reader.read(along, &mut heard, padded(&sound));
        let (mut here, mut after) = ([0.0; 1024], [0.0; 1024]);
        let near = Along { place: 700.0, drift: 0.0 };
        let found = refine(&heard, near, [&mut here, &mut after], (6, 1e-6), |along, out| {
            reader.read(along, out, padded(&sound));
        });
        let found = found.unwrap();
        assert!((found.place - along.place).abs() < 1e-3, "{found:?}");
        assert!((found.drift - along.drift).abs() < 1e-6, "{found:?}");
    }
}
