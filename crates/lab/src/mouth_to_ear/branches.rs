//! Aligns the direct and travelled branch of a sound and measures their delay.

use std::path::Path;

use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Rate;

use crate::align::{AlignOptions, TapDelays, between};
use crate::statistics::Series;

#[derive(Debug, Clone)]
pub(super) struct Branch {
    pub(super) samples: Vec<f32>,
    pub(super) begins: LocalTime,
}

#[derive(Debug, Clone)]
pub(super) struct BranchRecording {
    rate: Rate,
    direct: Vec<f32>,
    travelled: Vec<f32>,
    before: usize,
    /// Alignment error: less than half a frame; zero between cards of one host.
    rest: Span,
}

#[derive(Debug, Clone)]
pub(super) struct BranchDelays {
    pub(super) series: Series,
    /// ± bound of the median, from the sound alone.
    pub(super) uncertainty: Span,
    pub(super) without: u64,
}

/// Minimum window of the first search. Long windows identify one delay, but too long windows dilute
/// it.
const COARSE: Span = Span::from_millis(500);
/// Window of the second search. It is short, so that a few seconds give enough values for a p99.
const FINE: Span = Span::from_millis(4);
/// Minimum window of the second search. With fewer frames, a phase fit does not converge.
const FEWEST: Frames = Frames::new(128);
const NEAR: Span = Span::from_millis(20);

impl BranchRecording {
    pub(super) fn of(direct: Branch, travelled: Branch, rate: Rate) -> Self {
        let later = travelled.begins - direct.begins;
        let half = rate.span_of(Frames::new(1)).divided(2);
        let frames = rate.frames_within(later + half).count();
        let rest = later - rate.span_of(Frames::new(frames));
        let shift = usize::try_from(frames.unsigned_abs()).unwrap_or(usize::MAX);
        let before = if frames > 0 { shift.min(direct.samples.len()) } else { 0 };
        let travelled = match frames {
            0.. => {
                let silence = vec![0.0; before];
                silence.into_iter().chain(travelled.samples).collect()
            }
            _ => travelled.samples.into_iter().skip(shift).collect(),
        };
        Self { rate, direct: direct.samples, travelled, before, rest }
    }

    /// 16-bit, for `taut lab align` and listening.
    pub(super) fn write(&self, path: &Path) -> Result<(), hound::Error> {
        let spec = hound::WavSpec {
            channels: 2,
            sample_rate: self.rate.hertz(),
            bits_per_sample: 16,
            sample_format: hound::SampleFormat::Int,
        };
        let mut file = hound::WavWriter::create(path, spec)?;
        let frames = self.direct.len().max(self.travelled.len());
        for frame in 0..frames {
            for branch in [&self.direct, &self.travelled] {
                let sample = branch.get(frame).copied().unwrap_or(0.0);
                file.write_sample((sample * 32_768.0).round() as i16)?;
            }
        }
        file.finalize()
    }

    pub(super) fn delays(&self, maximum: Span) -> Result<BranchDelays, String> {
        let rate = self.rate;
        let [window, range] =
            [COARSE.max(maximum.divided(2)), maximum].map(|span| rate.frames_within(span));
        let options = AlignOptions { rate, window, max_delay: range };
        let first = between(&self.direct, &self.travelled, &options);
        let about = middle(&first).ok_or_else(|| nothing(&first, maximum))?;
        let lead = (about.round() as i64).max(0);
        let near = self.travelled.get(lead as usize..).unwrap_or_default();
        let [window, range] = [FINE, NEAR].map(|span| rate.frames_within(span));
        let window = window.max(FEWEST);
        let found = between(&self.direct, near, &AlignOptions { rate, window, max_delay: range });
        // Windows whose counterparts lie beyond the end.
        let shorter = self.direct.len().min(near.len());
        let from = match self.before.saturating_sub(lead as usize) {
            0 => 0,
            before => before + range.as_len() + window.as_len(),
        };
        let judged = from..shorter.saturating_sub(range.as_len() + 2 * window.as_len());
        let lead = rate.span_of(Frames::new(lead)) + self.rest;
        let mut series = Series::with_room(found.windows.len());
        let mut errors = Vec::with_capacity(found.windows.len());
        let mut without = 0;
        for one in found.windows.iter().filter(|one| judged.contains(&one.at.as_len())) {
            match &one.delay {
                Ok(delay) => {
                    let at = LocalTime::ZERO + rate.span_of(one.at);
                    series.push(at, lead + rate.span_of_fine(delay.delay));
                    errors.push(delay.uncertainty);
                }
                Err(_) => without += 1,
            }
        }
        errors.sort_unstable();
        let error = errors.get(errors.len() / 2).ok_or_else(|| nothing(&found, NEAR))?;
        let uncertainty = rate.span_of_fine(*error).max(Span::from_nanos(1));
        Ok(BranchDelays { series, uncertainty, without })
    }
}

fn middle(found: &TapDelays) -> Option<f64> {
    let mut all: Vec<_> = found.found().map(|(_, delay)| delay.delay.as_f64()).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}

fn nothing(found: &TapDelays, maximum: Span) -> String {
    let why = found.cause().map_or("the recording is too short", |why| why.name());
    format!(
        "no delay up to {maximum} found between the branches ({why})\nhint: use a longer --duration, or \
         run fewer programs"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate::HZ_48000;

    fn noise(frames: usize) -> Vec<f32> {
        let mut random = fastrand::Rng::with_seed(5);
        core::iter::repeat_with(|| random.f32() - 0.5).take(frames).collect()
    }

    fn recorded(rate: Rate, frames: usize, begins: [Span; 2], delay: Frames) -> BranchRecording {
        let sound = noise(400_000);
        let at = |begins: Span, back: i64| {
            let from = usize::try_from(96_000 + rate.frames_within(begins).count() - back);
            let from = from.unwrap_or_default();
            sound[from..from + frames].to_vec()
        };
        let branch = |begins: Span, back| Branch {
            samples: at(begins, back),
            begins: LocalTime::ZERO + Span::from_secs(9) + begins,
        };
        BranchRecording::of(branch(begins[0], 0), branch(begins[1], delay.count()), rate)
    }

    #[test]
    fn branch_delay_is_found_whichever_tap_began_first() {
        let ms = Span::from_millis;
        for begins in [[ms(0), ms(0)], [ms(30), ms(0)], [ms(0), ms(250)], [ms(400), ms(0)]] {
            for (rate, delay) in [1, 720, 14_016]
                .into_iter()
                .flat_map(|delay| [(RATE, delay), (Rate::HZ_16000, delay)])
            {
                let delay = Frames::new(delay);
                let found =
                    recorded(rate, 96_000, begins, delay).delays(Span::from_secs(1)).unwrap();
                let summary = found.series.summary();
                let off = summary.p50_ns.unwrap() - rate.span_of(delay).as_nanos();
                let error = found.uncertainty.as_nanos();
                assert!(off.abs() <= error.max(1), "{begins:?} {delay}: {off} ± {error}");
                assert!(error < 100, "{error}");
                assert_eq!(found.without, 0, "{rate} {begins:?} {delay}");
            }
        }
    }

    #[test]
    fn a_delay_of_seconds_is_found_among_all_that_are_shorter() {
        let delay = Frames::new(4_096 * 16);
        let recorded = recorded(Rate::HZ_16000, 145_000, [Span::ZERO; 2], delay);
        let found = recorded.delays(Span::from_millis(4_296)).unwrap();
        let off = found.series.summary().p50_ns.unwrap() - 4_096_000_000;
        assert!(off.abs() <= found.uncertainty.as_nanos().max(1), "{off}");
    }

    #[test]
    fn fractional_frame_start_offset_is_included_in_the_delay() {
        let part = Span::from_nanos(7_000);
        let mut recorded = recorded(RATE, 96_000, [Span::ZERO; 2], Frames::new(480));
        let laid = |begins: Span, samples: &Vec<f32>| Branch {
            samples: samples.clone(),
            begins: LocalTime::ZERO + begins,
        };
        let direct = laid(Span::ZERO, &recorded.direct);
        recorded = BranchRecording::of(direct, laid(part, &recorded.travelled), RATE);
        let found = recorded.delays(Span::from_millis(100)).unwrap();
        let off = found.series.summary().p50_ns.unwrap() - 10_007_000;
        assert!(off.abs() <= found.uncertainty.as_nanos(), "{off}");
    }

    #[test]
    fn silent_windows_are_counted_and_silence_alone_is_rejected() {
        let mut gone = recorded(RATE, 96_000, [Span::ZERO; 2], Frames::new(480));
        gone.travelled[20_000..24_800].fill(0.0);
        let found = gone.delays(Span::from_millis(100)).unwrap();
        assert!((24..=28).contains(&found.without), "{}", found.without);
        gone.travelled.fill(0.0);
        let refused = gone.delays(Span::from_millis(100)).unwrap_err();
        assert!(refused.contains("second silent"), "{refused}");
    }
}
