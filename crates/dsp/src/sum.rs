//! Sums of several sources, protected from each other.

/// Maximum sample magnitude, 18 dB above full scale.
pub const LOUDEST: f32 = 8.0;

/// Limits samples of one source before mixing: NaN becomes silence, samples beyond [`LOUDEST`] are
/// clamped, others keep their bits. Infinity or 1e38 in a sum would erase the other sources. A
/// filter or codec outputs only NaN after one. Vectorised by compilers.
pub fn bound(samples: &mut [f32]) {
    for sample in samples {
        *sample = if sample.is_nan() { 0.0 } else { sample.clamp(-LOUDEST, LOUDEST) };
    }
}

/// Adds one block to another, up to the shorter length. Vectorised by compilers.
pub fn add(sum: &mut [f32], one: &[f32]) {
    sum.iter_mut().zip(one).for_each(|(sum, one)| *sum += one);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_sound_is_bounded_and_what_is_stays_as_it_is() {
        let mut samples = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e38, -8.1, 8.0];
        bound(&mut samples);
        assert_eq!(samples, [0.0, 0.0, LOUDEST, -LOUDEST, LOUDEST, -LOUDEST, LOUDEST]);
        let sound = [0.0, -0.0, 1.0, -1.0, 7.999, f32::MIN_POSITIVE, 1e-44, 1.0 / 3.0];
        let mut samples = sound;
        bound(&mut samples);
        assert_eq!(samples.map(f32::to_bits), sound.map(f32::to_bits));
    }
}
