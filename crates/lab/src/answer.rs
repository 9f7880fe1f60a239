use clap::Args;
use serde::Serialize;
use tautline_engine::monitor::shell::shell_line;
use tautline_io::clock::now;
use tautline_proto::device::Stop;
use tautline_proto::time::LocalTime;
use tautline_ui::failure::{Failure, on_one_line};
use tautline_ui::report_file::{FileFormat, ReportFiles, ReportKind, ReportPath, report_path};
use tautline_ui::{screen, stop_on_signals};

use crate::page::{charts, page};
use crate::report::{HostDescription, LabReport, ReportRow};

/// Report options of every experiment.
#[derive(Debug, Args)]
pub(crate) struct Reporting {
    /// Final report: text, json, html, none
    #[arg(
        long,
        value_name = "KIND",
        default_value = "text",
        hide_default_value = true,
        hide_possible_values = true,
        help_heading = "Report"
    )]
    pub(crate) report: ReportKind,
    /// Also write a .json, .csv, .html, .txt, .svg file
    #[arg(long, value_name = "PATH", value_parser = report_path(), help_heading = "Report")]
    pub(crate) report_file: Vec<ReportPath>,
}

const NOTHING: &str = "nothing was measured\nhint: see the notes of the report";

pub(crate) struct Answer {
    kind: ReportKind,
    files: ReportFiles,
    begun: LocalTime,
    pub(crate) stop: Stop,
}

impl Answer {
    pub(crate) fn open(flags: &Reporting) -> Result<Self, Failure> {
        Self::with(flags, stop_on_signals()?)
    }

    /// For file input: the first signal ends the program.
    pub(crate) fn of_file(flags: &Reporting) -> Result<Self, Failure> {
        Self::with(flags, Stop::default())
    }

    fn with(flags: &Reporting, stop: Stop) -> Result<Self, Failure> {
        let files = ReportFiles::create(&flags.report_file)?;
        Ok(Self { kind: flags.report, files, begun: now(), stop })
    }

    pub(crate) fn notifies(&self) -> bool {
        self.kind != ReportKind::None
    }

    pub(crate) fn notify(&self, sentence: &str) {
        if self.notifies() {
            screen::notify(sentence);
        }
    }

    /// Returns an error if nothing was measured.
    pub(crate) fn give(self, report: LabReport) -> Result<(), Failure> {
        self.give_unless(None, report)
    }

    /// `unanswered` is why the experiment failed despite measured rows.
    pub(crate) fn give_unless(
        self,
        unanswered: Option<String>,
        report: LabReport,
    ) -> Result<(), Failure> {
        let why = report.rows.iter().find_map(|row| row.invalid.clone());
        let report = self.write(report)?;
        if !report.says_something() {
            return Err(Failure::running(why.unwrap_or_else(|| NOTHING.to_owned())));
        }
        unanswered.map_or(Ok(()), |why| Err(Failure::running(why)))
    }

    pub(crate) fn unusable(
        self,
        experiment: &'static str,
        host: impl ToString,
        why: impl Into<Failure>,
    ) -> Result<(), Failure> {
        let (why, mut report) = (why.into(), LabReport::asking(experiment));
        report.hosts.push(HostDescription::here("here"));
        report.rows.push(ReportRow::invalid(host.to_string(), why.to_string()));
        self.write(report)?;
        Err(why)
    }

    fn write(self, mut report: LabReport) -> Result<LabReport, Failure> {
        report.command = command_line();
        report.duration_ns = (now() - self.begun).as_nanos();
        let reasons = report.rows.iter_mut().filter_map(|row| row.invalid.as_mut());
        reasons.chain(&mut report.notes).for_each(|text| *text = on_one_line(text));
        self.files.write_and_print(self.kind, |format| match format {
            FileFormat::Html => Ok(page(&report)),
            FileFormat::Svg => Ok(charts(&report)),
            FileFormat::Txt => Ok(report.to_string()),
            FileFormat::Json | FileFormat::Csv => {
                report.to_json().map_err(|error| Failure::running(error.to_string()))
            }
        })?;
        Ok(report)
    }
}

pub fn command_line() -> String {
    shell_line(std::env::args_os().map(|word| word.to_string_lossy().into_owned()))
}

/// The report in one line, for programs started by an agent.
pub(crate) fn print_json(found: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string(found).map_err(|error| Failure::running(error.to_string()))?;
    screen::print(&(json + "\n"));
    Ok(())
}

/// Maximum number of values. Each needs 16 bytes, and a sorted copy.
const MAX: usize = 20_000_000;

/// Values stay in locked memory until the end.
pub(crate) fn check_room(values: usize) -> Result<(), Failure> {
    if values <= MAX {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{values} values do not fit in memory (maximum {MAX})\nhint: use a shorter --duration or a \
         longer interval"
    )))
}

#[cfg(test)]
pub(crate) fn parsed<T: Args>(words: &str) -> T {
    let command = T::augment_args(clap::Command::new("test").no_binary_name(true));
    T::from_arg_matches(&command.get_matches_from(words.split_whitespace())).expect("options")
}
