//! Peak limiter that protects loudspeakers and ears.

use crate::gain::Gain;

/// Time constant of the release in seconds.
const RELEASE: f64 = 0.1;
/// Minimum reduction: −120 dB. A smaller reduction counts as 0.
const INAUDIBLE: f64 = 1e-6;

/// Protection limiter: no sample ever exceeds the ceiling, at the price of distortion above it. It
/// has no look-ahead and no delay. The attack is instant, the release exponential (100 ms). All
/// channels of a frame have one gain. Sound below the ceiling keeps every bit after the release.
#[derive(Debug, Clone, Copy)]
pub struct Limiter {
    /// 1 − gain.
    reduction: f64,
    /// Share of the reduction that is left after a frame.
    release: f64,
}

impl Limiter {
    /// `rate` is in hertz.
    pub fn new(rate: u32) -> Self {
        let release = (-1.0 / (RELEASE * f64::from(rate.max(1)))).exp();
        Self { reduction: 0.0, release }
    }

    /// Limits interleaved frames to `ceiling`, 0 dB being full scale. Without a ceiling the gain
    /// recovers. A new ceiling applies at once. NaN becomes silence.
    pub fn apply(&mut self, ceiling: Option<Gain>, channels: usize, samples: &mut [f32]) {
        let ceiling = ceiling.map_or(f32::INFINITY, Gain::factor);
        for frame in samples.chunks_mut(channels.max(1)) {
            let peak = frame.iter().fold(0.0_f32, |peak, sample| peak.max(sample.abs()));
            let needed =
                if peak > ceiling { 1.0 - f64::from(ceiling) / f64::from(peak) } else { 0.0 };
            let released = self.reduction * self.release;
            self.reduction = needed.max(if released < INAUDIBLE { 0.0 } else { released });
            let gain = (1.0 - self.reduction) as f32;
            for sample in frame {
                let limited = *sample * gain;
                *sample = if limited.is_nan() { 0.0 } else { limited.clamp(-ceiling, ceiling) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::signal::Sine;

    fn ceiling(db: f64) -> Option<Gain> {
        Gain::from_db(db)
    }

    fn sine(amplitude: f32) -> Vec<f32> {
        let mut samples = vec![0.0; 2 * 48_000];
        Sine::new("997".parse().unwrap(), 48_000).fill(2, &mut samples);
        let peak = samples.iter().fold(0.0_f32, |peak, sample| peak.max(sample.abs()));
        samples.iter().map(|sample| sample / peak * amplitude).collect()
    }

    #[test]
    fn sound_below_the_ceiling_keeps_every_bit() {
        let signal = sine(0.5);
        let mut samples = signal.clone();
        let mut limiter = Limiter::new(48_000);
        limiter.apply(ceiling(-6.0), 2, &mut samples);
        assert_eq!(samples, signal);
        limiter.apply(None, 2, &mut samples);
        assert_eq!(samples, signal);
    }

    #[test]
    fn both_channels_have_one_gain() {
        let mut samples = [2.0, 0.5, -0.25, 4.0];
        Limiter::new(48_000).apply(ceiling(0.0), 2, &mut samples);
        assert_eq!(samples, [1.0, 0.25, -0.0625, 1.0]);
    }

    #[test]
    fn gain_recovers_exponentially_in_100_ms_and_entirely() {
        let mut limiter = Limiter::new(48_000);
        limiter.apply(ceiling(0.0), 1, &mut [2.0]);
        let mut samples = vec![0.5; 96_000];
        limiter.apply(ceiling(0.0), 1, &mut samples);
        let reduction = |at: usize| f64::from(1.0 - samples[at - 1] / 0.5);
        let expected = |frames: f64| 0.5 * (-frames / 4_800.0).exp();
        for frames in [1, 480, 4_800, 9_600, 14_400] {
            let (reduction, expected) = (reduction(frames), expected(frames as f64));
            assert!((reduction - expected).abs() < 1e-3 * expected, "{frames}: {reduction}");
        }
        // ln(0.5 / 1e-6) = 13.1 time constants.
        assert_eq!(samples[63_500..], [0.5; 96_000 - 63_500]);
    }

    #[test]
    fn gain_recovers_without_a_ceiling_too() {
        let mut limiter = Limiter::new(48_000);
        limiter.apply(ceiling(-20.0), 1, &mut [1.0]);
        let mut samples = vec![1.0; 96_000];
        limiter.apply(None, 1, &mut samples);
        assert!(samples[0] < 0.11 && samples[95_999] == 1.0);
    }

    proptest! {
        #[test]
        fn no_sample_ever_exceeds_the_ceiling(
            bits in proptest::collection::vec(any::<u32>(), 0..400),
            near in proptest::collection::vec(-8.0_f32..8.0, 0..400),
            db in -60.0..12.0,
        ) {
            let ceiling = ceiling(db).unwrap();
            let mut limiter = Limiter::new(48_000);
            let mut samples: Vec<f32> = bits.into_iter().map(f32::from_bits).chain(near).collect();
            for block in samples.chunks_mut(96) {
                limiter.apply(Some(ceiling), 2, block);
            }
            let most = ceiling.factor();
            prop_assert!(samples.iter().all(|sample| (-most..=most).contains(sample)));
        }
    }
}
