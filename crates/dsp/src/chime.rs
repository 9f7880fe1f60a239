//! Chimes before announcements.

use core::f64::consts::TAU;

crate::named_enum! {
    /// A chime, synthesised as struck bars.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Chime {
        /// One tone.
        OneTone = "one-tone",
        /// Two falling tones.
        TwoTone = "two-tone",
        /// Three rising tones.
        ThreeTone = "three-tone",
    }
    unknown: "invalid chime '{}': must be one-tone, two-tone or three-tone"
}

/// Seconds from one tone to the next.
const INTERVAL: f64 = 0.45;
/// Seconds of the last tone.
const LAST: f64 = 0.9;
/// Decay time of a tone, in seconds per 8.7 dB.
const DECAY: f64 = 0.22;
/// Rise and fall at the ends of a tone, in seconds: no click.
const EDGE: f64 = 0.004;
/// Partials of a tone: multiple of its frequency, share of its level.
const PARTIALS: [(f64, f64); 3] = [(1.0, 0.75), (2.0, 0.18), (3.0, 0.07)];
/// Peak of one tone, −12 dBFS. Overlapping tones stay below full scale.
const PEAK: f64 = 0.25;

impl Chime {
    /// Frequencies in hertz: notes of C major, equal temperament, A4 = 440 Hz.
    const fn tones(self) -> &'static [f64] {
        match self {
            Self::OneTone => &[659.26],
            Self::TwoTone => &[659.26, 523.25],
            Self::ThreeTone => &[523.25, 659.26, 783.99],
        }
    }

    /// Samples of one channel. `rate` is in hertz.
    pub fn samples(self, rate: u32) -> Vec<f32> {
        let rate = f64::from(rate);
        let tones = self.tones();
        let seconds = INTERVAL * (tones.len() - 1) as f64 + LAST;
        let at = |frame: usize| {
            let now = frame as f64 / rate;
            let tone = |(number, hertz): (usize, &f64)| {
                let since = now - INTERVAL * number as f64;
                let left = (seconds - now).min(since) / EDGE;
                let level = PEAK * (-since / DECAY).exp() * left.clamp(0.0, 1.0);
                PARTIALS
                    .map(|(multiple, share)| share * (TAU * hertz * multiple * since).sin())
                    .iter()
                    .sum::<f64>()
                    * if since < 0.0 { 0.0 } else { level }
            };
            tones.iter().enumerate().map(tone).sum::<f64>() as f32
        };
        (0..(seconds * rate) as usize).map(at).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Amplitude of `hertz` in `samples`.
    fn amplitude(samples: &[f32], hertz: f64) -> f64 {
        let part = |phase: f64| {
            let at = |(frame, sample): (usize, &f32)| {
                f64::from(*sample) * (TAU * hertz * frame as f64 / 48_000.0 + phase).cos()
            };
            samples.iter().enumerate().map(at).sum::<f64>() * 2.0 / samples.len() as f64
        };
        part(0.0).hypot(part(TAU / 4.0))
    }

    #[test]
    fn each_tone_begins_at_its_time() {
        for chime in Chime::ALL {
            let samples = chime.samples(48_000);
            let parts = samples.chunks(21_600).take(chime.tones().len());
            for (part, tone) in parts.zip(chime.tones()) {
                let others = [523.25, 659.26, 783.99].map(|hertz| amplitude(part, hertz));
                let own = amplitude(part, *tone);
                assert!(others.iter().all(|other| *other <= own), "{chime}: {tone} {others:?}");
            }
        }
    }

    #[test]
    fn chime_has_no_click_and_stays_below_full_scale() {
        for chime in Chime::ALL {
            let samples = chime.samples(44_100);
            let [first, .., last] = &samples[..] else { panic!("empty") };
            assert_eq!(*first, 0.0);
            assert!(last.abs() < 1e-3, "{last}");
            let peak = samples.iter().fold(0.0_f32, |peak, sample| peak.max(sample.abs()));
            assert!((0.15..0.5).contains(&peak), "{chime}: {peak}");
            // The third partial of 784 Hz at −12 dBFS changes by less than this.
            let step = samples.windows(2).map(|two| (two[1] - two[0]).abs()).fold(0.0, f32::max);
            assert!(step < 0.06, "{chime}: {step}");
        }
    }
}
