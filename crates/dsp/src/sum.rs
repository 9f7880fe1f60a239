//! Sums of several sources.

/// Maximum sample magnitude, 18 dB above full scale.
pub const LOUDEST: f32 = 8.0;

/// NaN becomes silence, samples beyond [`LOUDEST`] are clamped. Infinity would erase the other
/// sources.
pub fn bound(samples: &mut [f32]) {
    for sample in samples {
        *sample = if sample.is_nan() { 0.0 } else { sample.clamp(-LOUDEST, LOUDEST) };
    }
}

/// Adds up to the shorter length.
pub fn add(sum: &mut [f32], one: &[f32]) {
    sum.iter_mut().zip(one).for_each(|(sum, one)| *sum += one);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_finite_sums_are_bounded_and_others_kept() {
        let mut samples = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e38, -8.1, 8.0];
        bound(&mut samples);
        assert_eq!(samples, [0.0, 0.0, LOUDEST, -LOUDEST, LOUDEST, -LOUDEST, LOUDEST]);
        let sound = [0.0, -0.0, 1.0, -1.0, 7.999, f32::MIN_POSITIVE, 1e-44, 1.0 / 3.0];
        let mut samples = sound;
        bound(&mut samples);
        assert_eq!(samples.map(f32::to_bits), sound.map(f32::to_bits));
    }
}
