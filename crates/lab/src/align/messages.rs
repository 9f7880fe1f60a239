//! Report rows: the delays, each step, each reason without a delay.

use std::borrow::Cow;

use tautline_proto::time::{FineFrames, Frames, LocalTime, Span};
use tautline_proto::units::Rate;

use super::{DelayStep, InvalidWindow, Tap, TapDelay, TapDelays, fine};
use crate::report::{HostDescription, LabReport, Meanwhile, Points, ReportRow};
use crate::statistics::Series;
use tautline_report::distribution::Summary;

/// Part of the windows whose delay lies within the uncertainty of the median.
const WITHIN: f64 = 0.95;

pub const QUESTION: &str = "how far apart are two taps of one sound?";

impl InvalidWindow {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Silent(Tap::First) => "first silent",
            Self::Silent(Tap::Second) => "second silent",
            Self::Unlike => "unlike",
            Self::Ambiguous { .. } => "ambiguous",
            Self::EndOfRange => "end of range",
            Self::PastEnd => "recording too short",
            Self::Stepped => "stepped",
            Self::Unsettled => "unsettled",
        }
    }

    fn says(&self, rate: Rate) -> Cow<'static, str> {
        let says = match self {
            Self::Silent(Tap::First) => "the first tap is silent",
            Self::Silent(Tap::Second) => "the second tap is silent",
            Self::Unlike => {
                "no common sound in the searched range\nhint: try a greater --max-delay"
            }
            Self::Ambiguous { delays, period: Some(period) } => {
                let millis = |frames: FineFrames| frames.as_f64() * 1e3 / f64::from(rate.hertz());
                let nearest = delays.first().copied().map_or(0.0, millis);
                // The text of a value, without the sign of a rounded zero.
                let nearest = (nearest * 100.0).round() / 100.0 + 0.0;
                return format!(
                    "periodic sound: delay ambiguous modulo {:.2} ms; nearest to 0: {nearest:.2} ms",
                    millis(*period)
                )
                .into();
            }
            Self::Ambiguous { period: None, .. } => {
                "several delays match equally well\nhint: use a sound without echoes, or a smaller --max-delay"
            }
            Self::EndOfRange => {
                "the best delay is at the end of the range\nhint: try a greater --max-delay"
            }
            Self::PastEnd => "the matching sound lies beyond the recording",
            Self::Stepped => "the delay changes within it",
            Self::Unsettled => "no delay and drift fits",
        };
        says.into()
    }

    /// How well a reason explains a recording without delays.
    fn weight(&self) -> u8 {
        match self {
            Self::Ambiguous { period: Some(_), .. } => 2,
            Self::Silent(_) => 0,
            _ => 1,
        }
    }
}

impl TapDelays {
    pub fn report(&self, taps: &str) -> LabReport {
        let mut report = LabReport::of("align", QUESTION);
        report.hosts.push(HostDescription::here("here"));
        report.rows.push(self.row(taps));
        report
            .rows
            .extend(self.steps.iter().zip(1..).map(|(step, number)| self.step(step, number)));
        report.rows.extend(self.invalid_rows());
        report
    }

    fn span(&self, frames: f64) -> Span {
        self.rate.span_of_fine(fine(frames))
    }

    fn at(&self, frames: Frames) -> Span {
        self.rate.span_of(frames)
    }

    fn sorted(&self, quantity: impl Fn(&TapDelay) -> f64) -> Vec<f64> {
        let mut all: Vec<_> = self.found().map(|(_, delay)| quantity(delay)).collect();
        all.sort_by(f64::total_cmp);
        all
    }

    fn row(&self, taps: &str) -> ReportRow {
        let delays = self.sorted(|delay| delay.delay.as_f64());
        let mut row = match delays.is_empty() {
            true => ReportRow::invalid(taps, self.nothing()),
            false => self.measured(taps, &delays),
        };
        if delays.is_empty()
            && let Some(InvalidWindow::Ambiguous { delays, period: Some(period) }) = self.cause()
        {
            let nanos = |frames: FineFrames| self.rate.span_of_fine(frames).as_nanos();
            row.add("ambiguous_modulo_ns", "ambiguous modulo", nanos(*period));
            row.add("nearest_to_0_ns", "nearest to 0", delays.first().copied().map(nanos));
        }
        row.add("windows_found", "windows with a delay", delays.len());
        row.add("windows", "windows", self.windows.len());
        row.add("window_ns", "a window", self.at(self.window).as_nanos());
        row.add("rate_hz", "rate, Hz", self.rate.hertz());
        row
    }

    /// The reason with the greatest weight, then the most frequent.
    pub fn cause(&self) -> Option<&InvalidWindow> {
        let reasons = self.reasons();
        let event_channel =
            |(invalid, _, count): &&(&InvalidWindow, Frames, usize)| (invalid.weight(), *count);
        reasons.iter().rev().max_by_key(event_channel).map(|(invalid, ..)| *invalid)
    }

    fn nothing(&self) -> String {
        match self.cause() {
            None => "no delay was found: the recording is shorter than 64 frames".into(),
            Some(why @ InvalidWindow::Ambiguous { period: Some(_), .. }) => {
                format!("no delay was found: {}", why.says(self.rate))
            }
            Some(why) => format!("no delay was found: {}: {}", why.name(), why.says(self.rate)),
        }
    }

    fn measured(&self, taps: &str, delays: &[f64]) -> ReportRow {
        let mut series = Series::with_room(delays.len());
        for (at, delay) in self.found() {
            series.push(LocalTime::ZERO + self.at(at), self.rate.span_of_fine(delay.delay));
        }
        let mut row = ReportRow::named(taps).with(&series);
        let middle = rank(delays, 0.5);
        // A mean would hide that the delay drifts, and its error is smaller than the error of a
        // single window.
        row.measured = row
            .measured
            .map(|summary| Summary { p50_ns: Some(self.span(middle).as_nanos()), ..summary });
        let apart = self.sorted(|delay| (delay.delay.as_f64() - middle).abs());
        let unsure = rank(&self.sorted(|delay| delay.uncertainty.as_f64()), 0.5);
        let unsure = unsure + rank(&apart, WITHIN);
        row.uncertainty = Some(self.span(unsure).max(Span::from_nanos(1)));
        let gains = self.sorted(|delay| delay.gain.abs());
        let inverted = self.found().filter(|(_, delay)| delay.gain < 0.0).count();
        let polarity = match inverted {
            0 => "as the first".to_owned(),
            all if all == delays.len() => "inverted".to_owned(),
            some => format!("inverted in {some} windows"),
        };
        let confidence = rank(&self.sorted(|delay| delay.confidence_db), 0.0);
        let unsure_ns = row.uncertainty.map_or(0.0, |unsure| unsure.as_nanos() as f64);
        row.add_within("delay_p50_ns", "median", self.span(middle).as_nanos(), unsure_ns);
        // With fewer values the percentile is the maximum.
        let tail = (delays.len() >= 20).then(|| self.span(rank(delays, 0.95)).as_nanos());
        row.add_within("delay_p95_ns", "95th percentile", tail, unsure_ns);
        row.add_within("delay_p50_frames", "median, frames", middle, unsure);
        row.add("uncertainty_frames", "±, frames", unsure);
        row.add("confidence_db", "next best delay, dB lower", confidence);
        row.add("gain_db", "gain of the second, dB", 20.0 * rank(&gains, 0.5).log10());
        row.add("polarity", "polarity of the second", polarity);
        row.add("inverted_windows", "inverted windows", inverted);
        if let Some(drift) = self.drift {
            let error = drift.uncertainty.as_f64();
            row.add_within("drift_ppm", "drift, ppm", drift.ppm.as_f64(), error);
            row.add("drift_uncertainty_ppm", "drift ±, ppm", error);
        }
        row.add("steps", "steps", self.steps.len());
        let carried = self.found().filter(|(_, delay)| delay.modulo.is_some()).count();
        if carried > 0 {
            row.add("carried_windows", "windows with a carried delay", carried);
        }
        row.meanwhile = self.meanwhile();
        row.points = vec![Points::of("delay", &series)];
        row
    }

    fn since_first(&self, quantity: impl Fn(&TapDelay) -> f64) -> Vec<(i64, f64)> {
        let first = self.found().next().map_or(Frames::ZERO, |(at, _)| at);
        let value = |(at, delay)| ((self.at(at) - self.at(first)).as_nanos(), quantity(delay));
        self.found().map(value).collect()
    }

    fn meanwhile(&self) -> Vec<Meanwhile> {
        let quantity = |key: &'static str, words: &'static str, of: fn(&TapDelay) -> f64| {
            Meanwhile::drawn(key, words, self.since_first(of))
        };
        vec![
            quantity("delay_frames", "delay, frames", |delay| delay.delay.as_f64()),
            quantity("uncertainty_frames", "±, frames", |delay| delay.uncertainty.as_f64()),
            quantity("confidence_db", "next best delay, dB lower", |delay| delay.confidence_db),
            quantity("gain", "gain of the second", |delay| delay.gain),
        ]
    }

    fn step(&self, step: &DelayStep, number: usize) -> ReportRow {
        let mut row = ReportRow::named(format!("step {number}"));
        let by = step.by.as_f64();
        row.add("at_ns", "at", self.at(step.at).as_nanos());
        row.add("at_frame", "at frame", step.at.count());
        row.add("by_frames", "longer by, frames", by);
        let reason = match step.modulo {
            Some(period) => {
                row.add("modulo_frames", "modulo, frames", period.as_f64());
                "periodic sound"
            }
            None if by < 0.0 => "frames dropped",
            None => "frames inserted",
        };
        row.add("reason", "", reason);
        row
    }

    fn reasons(&self) -> Vec<(&InvalidWindow, Frames, usize)> {
        let mut reasons: Vec<(&InvalidWindow, Frames, usize)> = Vec::new();
        for window in &self.windows {
            let Err(invalid) = &window.delay else { continue };
            match reasons.iter_mut().find(|(reason, ..)| reason.name() == invalid.name()) {
                Some((.., count)) => *count += 1,
                None => reasons.push((invalid, window.at, 1)),
            }
        }
        reasons
    }

    fn invalid_rows(&self) -> Vec<ReportRow> {
        let row = |(invalid, at, count): (&InvalidWindow, Frames, usize)| {
            let mut row = ReportRow::invalid(invalid.name(), invalid.says(self.rate));
            row.add("invalid_windows", "invalid windows", count);
            row.add("first_invalid_ns", "the first at", self.at(at).as_nanos());
            if let InvalidWindow::Ambiguous { delays, .. } = invalid {
                row.add("candidates_frames", "equally good there, frames", listed(delays));
            }
            row
        };
        self.reasons().into_iter().map(row).collect()
    }
}

fn listed(candidates: &[FineFrames]) -> String {
    let each = candidates.iter().map(|frames| format!("{:.1}", frames.as_f64()));
    each.collect::<Vec<_>>().join(", ")
}

fn rank(sorted: &[f64], part: f64) -> f64 {
    let index = (part * sorted.len() as f64).ceil() as usize;
    sorted[index.clamp(1, sorted.len()) - 1]
}
