//! Refines a delay to a fraction of a frame, with the phase slope of the cross spectrum.
//!
//! The second run is resampled along a line of delay and drift. The residual turns each bin's phase
//! in proportion to frequency, which corrects the line. Scatter across blocks gives the
//! uncertainty.

use rustfft::num_complex::Complex;
use tautline_dsp::align::spectrum::Transform;
use tautline_dsp::align::{Along, Interpolator, padded};
use tautline_dsp::resample::Quality;

const BLOCKS: usize = 11;
/// Highest frequency per round, in radians per frame. An error of one frame must stay below half a
/// cycle.
const ROUNDS: [f64; 7] = [0.4, 0.9, 2.0, HIGHEST, HIGHEST, HIGHEST, HIGHEST];
/// Highest frequency: 0.9 of half the rate, the resampler's flat passband.
const HIGHEST: f64 = 0.9 * core::f64::consts::PI;
const STILL: f64 = 1e-6;
/// Bins on each side for averaging noise and coherence.
const AROUND: usize = 4;
/// Minimum coherence, above chance for this number of blocks and bins.
const COHERENT: f64 = 0.05;
/// Blocks consumed by a bin's fit. With half overlap, eleven blocks count like nine.
const SHARED: f64 = 1.2;
/// Maximum distance from the correlation's delay, in frames. Beyond it lies another line.
const FURTHEST: f64 = 4.0;
const MAX_DRIFT: f64 = 2e-3;
/// Error of float resampling in frames, at 95 %.
const FLOOR: f64 = 5e-5;
const WITHIN: f64 = 1.96;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PhaseLine {
    pub(super) delay: f64,
    pub(super) drift: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fit {
    pub(super) line: PhaseLine,
    /// 95 % bounds.
    pub(super) uncertainty: PhaseLine,
    /// Gain of the second run; negative if its polarity is inverted.
    pub(super) gain: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct FittingBin {
    first: f64,
    second: f64,
    both: Complex<f64>,
}

pub(super) struct DelayFitter {
    frames: usize,
    block: usize,
    transform: Transform,
    window: Vec<f64>,
    interpolator: Interpolator,
    along: Vec<f32>,
    /// Per block and bin: energy of the first run, cross spectrum.
    blocks: Vec<(f64, Complex<f64>)>,
    bins: Vec<FittingBin>,
    /// Per bin: noise of the second run, phase weight.
    noise: Vec<f64>,
    weights: Vec<f64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    delay: f64,
    drift: f64,
    known: [f64; 3],
    noise: [f64; 3],
}

impl DelayFitter {
    pub(super) fn new(frames: usize) -> Self {
        let block = (frames / BLOCKS).next_power_of_two().max(64).min(frames);
        let transform = Transform::new(block);
        let turn = core::f64::consts::PI / block as f64;
        let window = (0..block).map(|at| (turn * (at as f64 + 0.5)).sin()).collect();
        let (interpolator, along) = (Interpolator::new(Quality::Best, frames), vec![0.0; frames]);
        let bins = vec![FittingBin::default(); transform.length() / 2 + 1];
        let (noise, weights) = (vec![0.0; bins.len()], vec![0.0; bins.len()]);
        Self {
            frames,
            block,
            transform,
            window,
            interpolator,
            along,
            blocks: Vec::new(),
            bins,
            noise,
            weights,
        }
    }

    /// Frames that may be missing at an end: −50 dB of the window's energy.
    pub(super) fn spare(&self) -> usize {
        self.block / 32
    }

    /// Fits `first` from `at` on to `second`; `None` without convergence.
    pub(super) fn fit(
        &mut self,
        first: &[f32],
        second: &[f32],
        at: usize,
        near: PhaseLine,
    ) -> Option<Fit> {
        let first = first.get(at..at + self.frames)?;
        let mut line = near;
        for highest in ROUNDS {
            let place = self.begins(at, line);
            let (along, drift) = (&mut self.along, line.drift);
            self.interpolator.read(Along { place, drift }, along, padded(second));
            self.measure(first);
            let sums = self.sums(highest);
            let Some((delay, drift)) = sums.moves() else { continue };
            let moved = PhaseLine { delay: line.delay + delay, drift: line.drift + drift };
            if (moved.delay - near.delay).abs() > FURTHEST || moved.drift.abs() > MAX_DRIFT {
                return None;
            }
            line = moved;
            if highest == HIGHEST && delay.abs() < STILL {
                break;
            }
        }
        let uncertainty = self.sums(HIGHEST).uncertainty()?;
        let (both, energy) = self
            .bins
            .iter()
            .zip(&self.weights)
            .filter(|(_, weight)| **weight != 0.0)
            .fold((0.0, 0.0), |(both, energy), (bin, _)| (both + bin.both.re, energy + bin.first));
        Some(Fit { line, uncertainty, gain: both / energy })
    }

    pub(super) fn take(&mut self, sound: &[f32], place: f64, drift: f64, out: &mut [f32]) {
        self.interpolator.read(Along { place, drift }, out, padded(sound));
    }

    pub(super) fn begins(&self, at: usize, line: PhaseLine) -> f64 {
        at as f64 + line.delay - line.drift * self.frames as f64 / 2.0
    }

    fn measure(&mut self, first: &[f32]) {
        self.bins.fill(FittingBin::default());
        self.blocks.clear();
        let hop = self.block / 2;
        for from in (0..=self.frames - self.block).step_by(hop) {
            let windowed = |samples: &[f32]| {
                let samples: Vec<_> = samples[from..from + self.block].to_vec();
                samples
                    .into_iter()
                    .zip(&self.window)
                    .map(|(sample, window)| f64::from(sample) * window)
            };
            let (one, other) = (windowed(first), windowed(&self.along));
            let (bins, blocks) = (&mut self.bins, &mut self.blocks);
            self.transform.spectra(one, other, |k, one, other| {
                let both = one.conj() * other;
                let bin = &mut bins[k];
                bin.first += one.norm_sqr();
                bin.second += other.norm_sqr();
                bin.both += both;
                blocks.push((one.norm_sqr(), both));
            });
        }
        let blocks = self.blocks.len() as f64 / self.bins.len() as f64;
        // The fitted gain takes its share of the residual.
        let spare = 1.0 / (blocks - SHARED).max(0.5);
        let last = self.bins.len();
        for k in 0..last {
            let around = &self.bins[k.saturating_sub(AROUND)..(k + AROUND + 1).min(last)];
            let left = |bin: &FittingBin| match bin.first > 0.0 {
                true => (bin.second - bin.both.norm_sqr() / bin.first).max(0.0),
                false => 0.0,
            };
            let noise = around.iter().map(left).sum::<f64>() * spare / around.len() as f64;
            let all = around.iter().fold(FittingBin::default(), |all, bin| FittingBin {
                first: all.first + bin.first,
                second: all.second + bin.second,
                both: all.both + bin.both,
            });
            let energies = all.first * all.second;
            let coherent = energies > 0.0 && all.both.norm_sqr() > COHERENT * energies;
            self.noise[k] = noise;
            // Float rounding leaves noise even in exact copies.
            let minimum = 1e-14 * all.second / around.len() as f64;
            let gain = all.both.re / all.first;
            self.weights[k] = if coherent && k > 0 { gain / (noise + minimum) } else { 0.0 };
        }
    }

    fn sums(&self, highest: f64) -> Sums {
        let mut sums = Sums::default();
        let to_a_bin = core::f64::consts::TAU / self.transform.length() as f64;
        let last = self.bins.len().min((highest / to_a_bin) as usize + 1);
        for (index, block) in self.blocks.chunks_exact(self.bins.len()).enumerate() {
            let middle = (index * self.block / 2 + self.block / 2) as f64;
            let off = middle - self.frames as f64 / 2.0;
            let (mut moves, mut known, mut noise) = (0.0, 0.0, 0.0);
            for (k, (energy, both)) in block[..last].iter().enumerate() {
                let turn = to_a_bin * k as f64;
                let weight = self.weights[k] * turn;
                moves -= weight * both.im;
                known += weight * turn * both.re;
                noise += weight * weight * energy * self.noise[k];
            }
            sums.delay += moves;
            sums.drift += moves * off;
            for (power, place) in [1.0, off, off * off].into_iter().enumerate() {
                sums.known[power] += known * place;
                sums.noise[power] += noise * place;
            }
        }
        sums
    }
}

impl Sums {
    fn moves(&self) -> Option<(f64, f64)> {
        let [[a, b], [_, d]] = self.inverse()?;
        Some((a * self.delay + b * self.drift, b * self.delay + d * self.drift))
    }

    fn inverse(&self) -> Option<[[f64; 2]; 2]> {
        let [all, mean, squares] = self.known;
        let determinant = all * squares - mean * mean;
        let sound = all > 0.0 && squares > 0.0 && determinant > 1e-6 * all * squares;
        sound.then(|| [[squares, -mean], [-mean, all]].map(|row| row.map(|x| x / determinant)))
    }

    fn uncertainty(&self) -> Option<PhaseLine> {
        let inverse = self.inverse()?;
        let [one, mean, squares] = self.noise;
        let of =
            |[a, b]: [f64; 2]| (a * a * one + 2.0 * a * b * mean + b * b * squares).max(0.0).sqrt();
        let [delay, drift] = inverse.map(of).map(|deviation| WITHIN * deviation);
        Some(PhaseLine { delay: delay.hypot(FLOOR), drift })
    }
}
