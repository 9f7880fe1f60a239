//! What an experiment found, given as it was asked for.

use tautline_io::clock::now;
use tautline_lab::page::{charts, page};
use tautline_lab::report::LabReport;
use tautline_proto::time::LocalTime;

use crate::failure::Failure;
use crate::flags::{ReportKind, Reporting};
use crate::page::command_line;
use crate::report_file::{FileFormat, ReportFiles};
use crate::screen;

/// Where what an experiment finds goes, made before it begins.
pub(crate) struct ExperimentAnswer {
    kind: ReportKind,
    files: ReportFiles,
    begun: LocalTime,
}

impl ExperimentAnswer {
    pub(crate) fn open(flags: &Reporting) -> Result<Self, Failure> {
        let files = ReportFiles::create(&flags.report_file)?;
        Ok(Self { kind: flags.report, files, begun: now() })
    }

    /// Whether anybody reads along.
    pub(crate) fn tells(&self) -> bool {
        self.kind != ReportKind::None
    }

    /// Says what goes on, to whoever reads along.
    pub(crate) fn tell(&self, sentence: &str) {
        if self.tells() {
            screen::tell(sentence);
        }
    }

    /// Gives the report; an experiment in which nothing was measured has failed.
    pub(crate) fn give(self, report: LabReport) -> Result<(), Failure> {
        let report = self.write(report)?;
        if report.says_something() {
            return Ok(());
        }
        let why = report.rows.iter().find_map(|row| row.void.as_deref());
        Err(Failure::running(why.unwrap_or("nothing was measured; the notes say why")))
    }

    /// Gives the report of an experiment that may have failed though some rows were measured: why it has.
    pub(crate) fn give_unless(
        self,
        unanswered: Option<String>,
        report: LabReport,
    ) -> Result<(), Failure> {
        self.give(report)?;
        unanswered.map_or(Ok(()), |why| Err(Failure::running(why)))
    }

    /// Writes the report wherever it was asked for, and says what was written.
    pub(crate) fn write(self, mut report: LabReport) -> Result<LabReport, Failure> {
        report.command = command_line();
        report.duration_ns = (now() - self.begun).as_nanos();
        let json = || report.to_json().map_err(|error| Failure::running(error.to_string()));
        // The file first: nobody may be reading what is printed.
        let written = self.files.write(|format| match format {
            FileFormat::Html => Ok(page(&report)),
            FileFormat::Svg => Ok(charts(&report)),
            FileFormat::Txt => Ok(report.to_string()),
            FileFormat::Json | FileFormat::Csv => json(),
        });
        match self.kind {
            ReportKind::Text => screen::print(&report.to_string()),
            ReportKind::Json => screen::print(&json()?),
            ReportKind::Html => screen::print(&page(&report)),
            ReportKind::None => {}
        }
        written?;
        Ok(report)
    }
}
