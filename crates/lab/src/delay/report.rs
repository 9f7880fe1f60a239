use serde_json::Value;
use tautline_proto::device::Settings;
use tautline_proto::time::Span;
use tautline_report::distribution::{Distribution, Summary};

use super::bound::bound_95;
use super::clocks::JoinedClocks;
use super::judge::{Exactness, Outcome};
use super::player::DeviceFaults;
use super::sweep::MIN_CLEAR_DB;
use crate::report::{HostDescription, LabReport, Points, ReportRow};
use crate::statistics::{Missed, median};

#[derive(Debug, Clone)]
pub struct MeasuredDelay {
    pub marks: Outcome,
    settings: [Settings; 2],
    pub(super) configured: Option<Span>,
    pub(super) faults: [DeviceFaults; 2],
    pub best_unclear_db: Option<f64>,
    pub(super) hosts: Vec<HostDescription>,
    pub(super) clocks: Option<JoinedClocks>,
    pub notes: Vec<String>,
}

pub const QUESTION: &str = "how long does sound take from one device to the other?";

impl MeasuredDelay {
    pub(super) fn new(settings: [Settings; 2], configured: Option<Span>, marks: Outcome) -> Self {
        Self {
            marks,
            settings,
            configured,
            faults: [DeviceFaults::default(); 2],
            best_unclear_db: None,
            hosts: vec![HostDescription::here("here")],
            clocks: None,
            notes: Vec::new(),
        }
    }

    pub(super) fn devices(&mut self, output: DeviceFaults, input: DeviceFaults, unread: i64) {
        self.faults = [output, input];
        let xruns = output.xruns + input.xruns;
        let skipped = output.skipped.unsigned_abs() + input.skipped.unsigned_abs();
        let frames = skipped + self.marks.dropped_frames + self.marks.repeated_frames;
        if self.marks.bit_exact() == Some(false) && self.marks.words.lack_by_xruns(xruns, frames) {
            self.marks.exactness = Some(Exactness::Xruns);
        }
        if unread > 0 {
            self.notes.push(format!(
                "{unread} recorded frames were not searched: this machine is too busy"
            ));
        }
    }

    pub(super) fn foreign(&mut self, marks: u64) {
        self.marks.foreign = marks;
        if marks > 0 {
            let xruns = self.faults.iter().any(|faults| faults.xruns > 0);
            let xruns = if xruns { ", or xruns damaged them" } else { "" };
            self.notes.push(format!(
                "{marks} marks of another run were ignored: another program plays marks on the \
                 same path, or the path still holds earlier ones{xruns}"
            ));
        }
    }

    pub fn report(self, [output, input]: [&str; 2]) -> LabReport {
        let mut report = LabReport::of("delay", QUESTION);
        let overflowed = self.marks.delays.overflowed();
        let mut row = self.row(format!("{output} to {input}"));
        report.hosts = self.hosts;
        if !self.marks.received_any() {
            row.invalid = Some(match self.best_unclear_db {
                Some(clear) => format!(
                    "no sweep from {output} found at {input}: the best is {clear:.1} dB above the \
                     rest, but {MIN_CLEAR_DB} dB are needed\nhint: play louder, or move both closer"
                ),
                None => format!(
                    "no mark from {output} found at {input}\nhint: check the connection and the volume"
                ),
            });
        }
        if let Some(clocks) = self.clocks {
            clocks.notify(&mut row);
        }
        // Marks that an xrun moved differ by more than the error of each.
        row.uncertainty = row.uncertainty.max(self.marks.uncertainty_95());
        report.rows.push(row);
        report.notes = self.notes;
        if overflowed > 0 {
            report.notes.push(format!(
                "the last {overflowed} marks are missing in the charts, and the 95 % bound is \
                 unknown; set --duration"
            ));
        }
        report
    }

    fn row(&self, name: String) -> ReportRow {
        let marks = &self.marks;
        let mut row = ReportRow::named(name).with(&marks.delays);
        row.configured = self.configured;
        row.uncertainty = marks.uncertainty.median();
        row.measured = Some(marks.measured());
        row.missed = Some(Missed::of(marks.missed, marks.played));
        if marks.delays.begin().is_some() {
            row.points.push(Points::of("DAC to ADC", &marks.delays));
        }
        let words = "95 % bound of the median's error, if groups of marks are independent";
        row.add("uncertainty_95_ns", words, marks.uncertainty_95().map(Span::as_nanos));
        row.add(
            "uncertainty_max_ns",
            "uncertainty of the worst mark",
            marks.uncertainty.summary().max_ns,
        );
        row.add("marks_played", "marks played", marks.played);
        row.add("marks_missed", "marks missed", marks.missed);
        row.add("marks_repeated", "marks repeated", marks.repeated);
        row.add("marks_of_others", "marks of other runs", marks.foreign);
        let words = "marks rejected, because only they are off by whole marks";
        row.add("marks_misread", words, marks.misread);
        let words = "frames dropped, by marks too close together";
        row.add("dropped_frames", words, marks.dropped_frames);
        let words = "frames repeated, by marks too far apart";
        row.add("repeated_frames", words, marks.repeated_frames);
        row.add("drift_ppm", "the input runs faster, ppm", marks.drift_ppm);
        let level = marks.gain.map(|gain| 20.0 * gain.abs().log10());
        row.add("level_dbfs", "sound, dBFS", level);
        row.add("polarity", "polarity", marks.polarity());
        row.add("gain", "level of the marks (full scale: 1)", marks.gain);
        row.add("min_confidence", "correlation of the worst mark (exact: 1)", marks.min_confidence);
        if let Some(clear) = marks.min_clear_db {
            row.add("peak_to_sidelobe_db", "peak to sidelobe at worst, dB", clear);
        }
        row.add("bit_exact", "samples identical in 16 bits", marks.bit_exact());
        row.add(
            "bits_changed_by",
            "cause of changed samples (– if none, or unknown)",
            marks.exactness.and_then(Exactness::name),
        );
        row.add("rate", "rate, Hz", self.settings[0].rate.hertz());
        let [periods, all] = [
            self.settings.map(|one| one.period.count()),
            self.settings.map(|one| one.periods.into()),
        ];
        let pair = |pair: [i64; 2]| Value::from(pair.to_vec());
        row.add("period", "frames per period, output and input", pair(periods));
        row.add("periods", "periods, output and input", pair(all));
        let xruns = self.faults.map(|faults| faults.xruns);
        row.add("xruns", "xruns, output and input", Value::from(xruns.to_vec()));
        let words = "frames skipped in xruns, as reported by output and input";
        row.add("skipped_frames", words, pair(self.faults.map(|faults| faults.skipped)));
        row
    }
}

impl Outcome {
    /// To 1 ns while all values are kept, else to 1 part in 1024.
    pub fn measured(&self) -> Summary {
        if self.delays.overflowed() > 0 {
            return self.delay.summary();
        }
        let summary = self.delays.summary();
        let nanos: Vec<f64> =
            self.delays.values().iter().map(|(_, delay)| delay.as_nanos() as f64).collect();
        // The median, also of a few marks: a mean would follow a mark that an xrun moved.
        let middle = (!nanos.is_empty()).then(|| median(&nanos).round() as i64);
        Summary { p50_ns: summary.p50_ns.or(middle), ..summary }
    }

    pub fn received_any(&self) -> bool {
        self.delay.count() > 0
    }

    /// Uncertainty of the median (95 %); `None` below three marks, or if not all marks were kept.
    pub(super) fn uncertainty_95(&self) -> Option<Span> {
        (self.delays.overflowed() == 0).then_some(())?;
        let shared: Vec<Span> = self.parts.iter().filter_map(Distribution::median).collect();
        let clocks = self.clocks.median().unwrap_or(Span::ZERO);
        bound_95(self.delays.values(), &shared, clocks)
    }

    pub(super) fn polarity(&self) -> Option<&'static str> {
        let (turned, marks) = (self.turned, self.delay.count());
        (marks > 0).then(|| match () {
            () if turned * 4 >= marks * 3 => "turned",
            () if turned * 4 <= marks => "as played",
            () => "unsure",
        })
    }

    /// Whether the low 16 bits of all samples arrived intact; `None` if unknown.
    pub(super) fn bit_exact(&self) -> Option<bool> {
        self.exactness.map(|exactness| exactness == Exactness::Exact)
    }
}

impl Exactness {
    pub(super) const fn name(self) -> Option<&'static str> {
        match self {
            Self::Exact => None,
            Self::Turned => Some("polarity"),
            Self::Gain => Some("gain"),
            Self::Resampled => Some("resampled"),
            Self::Xruns => Some("xruns"),
            Self::Other => Some("other"),
        }
    }
}
