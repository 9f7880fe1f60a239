//! `taut lab all`: runs each experiment briefly as its own program, and links their pages.
//!
//! So the printed commands of the experiments reproduce the figures.

mod index;
mod outcome;
mod steps;

use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use tautline_proto::device::Stop;
use tautline_ui::failure::Failure;
use tautline_ui::report_file::{PlainKind, ReportFile};
use tautline_ui::{answer, screen, stop_on_signals};

use crate::answer::command_line;
use crate::experiments::Experiment;
use crate::hosts::HostPlace;
use crate::signals::interrupt;
use index::index;
#[cfg(test)]
pub(crate) use outcome::AllSummary;
pub use outcome::{AllOutcome, AllRow};

const SHORT_HELP: &str = r#"Examples:
  taut lab all
  taut lab all --only stalls --only latency-sweep

Details, the JSON report and exit status: taut lab all --help"#;

const HELP: &str = r#"Examples:
  # Everything on this machine, in five minutes, as root:
  taut lab all
  # With the receivers on another machine:
  taut lab all --with ssh:studio --out studio
  # Two experiments:
  taut lab all --only stalls --only latency-sweep

Each experiment is a separate program. The page has its command next to its
figures, and NAME.log has its messages. Rows of one or two seconds only show
that it works; for reliable figures, run an experiment's own command for longer.
The pages need no server: open index.html.

For scripts, --report json:
  { "schema": 2, "command", "duration_ns", "ended_early", "experiments": [
    { "name", "does", "command", "duration_ns", "page", "rows": [ { "name", "invalid",
      "configured_ns", "uncertainty_ns", "measured": { "count", "p50_ns",
        "p99_ns", "max_ns" } } ], "failed" } ] }

Exit status: 1 if an experiment measured nothing, or if not all have run."#;

/// `taut lab all`
#[derive(Debug, Args)]
#[command(after_help = SHORT_HELP, after_long_help = HELP)]
pub struct AllFlags {
    /// Folder for all reports and index.html
    #[arg(long, value_name = "DIR", default_value = "taut-lab")]
    out: PathBuf,
    /// Receiver's host: local, netns:NAME, ssh:HOST
    #[arg(long, value_name = "PLACE", default_value = "local")]
    with: HostPlace,
    /// Only this experiment; repeatable
    #[arg(long, value_name = "NAME", value_parser = step)]
    only: Vec<&'static Experiment>,
    /// Final report: text, json or none [default: text]
    #[arg(
        long,
        value_name = "KIND",
        default_value = "text",
        hide_default_value = true,
        hide_possible_values = true
    )]
    report: PlainKind,
}

fn step(name: &str) -> Result<&'static Experiment, String> {
    Experiment::named(name)
        .ok_or_else(|| format!("unknown experiment '{name}'\nhint: `taut lab list` lists them"))
}

pub(crate) fn run(flags: &AllFlags) -> Result<(), Failure> {
    let folder = &flags.out;
    std::fs::create_dir_all(folder).map_err(|error| {
        Failure::open(format!(
            "cannot create folder {}: {error}\nhint: choose another with --out",
            folder.display()
        ))
    })?;
    let page = ReportFile::create(&folder.join("index.html"))?;
    let stop = stop_on_signals()?;
    let mut report = run_each(flags, &stop)?;
    report.command = command_line();
    page.write(&index(&report))?;
    let path = folder.join("index.html");
    let json = serde_json::to_string_pretty(&report).map(|text| text + "\n");
    answer(flags.report, &format!("{}{}\n", text(&report), path.display()), json)?;
    let failed = report.experiments.iter().filter(|outcome| outcome.failed.is_some());
    match failed.map(|outcome| outcome.name).collect::<Vec<_>>() {
        none if none.is_empty() && !report.ended_early => Ok(()),
        none if none.is_empty() => Err(Failure::running("stopped before all experiments had run")),
        names => Err(Failure::running(format!(
            "{} measured nothing (see the reason above)",
            names.join(", ")
        ))),
    }
}

fn text(report: &AllReport) -> String {
    report.experiments.iter().fold(String::new(), |mut text, outcome| {
        let _ = writeln!(text, "{outcome}");
        text
    })
}

#[derive(Debug, Clone, Serialize)]
pub struct AllReport {
    pub schema: u32,
    pub command: String,
    pub duration_ns: u64,
    pub ended_early: bool,
    pub experiments: Vec<AllOutcome>,
}

const LOOK: Duration = Duration::from_millis(20);
/// Time for an interrupted experiment to write its report.
const GRACE: Duration = Duration::from_secs(20);

fn run_each(flags: &AllFlags, stop: &Stop) -> Result<AllReport, Failure> {
    let notify = |sentence: &str| {
        if flags.report != PlainKind::None {
            screen::notify(sentence);
        }
    };
    let begun = Instant::now();
    let steps = steps::needed(&flags.only);
    let mut report = AllReport {
        schema: 2,
        command: String::new(),
        duration_ns: 0,
        ended_early: false,
        experiments: Vec::new(),
    };
    for (number, step) in steps.iter().enumerate() {
        if stop.is_requested() {
            report.ended_early = true;
            break;
        }
        // Preparations belong to their experiment.
        let left = steps[number..].iter().filter(|step| step.is_experiment()).count();
        notify(&format!("{}: {} ({left} left)", step.name, step.does));
        let words = step.words(&flags.out, &flags.with);
        let began = Instant::now();
        let status = once(step, &words, &flags.out, stop)?;
        let took = began.elapsed();
        if !step.is_experiment() && status.success() {
            continue;
        }
        let outcome = AllOutcome::read(step, &words, &flags.out, status.success(), took);
        notify(&outcome.to_string());
        report.experiments.push(outcome);
    }
    report.duration_ns = begun.elapsed().as_nanos() as u64;
    Ok(report)
}

fn not_written(path: &Path, error: &std::io::Error) -> Failure {
    let path = path.display();
    Failure::running(format!("cannot write {path}: {error}\nhint: choose a writable folder"))
}

fn not_started(error: std::io::Error) -> Failure {
    Failure::running(format!(
        "cannot start taut: {error}\nhint: if its program file was moved or replaced, start taut lab all again"
    ))
}

fn once(
    step: &Experiment,
    words: &[String],
    folder: &Path,
    stop: &Stop,
) -> Result<ExitStatus, Failure> {
    let path = folder.join(step.log());
    let log = File::create(&path).map_err(|error| not_written(&path, &error))?;
    // Files of an earlier run.
    for left in step.leaves() {
        let path = folder.join(left);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(not_written(&path, &error));
            }
            _ => {}
        }
    }
    let program = std::env::current_exe().map_err(not_started)?;
    let mut command = Command::new(program);
    command
        .args(words)
        .args(step.reports(folder))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    // The experiment must get only one signal, from here: a second signal ends it without a report.
    let mut child = command.process_group(0).spawn().map_err(not_started)?;
    let mut reported: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait().map_err(not_started)? {
            return Ok(status);
        }
        match reported {
            None if stop.is_requested() => {
                reported = Some(Instant::now());
                interrupt(&mut child);
            }
            Some(since) if since.elapsed() > GRACE => {
                let _ = child.kill();
            }
            _ => {}
        }
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use tautline_trial::assert_shape;

    use super::*;

    #[test]
    fn help_gives_the_shape_of_the_json() {
        let measured = AllSummary { count: 1, p50_ns: None, p99_ns: None, max_ns: None };
        let row = AllRow {
            name: "core 0".to_owned(),
            invalid: None,
            configured_ns: None,
            uncertainty_ns: None,
            measured: Some(measured),
        };
        let outcome = AllOutcome {
            name: "stalls",
            does: "listens",
            command: "taut lab stalls".to_owned(),
            duration_ns: 1,
            page: None,
            rows: vec![row],
            failed: None,
        };
        let report = AllReport {
            schema: 2,
            command: "taut lab all".to_owned(),
            duration_ns: 1,
            ended_early: false,
            experiments: vec![outcome],
        };
        let json = serde_json::to_string(&report).unwrap();
        assert_shape(HELP, "{ \"schema\"", &json);
    }
}
