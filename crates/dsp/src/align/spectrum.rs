//! Joint spectra of two runs of samples.

use rustfft::algorithm::Radix4;
use rustfft::num_complex::Complex;
use rustfft::{Fft, FftDirection};

/// Transforms two real runs together.
pub struct Transform {
    forward: Radix4<f64>,
    inverse: Radix4<f64>,
    both: Vec<Complex<f64>>,
    scratch: Vec<Complex<f64>>,
}

impl Transform {
    /// Handles up to `samples`, padded to a power of two.
    pub fn new(samples: usize) -> Self {
        let length = samples.next_power_of_two();
        let forward = Radix4::new(length, FftDirection::Forward);
        let inverse = Radix4::new(length, FftDirection::Inverse);
        let scratch = forward.get_inplace_scratch_len().max(inverse.get_inplace_scratch_len());
        let zero = Complex::default();
        Self { forward, inverse, both: vec![zero; length], scratch: vec![zero; scratch] }
    }

    /// Length in samples.
    pub fn length(&self) -> usize {
        self.both.len()
    }

    /// Passes bins from 0 to half the rate, with the values of both runs.
    pub fn spectra(
        &mut self,
        one: impl Iterator<Item = f64>,
        other: impl Iterator<Item = f64>,
        mut bin: impl FnMut(usize, Complex<f64>, Complex<f64>),
    ) {
        let length = self.both.len();
        self.both.fill(Complex::default());
        self.both.iter_mut().zip(one).for_each(|(both, one)| both.re = one);
        self.both.iter_mut().zip(other).for_each(|(both, other)| both.im = other);
        self.forward.process_with_scratch(&mut self.both, &mut self.scratch);
        for k in 0..=length / 2 {
            let (here, there) = (self.both[k], self.both[(length - k) % length].conj());
            let (sum, difference) = (here + there, here - there);
            bin(k, sum * 0.5, Complex::new(difference.im, -difference.re) * 0.5);
        }
    }

    /// Not scaled; the spectrum is from 0 to half the rate.
    pub fn samples(&mut self, spectrum: &[Complex<f64>]) -> impl Iterator<Item = f64> {
        let length = self.both.len();
        self.both.fill(Complex::default());
        for (k, value) in spectrum.iter().enumerate().take(length / 2 + 1) {
            self.both[k] = *value;
            self.both[(length - k) % length] = value.conj();
        }
        self.inverse.process_with_scratch(&mut self.both, &mut self.scratch);
        self.both.iter().map(|sample| sample.re)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transform_equals_its_definition() {
        let size = 16;
        let mut random = fastrand::Rng::with_seed(5);
        let [one, other]: [Vec<f64>; 2] = [0, 1].map(|_| (0..size).map(|_| random.f64()).collect());
        let sum = |values: &[f64], bin: usize| {
            let turn = |at: usize| -core::f64::consts::TAU * (at * bin) as f64 / size as f64;
            let terms = values.iter().enumerate();
            terms.map(|(at, value)| Complex::from_polar(*value, turn(at))).sum::<Complex<f64>>()
        };
        let mut bins = 0;
        let (one, other) = (&one, &other);
        Transform::new(size).spectra(one.iter().copied(), other.iter().copied(), |bin, a, b| {
            bins += 1;
            for (found, values) in [(a, one), (b, other)] {
                let rest = found - sum(values, bin);
                assert!(rest.re.abs() < 1e-12 && rest.im.abs() < 1e-12, "{bin}: {rest}");
            }
        });
        assert_eq!(bins, size / 2 + 1);
    }
}
