use rustfft::algorithm::Radix4;
use rustfft::num_complex::Complex;
use rustfft::{Fft, FftDirection};

/// Separate parts vectorise.
#[derive(Debug, Clone)]
pub(super) struct Bins {
    pub(super) re: Box<[f32]>,
    pub(super) im: Box<[f32]>,
}

impl Bins {
    pub(super) fn new(count: usize) -> Self {
        Self { re: vec![0.0; count].into(), im: vec![0.0; count].into() }
    }

    pub(super) fn clear(&mut self) {
        self.re.fill(0.0);
        self.im.fill(0.0);
    }

    pub(super) fn power(&self) -> impl Iterator<Item = f32> {
        self.re.iter().zip(&self.im).map(|(re, im)| re * re + im * im)
    }
}

/// Uses a complex transform of half the length.
pub(super) struct Transform {
    forward: Radix4<f32>,
    inverse: Radix4<f32>,
    turns: Box<[Complex<f32>]>,
    packed: Box<[Complex<f32>]>,
    scratch: Box<[Complex<f32>]>,
}

impl Transform {
    /// `half` is a power of two.
    pub(super) fn new(half: usize) -> Self {
        let forward = Radix4::new(half, FftDirection::Forward);
        let inverse = Radix4::new(half, FftDirection::Inverse);
        let scratch = forward.get_inplace_scratch_len().max(inverse.get_inplace_scratch_len());
        let turn = |k: usize| {
            let (sin, cos) = (-core::f64::consts::PI * k as f64 / half as f64).sin_cos();
            Complex::new(cos as f32, sin as f32)
        };
        let zero = Complex::default();
        Self {
            forward,
            inverse,
            turns: (0..half).map(turn).collect(),
            packed: vec![zero; half].into(),
            scratch: vec![zero; scratch].into(),
        }
    }

    pub(super) fn forward(&mut self, samples: &[f32], bins: &mut Bins) {
        let half = self.packed.len();
        for (packed, pair) in self.packed.iter_mut().zip(samples.chunks_exact(2)) {
            *packed = Complex::new(pair[0], pair[1]);
        }
        self.forward.process_with_scratch(&mut self.packed, &mut self.scratch);
        for (k, turn) in self.turns.iter().enumerate() {
            let (here, there) = (self.packed[k], self.packed[(half - k) % half].conj());
            let (even, odd) = ((here + there) * 0.5, (here - there) * 0.5);
            let odd = Complex::new(odd.im, -odd.re) * turn;
            bins.re[k] = even.re + odd.re;
            bins.im[k] = even.im + odd.im;
        }
        bins.re[half] = self.packed[0].re - self.packed[0].im;
        bins.im[half] = 0.0;
    }

    pub(super) fn inverse(&mut self, bins: &Bins, samples: &mut [f32]) {
        let half = self.packed.len();
        let scale = 0.5 / half as f32;
        for (k, turn) in self.turns.iter().enumerate() {
            let here = Complex::new(bins.re[k], bins.im[k]);
            let there = Complex::new(bins.re[half - k], -bins.im[half - k]);
            let (even, odd) = (here + there, (here - there) * turn.conj());
            self.packed[k] = Complex::new(even.re - odd.im, even.im + odd.re) * scale;
        }
        self.inverse.process_with_scratch(&mut self.packed, &mut self.scratch);
        for (pair, packed) in samples.chunks_exact_mut(2).zip(&self.packed) {
            pair.copy_from_slice(&[packed.re, packed.im]);
        }
    }
}

/// The last samples of `near` correspond to `out`.
#[inline(always)]
pub(super) fn convolve(near: &[f32], taps: &[f32], out: &mut [f32]) {
    let count = out.len();
    for (group, taps) in taps.chunks_exact(4).enumerate() {
        // Tap 0 applies to the newest sample.
        let start = near.len() - count - 4 * group;
        let (zero, one, two, three) = (
            &near[start..start + count],
            &near[start - 1..start - 1 + count],
            &near[start - 2..start - 2 + count],
            &near[start - 3..start - 3 + count],
        );
        for at in 0..count {
            out[at] +=
                taps[0] * zero[at] + taps[1] * one[at] + taps[2] * two[at] + taps[3] * three[at];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forward_is_the_defining_sum_and_inverse_undoes_it() {
        let mut random = fastrand::Rng::with_seed(3);
        let samples: Vec<f32> = (0..32).map(|_| random.f32() - 0.5).collect();
        let mut transform = Transform::new(16);
        let mut bins = Bins::new(17);
        transform.forward(&samples, &mut bins);
        for k in 0..17 {
            let terms = samples.iter().enumerate().map(|(at, sample)| {
                let turn = -core::f64::consts::TAU * (at * k) as f64 / 32.0;
                Complex::from_polar(f64::from(*sample), turn)
            });
            let sum: Complex<f64> = terms.sum();
            assert!((f64::from(bins.re[k]) - sum.re).abs() < 1e-5, "bin {k}");
            assert!((f64::from(bins.im[k]) - sum.im).abs() < 1e-5, "bin {k}");
        }
        let mut back = [0.0; 32];
        transform.inverse(&bins, &mut back);
        assert!(samples.iter().zip(&back).all(|(one, other)| (one - other).abs() < 1e-6));
    }
}
