//! What was measured, as a row among those of other experiments.

use serde_json::Value;
use tautline_proto::device::Settings;
use tautline_proto::time::{LocalTime, Span};
use tautline_report::distribution::{Distribution, Summary};

use super::bound::bound_95;
use super::clocks::JoinedClocks;
use super::judge::{CameWords, Exactness, Outcome};
use super::player::DeviceFaults;
use super::sweep::LEAST_CLEAR_DB;
use crate::report::{HostDescription, LabReport, Points, ReportRow};
use crate::statistics::{Missed, Series};

#[derive(Debug, Clone)]
pub struct MeasuredDelay {
    /// What became of the marks.
    pub marks: MarkCounts,
    /// DAC to ADC, each by when its mark was played: as many as were kept.
    pub delays: Series,
    /// Words of the lowest bits, by which samples are held.
    pub(super) words: CameWords,
    /// By how much the best sweep stood out that was not clear enough, in dB.
    pub best_unclear_db: Option<f64>,
    /// The machines; of one that measures by itself, this one.
    pub(super) hosts: Vec<HostDescription>,
    /// How far the clocks of two hosts were known.
    pub(super) clocks: Option<JoinedClocks>,
    /// What a reader should know, a sentence each.
    pub notes: Vec<String>,
}

/// What is to be answered.
pub const QUESTION: &str = "how long does sound take from one device to the other?";

/// What became of the marks.
#[derive(Debug, Clone, PartialEq)]
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
    /// In 95 of 100 runs it is no further from it, either way; absent of fewer than three marks, and
    /// where not all were kept.
    pub uncertainty_95_ns: Option<i64>,
    /// How far the least and the greatest may be.
    pub uncertainty_max_ns: Option<i64>,
    /// Marks that were played in time to be heard.
    pub marks_played: u64,
    /// Of these, those that were not heard.
    pub marks_missed: u64,
    /// Marks that were heard again, or out of order.
    pub marks_repeated: u64,
    /// Marks of other runs that were heard, and were not measured.
    pub marks_foreign: u64,
    /// Frames that the sound lacked.
    pub dropped_frames: u64,
    /// Frames that it had too many.
    pub repeated_frames: u64,
    /// How much faster the input runs than the output.
    pub drift_ppm: Option<f64>,
    /// Of sweeps, how far everything else lies below the peak of the least clear one.
    pub peak_to_sidelobe_db: Option<f64>,
    /// How well the worst mark fitted: 1 if its sound was the very same.
    pub least_confidence: Option<f64>,
    /// Of the last mark, full scale being 1; negative where the polarity is the other.
    pub gain: Option<f64>,
    /// `as played` or `turned`, as at least three of four marks say; else `unsure`.
    pub polarity: Option<&'static str>,
    /// Whether the lower bits of every sample came as they were played, in 16 bits; absent where that cannot be known.
    pub bit_exact: Option<bool>,
    /// What was done to them: `polarity`, `gain`, `resampled`, `xruns` or `other`.
    pub bits_changed_by: Option<&'static str>,
    /// Times each device starved or flooded by its own word: the output and the input.
    pub xruns: [u64; 2],
    /// Frames that each skipped for it.
    pub skipped_frames: [i64; 2],
}

/// What changed samples that are whole but where a device had an xrun.
const XRUNS: &str = "xruns";

impl MeasuredDelay {
    pub(super) fn new(
        [output, input]: [Settings; 2],
        configured: Option<Span>,
        outcome: Outcome,
    ) -> Self {
        let unsure = outcome.uncertainty.summary();
        let shared: Vec<Span> = outcome.parts.iter().filter_map(Distribution::median).collect();
        // It is of the values that were kept, and the median is of all.
        let bound = if outcome.delays.unkept() == 0 {
            let clocks = outcome.clocks.median().unwrap_or(Span::ZERO);
            bound_95(outcome.delays.values(), &shared, clocks)
        } else {
            None
        };
        let marks = MarkCounts {
            rate: output.rate.hertz(),
            period: [output.period.count(), input.period.count()],
            periods: [output.periods, input.periods],
            configured_ns: configured.map(Span::as_nanos),
            // To the nanosecond while all are kept, to a part in 1024 beyond.
            measured: match outcome.delays.unkept() {
                0 => outcome.delays.summary(),
                _ => outcome.delay.summary(),
            },
            uncertainty_ns: outcome.uncertainty.median().map(Span::as_nanos),
            uncertainty_95_ns: bound.map(Span::as_nanos),
            uncertainty_max_ns: unsure.max_ns,
            marks_played: outcome.played,
            marks_missed: outcome.missed,
            marks_repeated: outcome.repeated,
            marks_foreign: 0,
            dropped_frames: outcome.dropped_frames,
            repeated_frames: outcome.repeated_frames,
            drift_ppm: outcome.drift_ppm,
            peak_to_sidelobe_db: outcome.least_clear_db,
            least_confidence: outcome.least_confidence,
            gain: outcome.gain,
            polarity: polarity(outcome.turned, outcome.delay.count()),
            bit_exact: outcome.exactness.map(|exactness| exactness == Exactness::Exact),
            bits_changed_by: outcome.exactness.and_then(Exactness::name),
            xruns: [0; 2],
            skipped_frames: [0; 2],
        };
        Self {
            marks,
            delays: outcome.delays,
            words: outcome.words,
            best_unclear_db: None,
            hosts: vec![HostDescription::here("here")],
            clocks: None,
            notes: Vec::new(),
        }
    }

    /// Adds what the devices said of themselves.
    pub(super) fn devices(&mut self, output: DeviceFaults, input: DeviceFaults, unread: i64) {
        self.marks.xruns = [output.xruns, input.xruns];
        self.marks.skipped_frames = [output.skipped, input.skipped];
        let xruns = output.xruns + input.xruns;
        let skipped = output.skipped.unsigned_abs() + input.skipped.unsigned_abs();
        let frames = skipped + self.marks.dropped_frames + self.marks.repeated_frames;
        if self.marks.bit_exact == Some(false) && self.words.lack_by_xruns(xruns, frames) {
            self.marks.bits_changed_by = Some(XRUNS);
        }
        if unread > 0 {
            self.notes.push(format!(
                "{unread} frames were heard and not searched: this machine is too busy"
            ));
        }
    }

    /// Adds how many marks of other runs were heard.
    pub(super) fn foreign(&mut self, marks: u64) {
        self.marks.marks_foreign = marks;
        if marks > 0 {
            self.notes.push(format!(
                "{marks} marks of another run were heard and not measured: something else plays marks \
                 into the same sound, or a path still holds those of before"
            ));
        }
    }

    /// The report of it, between devices of these names: the output and the input.
    pub fn report(self, [output, input]: [&str; 2]) -> LabReport {
        let mut report = LabReport::of("delay", QUESTION);
        report.hosts = self.hosts;
        let unkept = self.delays.unkept();
        let mut row = self.marks.row(&format!("{output} to {input}"), &self.delays);
        if !self.marks.heard_any() {
            row.void = Some(match self.best_unclear_db {
                Some(clear) => format!(
                    "no sweep that {output} played stood out at {input}: the best by {clear:.1} dB, \
                     and {LEAST_CLEAR_DB} dB are needed; play it louder, or bring both together"
                ),
                None => format!(
                    "no mark that {output} played was heard at {input}; check what joins them, and \
                     the volume"
                ),
            });
        }
        if let Some(clocks) = self.clocks {
            clocks.tell(&mut row);
        }
        report.rows.push(row);
        report.notes = self.notes;
        if unkept > 0 {
            report.notes.push(format!(
                "the last {unkept} marks are in the figures alone, in no chart, and without a bound of 95 in 100: say \
                 --duration"
            ));
        }
        report
    }
}

impl MarkCounts {
    /// Whether any mark came back.
    pub const fn heard_any(&self) -> bool {
        self.measured.count > 0
    }

    fn row(&self, name: &str, delays: &Series) -> ReportRow {
        let mut row = ReportRow::named(name).with(delays);
        row.configured = self.configured_ns.map(Span::from_nanos);
        row.uncertainty = self.uncertainty_ns.map(Span::from_nanos);
        row.measured = Some(self.measured);
        row.missed = Some(Missed::of(self.marks_missed, self.marks_played));
        if let Some(begin) = delays.begin() {
            let value =
                |(at, delay): &(LocalTime, Span)| ((*at - begin).as_nanos(), delay.as_nanos());
            let values = delays.values().iter().map(value).collect();
            row.points.push(Points { name: "DAC to ADC".to_owned(), values });
        }
        self.add_to(&mut row);
        row
    }

    fn add_to(&self, row: &mut ReportRow) {
        let words = "in 95 of 100 runs off by no more than, if groups of marks are independent";
        row.add("uncertainty_95_ns", words, self.uncertainty_95_ns);
        row.add("uncertainty_max_ns", "uncertainty of the worst mark", self.uncertainty_max_ns);
        row.add("marks_played", "marks played", self.marks_played);
        row.add("marks_missed", "marks missed", self.marks_missed);
        row.add("marks_repeated", "marks repeated", self.marks_repeated);
        row.add("marks_foreign", "marks of other runs", self.marks_foreign);
        let words = "frames dropped, by marks too close together";
        row.add("dropped_frames", words, self.dropped_frames);
        let words = "frames repeated, by marks too far apart";
        row.add("repeated_frames", words, self.repeated_frames);
        row.add("drift_ppm", "the input runs faster, ppm", self.drift_ppm);
        let level = self.gain.map(|gain| 20.0 * gain.abs().log10());
        row.add("level_dbfs", "sound, dBFS", level);
        row.add("polarity", "polarity", self.polarity);
        row.add("gain", "level of the marks, full scale being 1", self.gain);
        row.add(
            "least_confidence",
            "correlation of the worst mark, 1 being exact",
            self.least_confidence,
        );
        if let Some(clear) = self.peak_to_sidelobe_db {
            row.add("peak_to_sidelobe_db", "peak to sidelobe at worst, dB", clear);
        }
        row.add("bit_exact", "samples bit by bit as they were played, in 16 bits", self.bit_exact);
        row.add(
            "bits_changed_by",
            "what changed the samples (– if nothing, or not known)",
            self.bits_changed_by,
        );
        row.add("rate", "rate, Hz", self.rate);
        let pair = |pair: [i64; 2]| Value::from(pair.to_vec());
        row.add("period", "frames a period, output and input", pair(self.period));
        row.add("periods", "periods, output and input", pair(self.periods.map(i64::from)));
        row.add("xruns", "xruns, output and input", Value::from(self.xruns.to_vec()));
        let words = "frames skipped in xruns, by the word of output and input";
        row.add("skipped_frames", words, pair(self.skipped_frames));
    }
}

/// If so many of the marks were turned.
fn polarity(turned: u64, marks: u64) -> Option<&'static str> {
    (marks > 0).then(|| match () {
        () if turned * 4 >= marks * 3 => "turned",
        () if turned * 4 <= marks => "as played",
        () => "unsure",
    })
}

impl Exactness {
    const fn name(self) -> Option<&'static str> {
        match self {
            Self::Exact => None,
            Self::Turned => Some("polarity"),
            Self::Gain => Some("gain"),
            Self::Resampled => Some("resampled"),
            Self::Other => Some("other"),
        }
    }
}
