//! Matches the rate of a program that writes to a pipe at its own pace, such as a web radio.

use tautline_dsp::resample::{Quality, Resampler, Step};
use tautline_proto::device::Settings;

/// Sound that the ring holds, in seconds.
const RING: f64 = 2.0;
/// Sound that waits in the ring, in seconds.
const TARGET: f64 = 1.0;
/// With more, the program waits for the card.
const FULL: f64 = 1.75;
/// Correction per second of deviation, and its limit: below a cent.
const PPM_PER_SECOND: f64 = 1000.0;
const MAX_PPM: f64 = 500.0;
/// Programs write in bursts: seconds over which the waiting sound is averaged.
const SMOOTHED: f64 = 5.0;
/// Frames that are resampled at once.
const BLOCK: usize = 64;

/// A program that waits for the card is copied, bit for bit.
pub(super) struct RateMatcher {
    resampler: Resampler,
    channels: usize,
    rate: f64,
    /// Averaged seconds in the ring, once it held the target.
    waiting: Option<f64>,
}

impl RateMatcher {
    pub(super) fn new(settings: &Settings) -> Self {
        let (channels, rate) = (settings.channels.count(), settings.rate.hertz().into());
        let resampler = Resampler::new(Quality::Best, channels, BLOCK);
        Self { resampler, channels, rate, waiting: None }
    }

    /// Appends `samples` to `out`, resampled if the program has its own pace. The ring holds
    /// `waiting` samples.
    pub(super) fn convert(&mut self, waiting: usize, samples: &[f32], out: &mut Vec<f32>) {
        let seconds = |samples: usize| (samples / self.channels) as f64 / self.rate;
        let (now, weight) = (seconds(waiting), (seconds(samples.len()) / SMOOTHED).min(1.0));
        self.waiting = match self.waiting {
            Some(before) => Some(before + (now - before) * weight),
            // A program that waits for the card fills the ring at once.
            None => (now >= TARGET).then_some(RING),
        };
        let step = self.waiting.map_or(Step::ONE, step);
        for block in samples.chunks(BLOCK * self.channels) {
            self.resampler.push(block);
            while self.resampler.wants(BLOCK, step) == 0 {
                let end = out.len();
                out.resize(end + BLOCK * self.channels, 0.0);
                self.resampler.pull(&mut out[end..], step);
            }
        }
    }

    /// Appends the rest.
    pub(super) fn finish(&mut self, out: &mut Vec<f32>) {
        let end = out.len();
        out.resize(end + self.resampler.ahead() * self.channels, 0.0);
        self.resampler.pull(&mut out[end..], Step::ONE);
    }
}

fn step(waiting: f64) -> Step {
    if waiting >= FULL {
        return Step::ONE;
    }
    Step::from_ppm(((waiting - TARGET) * PPM_PER_SECOND).clamp(-MAX_PPM, MAX_PPM))
}

#[cfg(test)]
mod tests {
    use tautline_proto::time::Frames;
    use tautline_proto::units::{Channels, Rate};

    use super::*;

    fn matcher(rate: u32) -> RateMatcher {
        RateMatcher::new(&Settings {
            rate: Rate::new(rate).unwrap(),
            channels: Channels::MONO,
            period: Frames::new(48),
            periods: 2,
        })
    }

    /// Seconds of sound in the ring, each second of two hours. The program writes bursts of half a
    /// second, with a clock `ppm` faster than the card's.
    fn waiting(ppm: f64) -> Vec<f64> {
        let (mut matcher, mut waiting, mut out) = (matcher(8000), 8000.0, Vec::new());
        let (burst, mut seconds) = (vec![0.25; 4000], Vec::new());
        for _ in 0..2 * 3600 {
            for _ in 0..2 {
                matcher.convert(waiting as usize, &burst, &mut out);
                waiting += out.len() as f64 - 4000.0 / (1.0 + ppm / 1e6);
                out.clear();
            }
            seconds.push(waiting / 8000.0);
        }
        seconds
    }

    #[test]
    fn program_with_its_own_clock_neither_starves_nor_fills_the_ring() {
        for ppm in [-200.0, 300.0] {
            let seconds = waiting(ppm);
            assert!(seconds.iter().all(|waiting| (0.4..1.7).contains(waiting)), "{ppm}");
            // Without a correction, the sound changes by 0.36 s per hour and 100 ppm.
            let (before, after) = (seconds[3600], seconds[seconds.len() - 1]);
            assert!((before - after).abs() < 0.05, "{ppm}: {before} {after}");
        }
    }

    #[test]
    fn program_that_waits_for_the_card_is_copied() {
        let (mut matcher, mut copied) = (matcher(48_000), Vec::new());
        let sound: Vec<f32> = (0..200_000).map(|frame| (frame % 977) as f32 / 977.0).collect();
        for block in sound.chunks(1000) {
            matcher.convert(copied.len().min(95_000), block, &mut copied);
        }
        matcher.finish(&mut copied);
        assert!(copied == sound);
    }

    #[test]
    fn matched_tone_stays_clean() {
        let (mut matcher, mut out) = (matcher(48_000), Vec::new());
        let at = |frame: usize| (frame as f64 * 0.1309).sin() as f32;
        let sound: Vec<f32> = (0..480_000).map(at).collect();
        for block in sound.chunks(1024) {
            matcher.convert(50_000, block, &mut out);
        }
        // A sine satisfies a recurrence: s[n + 1] + s[n - 1] = 2 cos(w) s[n].
        let twice = 2.0 * (0.1309_f32 * 1.000_042).cos();
        let steady = &out[1000..out.len() - 100];
        let errors = steady.windows(3).map(|it| (it[0] + it[2] - twice * it[1]).abs());
        assert!(errors.fold(0.0, f32::max) < 1e-4);
        assert!(out.len() < sound.len(), "it plays faster");
    }
}
