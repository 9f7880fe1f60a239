use core::fmt;

/// Input frames per output frame, in 2^-32 frames. Larger steps play faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Step(u64);

impl Step {
    /// One input frame per output frame.
    pub const ONE: Self = Self(1 << 32);
    /// Half an input frame per output frame.
    pub const MIN: Self = Self(1 << 31);
    /// Two input frames per output frame.
    pub const MAX: Self = Self(1 << 33);

    /// A step in 2^-32 frames, clamped to [`Step::MIN`] and [`Step::MAX`].
    pub const fn from_bits(bits: u64) -> Self {
        if bits < Self::MIN.0 {
            Self::MIN
        } else if bits > Self::MAX.0 {
            Self::MAX
        } else {
            Self(bits)
        }
    }

    /// Value in 2^-32 frames.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Rounded and clamped. 0 and NaN give [`Step::ONE`].
    pub fn from_ppm(ppm: f64) -> Self {
        let more = (ppm * (Self::ONE.0 as f64 / 1e6)).round() as i64;
        Self::from_bits(Self::ONE.0.saturating_add_signed(more))
    }

    /// Difference from one in ppm.
    pub fn as_ppm(self) -> f64 {
        (self.0 as i64 - Self::ONE.0 as i64) as f64 * (1e6 / Self::ONE.0 as f64)
    }
}

impl Default for Step {
    fn default() -> Self {
        Self::ONE
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:+.3} ppm", self.as_ppm())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_parts_per_million_are_exactly_one() {
        assert_eq!(Step::from_ppm(0.0), Step::ONE);
        assert_eq!(Step::from_ppm(-0.0), Step::ONE);
        assert_eq!(Step::from_ppm(f64::NAN), Step::ONE);
        assert_eq!(Step::ONE.as_ppm(), 0.0);
        assert_eq!(Step::default(), Step::ONE);
    }

    #[test]
    fn parts_per_million_come_back_to_the_resolution() {
        for ppm in [-1000.0, -500.0, -0.01, 0.001, 100.0, 1000.0] {
            assert!((Step::from_ppm(ppm).as_ppm() - ppm).abs() < 0.000_12, "{ppm}");
        }
        assert_eq!(Step::from_ppm(100.0).bits(), (1 << 32) + 429_497);
        assert_eq!(Step::from_ppm(-100.0).to_string(), "-100.000 ppm");
    }

    #[test]
    fn a_step_stays_between_half_and_two() {
        for (ppm, bits) in [(-1e9, 1 << 31), (1e9, 1 << 33), (f64::INFINITY, 1 << 33)] {
            assert_eq!(Step::from_ppm(ppm).bits(), bits);
        }
        assert_eq!(Step::from_bits(0), Step::MIN);
        assert_eq!(Step::from_bits(u64::MAX), Step::MAX);
        assert_eq!(Step::from_bits(5_000_000_000).bits(), 5_000_000_000);
    }
}
