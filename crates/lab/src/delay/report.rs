//! What was measured, for people and for programs.

use core::fmt;

use serde::Serialize;
use tautline_engine::watching::distribution::Summary;
use tautline_proto::device::Settings;
use tautline_proto::time::Span;

use super::judge::Outcome;
use super::player::DeviceFaults;

/// A measured delay.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DelayReport {
    /// Version of these names.
    pub schema: u32,
    /// The name of the experiment.
    pub experiment: &'static str,
    /// From its beginning to its end.
    pub duration_ns: i64,
    /// One.
    pub rows: Vec<MarkCounts>,
    /// What a reader should know, a sentence each.
    pub notes: Vec<String>,
}

/// What became of the marks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MarkCounts {
    /// Of both devices, nominally.
    pub rate: u32,
    /// Frames per wake-up: of the output and of the input.
    pub period: [i64; 2],
    /// In the buffer: of the output and of the input.
    pub periods: [u32; 2],
    /// What the latency was set to, if that was said.
    pub configured_ns: Option<i64>,
    /// DAC of the output to ADC of the input, mark by mark.
    pub measured: Summary,
    /// How far the median may be from the truth, either way.
    pub uncertainty_ns: Option<i64>,
    /// The same for the least and the greatest.
    pub uncertainty_max_ns: Option<i64>,
    /// Marks that were played in time to be heard.
    pub marks_played: u64,
    /// Of these, those that were not heard.
    pub marks_missed: u64,
    /// Marks that were heard again, or out of order.
    pub marks_repeated: u64,
    /// Frames that the sound lacked.
    pub dropped_frames: u64,
    /// Frames that it had too many.
    pub repeated_frames: u64,
    /// How much faster the input runs than the output.
    pub drift_ppm: Option<f64>,
    /// How well the worst mark fitted: 1 if its sound was the very same.
    pub least_confidence: Option<f64>,
    /// Of the last mark, full scale being 1; negative where the polarity is the other.
    pub gain: Option<f64>,
    /// Times each device starved or flooded by its own word: the output and the input.
    pub xruns: [u64; 2],
    /// Frames that each skipped for it.
    pub skipped_frames: [i64; 2],
}

impl DelayReport {
    pub(super) fn new(
        [output, input]: [Settings; 2],
        configured: Option<Span>,
        duration: Span,
        outcome: &Outcome,
    ) -> Self {
        let unsure = outcome.uncertainty.summary();
        let row = MarkCounts {
            rate: output.rate.hertz(),
            period: [output.period.count(), input.period.count()],
            periods: [output.periods, input.periods],
            configured_ns: configured.map(Span::as_nanos),
            measured: outcome.delay.summary(),
            uncertainty_ns: outcome.uncertainty.median().map(Span::as_nanos),
            uncertainty_max_ns: unsure.max_ns,
            marks_played: outcome.played,
            marks_missed: outcome.missed,
            marks_repeated: outcome.repeated,
            dropped_frames: outcome.dropped_frames,
            repeated_frames: outcome.repeated_frames,
            drift_ppm: outcome.drift_ppm,
            least_confidence: outcome.least_confidence,
            gain: outcome.gain,
            xruns: [0; 2],
            skipped_frames: [0; 2],
        };
        Self {
            schema: 1,
            experiment: "delay",
            duration_ns: duration.as_nanos(),
            rows: vec![row],
            notes: Vec::new(),
        }
    }

    /// Adds what the devices said of themselves.
    pub(super) fn devices(&mut self, output: DeviceFaults, input: DeviceFaults, unread: i64) {
        for row in &mut self.rows {
            row.xruns = [output.xruns, input.xruns];
            row.skipped_frames = [output.skipped, input.skipped];
        }
        if unread > 0 {
            self.notes.push(format!(
                "{unread} frames were heard and not searched: this machine is too busy"
            ));
        }
    }

    /// Whether any mark came back.
    pub fn heard_any(&self) -> bool {
        self.rows.iter().any(|row| row.measured.count > 0)
    }

    /// The report for programs.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }
}

impl MarkCounts {
    fn delay(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |nanos| Span::from_nanos(nanos);
        write!(f, "delay: ")?;
        if let Some(configured) = self.configured_ns {
            write!(f, "configured {}, ", shown(configured))?;
        }
        let summary = &self.measured;
        let Some(middle) = summary.p50_ns.or(summary.mean_ns) else {
            return writeln!(f, "no mark was heard");
        };
        write!(f, "measured {}", shown(middle))?;
        if let Some(uncertainty) = self.uncertainty_ns {
            write!(f, " ± {}", shown(uncertainty))?;
        }
        write!(f, "  (")?;
        for (name, value) in
            [("min", summary.min_ns), ("p99", summary.p99_ns), ("max", summary.max_ns)]
        {
            if let Some(value) = value {
                write!(f, "{name} {}, ", shown(value))?;
            }
        }
        writeln!(f, "{} marks)", summary.count)
    }
}

impl fmt::Display for MarkCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.delay(f)?;
        writeln!(
            f,
            "marks: {} played, {} missed, {} repeated; frames: {} dropped, {} repeated",
            self.marks_played,
            self.marks_missed,
            self.marks_repeated,
            self.dropped_frames,
            self.repeated_frames
        )?;
        if let (Some(gain), Some(confidence)) = (self.gain, self.least_confidence) {
            let level = 20.0 * gain.abs().log10();
            let polarity = if gain < 0.0 { ", polarity turned" } else { "" };
            write!(f, "sound: {level:.1} dBFS{polarity}, fits to {:.4} at worst", confidence)?;
            if let Some(drift) = self.drift_ppm {
                write!(f, ", {drift:+.1} ppm")?;
            }
            writeln!(f)?;
        }
        let [output, input] = self.xruns;
        writeln!(f, "xruns: {output} of the output, {input} of the input")
    }
}

impl fmt::Display for DelayReport {
    /// The report for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rows.iter().try_for_each(|row| row.fmt(f))?;
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))
    }
}
