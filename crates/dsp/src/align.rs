//! Alignment of two sounds: shift and stretch.
//!
//! Coarse search: [`Landmarks`] for bit-exact sound, else the cross spectrum ([`spectrum`]). Near
//! an expected place: [`likeliest`] to a frame, [`LineFitter`] to a fraction. For periodic sound:
//! [`rivals`].

mod landmarks;
mod line;
mod near;
pub mod rivals;
pub mod spectrum;

pub use landmarks::Landmarks;
pub use line::{Along, Interpolator, LineFitter, padded};
pub use near::{AS_LIKELY, Backoff, NEAR, likeliest, outwards};

use crate::vector::widest;

/// Similarity of received sound to other sound.
#[derive(Debug, Clone, Copy, Default)]
pub struct Similarity {
    received: f64,
    other: f64,
    both: f64,
}

impl Similarity {
    /// Similarity of pairs of samples: received, other.
    #[inline(always)]
    pub fn of(samples: impl Iterator<Item = (f32, f32)>) -> Self {
        let mut sums = Self::default();
        for (received, other) in samples {
            let (received, other) = (f64::from(received), f64::from(other));
            sums.received += received * received;
            sums.other += other * other;
            sums.both += received * other;
        }
        sums
    }

    /// Similarity of two runs, up to the shorter length.
    pub fn between(received: &[f32], other: &[f32]) -> Self {
        widest(
            #[inline(always)]
            |_| Self::between_narrow(received, other),
        )
    }

    #[inline(always)]
    fn between_narrow(received: &[f32], other: &[f32]) -> Self {
        const LANES: usize = 8;
        let mut sums = [[0.0_f64; LANES]; 3];
        let count = received.len().min(other.len());
        let (received, other) =
            (received[..count].as_chunks::<LANES>(), other[..count].as_chunks::<LANES>());
        for (received, other) in received.0.iter().zip(other.0) {
            for lane in 0..LANES {
                let (received, other) = (f64::from(received[lane]), f64::from(other[lane]));
                sums[0][lane] += received * received;
                sums[1][lane] += other * other;
                sums[2][lane] += received * other;
            }
        }
        let [received_energy, other_energy, both] = sums.map(|lanes| lanes.iter().sum());
        let rest = Self::of(received.1.iter().copied().zip(other.1.iter().copied()));
        Self { received: received_energy, other: other_energy, both }.and(&rest)
    }

    /// Similarity of both runs together.
    #[must_use]
    pub fn and(self, more: &Self) -> Self {
        Self {
            received: self.received + more.received,
            other: self.other + more.other,
            both: self.both + more.both,
        }
    }

    /// Energy (sum of squares) of the received sound.
    pub fn energy(&self) -> f64 {
        self.received
    }

    /// Energy of the other sound.
    pub fn energy_of_other(&self) -> f64 {
        self.other
    }

    /// Gain of the other sound in the received sound; negative if inverted.
    pub fn gain(&self) -> f64 {
        self.both / self.other
    }

    /// Like `Self::gain`, but 0 for the opposite sign.
    pub fn gain_of_sign(&self, sign: f64) -> f64 {
        if self.other > 0.0 { sign * (sign * self.gain()).max(0.0) } else { 0.0 }
    }

    /// Similarity if the other sound were louder by this factor.
    #[must_use]
    pub fn louder(self, gain: f64) -> Self {
        Self { other: gain * gain * self.other, both: gain * self.both, ..self }
    }

    /// Similarity of received sound to silence.
    pub fn alone(received: f64) -> Self {
        Self { received, ..Self::default() }
    }

    /// Correlation from −1 to 1; NaN with holes.
    pub fn correlation(&self) -> f64 {
        self.both / (self.received * self.other).sqrt()
    }

    /// Share of energy left after subtracting the other sound at its best gain.
    pub fn left_over(&self) -> f64 {
        // Excludes NaN from holes and inverted sound.
        if self.other > 0.0 && self.both > 0.0 {
            1.0 - self.gain() * self.both / self.received
        } else {
            f64::INFINITY
        }
    }

    /// Energy left after subtracting the other sound at this gain.
    pub fn rest(&self, gain: f64) -> f64 {
        self.rest_rounded(gain).max(0.0)
    }

    /// Like `Self::rest`, but with rounding errors, possibly negative.
    pub fn rest_rounded(&self, gain: f64) -> f64 {
        self.received - 2.0 * gain * self.both + gain * gain * self.other
    }
}

/// Dot product of two runs of equal length, vectorised.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 16;
    let mut sums = [0.0_f32; LANES];
    let (a, b) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.0.iter().zip(b.0) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f32>() + a.1.iter().zip(b.1).map(|(a, b)| a * b).sum::<f32>()
}

/// Sum of the squares of a run.
pub fn energy(samples: &[f32]) -> f64 {
    f64::from(dot(samples, samples))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(samples: usize) -> Vec<f32> {
        let mut state = 7_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((state >> 8) as f32 - 8_388_608.0) / 16_777_216.0
        };
        (0..samples).map(|_| next()).collect()
    }

    #[test]
    fn residue_of_a_louder_copy_is_the_added_sound() {
        let other = noise(1001);
        let received: Vec<f32> = other.iter().map(|sample| sample * -0.5).collect();
        let alike = Similarity::between(&received, &other);
        assert!((alike.gain() + 0.5).abs() < 1e-9, "{alike:?}");
        assert!((alike.correlation() + 1.0).abs() < 1e-9, "{alike:?}");
        assert!(alike.rest(-0.5) < 1e-9 * alike.energy(), "{alike:?}");
        assert_eq!(alike.left_over(), f64::INFINITY, "upside down");
        let again = Similarity::of(received.iter().copied().zip(other.iter().copied()));
        assert!((again.gain() - alike.gain()).abs() < 1e-9, "{again:?}");
    }

    const HEARD: [f32; 2] = [3.0, 4.0];
    const OTHER: [f32; 2] = [1.0, 2.0];

    #[test]
    fn energies_are_the_sums_of_squares() {
        let alike = Similarity::between(&HEARD, &OTHER);
        assert_eq!((alike.energy(), alike.energy_of_other(), alike.gain()), (25.0, 5.0, 2.2));
        assert!((alike.correlation() - 11.0 / 125.0_f64.sqrt()).abs() < 1e-12, "{alike:?}");
        let both = alike.and(&Similarity::between(&[2.0], &[-3.0]));
        assert_eq!((both.energy(), both.energy_of_other(), both.gain()), (29.0, 14.0, 5.0 / 14.0));
    }

    #[test]
    fn residue_equals_the_subtraction() {
        let alike = Similarity::between(&HEARD, &OTHER);
        for gain in [-1.5, 0.0, 0.5, 2.2, 3.0] {
            let taken = HEARD.iter().zip(OTHER).map(|(received, other)| {
                let left = f64::from(*received) - gain * f64::from(other);
                left * left
            });
            let left: f64 = taken.sum();
            assert!((alike.rest(gain) - left).abs() < 1e-12, "{gain}: {left} {alike:?}");
        }
        assert!((alike.left_over() - alike.rest(2.2) / 25.0).abs() < 1e-12, "{alike:?}");
        let exactly = Similarity::between(&OTHER, &OTHER);
        assert_eq!((exactly.rest(1.0), exactly.left_over()), (0.0, 0.0));
    }

    #[test]
    fn unmatched_sound_leaves_an_infinite_residue() {
        let endless = |received: &[f32], other: &[f32]| {
            assert_eq!(
                Similarity::between(received, other).left_over(),
                f64::INFINITY,
                "{received:?}"
            );
        };
        endless(&HEARD, &[0.0, 0.0]);
        endless(&HEARD, &[-1.0, -2.0]);
        endless(&HEARD, &[4.0, -3.0]);
        endless(&[f32::NAN, 4.0], &OTHER);
    }
}
