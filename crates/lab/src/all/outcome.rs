use core::fmt;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use tautline_engine::monitor::shell::shell_line;
use tautline_proto::time::Span;
use tautline_report::distribution::Summary;
use tautline_ui::failure::on_one_line;

use crate::experiments::Experiment;
use crate::hosts::last_message;
use crate::report::{LabReport, ReportRow};

#[derive(Debug, Clone, Serialize)]
pub struct AllOutcome {
    pub name: &'static str,
    pub does: &'static str,
    pub command: String,
    pub duration_ns: u64,
    pub page: Option<String>,
    pub rows: Vec<AllRow>,
    pub failed: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AllRow {
    pub name: String,
    pub invalid: Option<String>,
    pub configured_ns: Option<i64>,
    pub uncertainty_ns: Option<i64>,
    pub measured: Option<AllSummary>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct AllSummary {
    pub count: u64,
    pub p50_ns: Option<i64>,
    /// Absent with too few values.
    pub p99_ns: Option<i64>,
    pub max_ns: Option<i64>,
}

impl From<ReportRow> for AllRow {
    fn from(row: ReportRow) -> Self {
        let ReportRow { name, invalid, configured, uncertainty, measured, .. } = row;
        let [configured_ns, uncertainty_ns] =
            [configured, uncertainty].map(|span| span.map(Span::as_nanos));
        let measured = measured.map(|Summary { count, p50_ns, p99_ns, max_ns, .. }| AllSummary {
            count,
            p50_ns,
            p99_ns,
            max_ns,
        });
        Self { name, invalid, configured_ns, uncertainty_ns, measured }
    }
}

impl AllOutcome {
    pub(super) fn read(
        step: &Experiment,
        words: &[String],
        folder: &Path,
        ended_well: bool,
        took: Duration,
    ) -> Self {
        let text = std::fs::read_to_string(folder.join(step.json())).ok();
        let written = text.and_then(|text| serde_json::from_str::<LabReport>(&text).ok());
        let rows: Vec<_> = written.unwrap_or_default().rows.into_iter().map(AllRow::from).collect();
        let said = || {
            let log = std::fs::read_to_string(folder.join(step.log())).unwrap_or_default();
            let last = last_message(&log).map(|message| on_one_line(&message));
            last.unwrap_or_else(|| "it ended without a report".to_owned())
        };
        let is_written = |name: &String| {
            folder.join(name).metadata().is_ok_and(|file| file.is_file() && file.len() > 0)
        };
        Self {
            name: step.name,
            does: step.does,
            command: shell_line(["taut".to_owned()].into_iter().chain(words.iter().cloned())),
            duration_ns: took.as_nanos() as u64,
            page: Some(step.page()).filter(|_| step.is_experiment()).filter(is_written),
            failed: (!ended_well || rows.is_empty()).then(said),
            rows,
        }
    }

    pub fn invalid(&self) -> usize {
        self.rows.iter().filter(|row| row.invalid.is_some()).count()
    }
}

impl AllOutcome {
    fn reasons(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut reasons = self.rows.iter().filter_map(|row| row.invalid.as_deref());
        let Some(first) = reasons.next() else { return Ok(()) };
        write!(f, ": {first}")?;
        match reasons.filter(|other| *other != first).count() {
            0 => Ok(()),
            1 => write!(f, " (and 1 for another reason)"),
            others => write!(f, " (and {others} for other reasons)"),
        }
    }
}

impl fmt::Display for AllOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.duration_ns as f64 / 1e9;
        write!(f, "{}: {} rows in {seconds:.1} s", self.name, self.rows.len())?;
        match self.invalid() {
            0 => {}
            invalid => write!(f, ", {invalid} of them invalid")?,
        }
        match &self.failed {
            Some(why) => write!(f, "; failed: {why}"),
            None => self.reasons(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;

    fn outcome(json: Option<&str>, log: &str, ended_well: bool) -> AllOutcome {
        let folder = tempfile::tempdir().unwrap();
        let step = Experiment::named("stalls").unwrap();
        if let Some(json) = json {
            std::fs::write(folder.path().join(step.json()), json).unwrap();
        }
        std::fs::write(folder.path().join(step.log()), log).unwrap();
        AllOutcome::read(step, &[], folder.path(), ended_well, Duration::from_millis(1500))
    }

    #[test]
    fn experiments_list_shows_files_and_invalid_rows() {
        let json = r#"{"rows": [
            {"name": "core 0", "invalid": null, "configured_ns": null, "uncertainty_ns": 5,
             "measured": {"count": 7, "p50_ns": 9, "p99_ns": null, "max_ns": 11, "else": 1}},
            {"name": "core 1", "invalid": "the kernel refused fifo:99", "configured_ns": null,
             "uncertainty_ns": null, "measured": null}]}"#;
        let read = outcome(Some(json), "", true);
        snapshot!(read);
        let mut more = read.clone();
        more.rows.push(AllRow { name: "core 2".to_owned(), ..more.rows[1].clone() });
        let invalid = Some("the core is asleep".to_owned());
        more.rows.push(AllRow { invalid, ..more.rows[1].clone() });
        snapshot!(more);
        assert_eq!(read.rows[0].measured.map(|m| (m.count, m.p50_ns)), Some((7, Some(9))));
    }

    #[test]
    fn experiment_without_a_report_shows_its_last_output() {
        for json in [None, Some("{\"rows\": [tor")] {
            let read = outcome(json, "looking\nthe disk is full\n\n", false);
            snapshot!(read);
            assert_eq!(read.page, None);
        }
        snapshot!(outcome(None, "", true).failed.unwrap());
        let log = "looking\nerror: the disk is full\nhint: free space\n";
        snapshot!("with a hint", outcome(None, log, false).failed.unwrap());
    }
}
