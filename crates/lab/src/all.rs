//! `taut lab all`: every experiment once, shortly, each as a program of its own, and one page that leads
//! to their pages.
//!
//! Each is run as anybody would run it alone, so that the page's commands repeat its figures: this starts
//! them one after the other, reads what they wrote, and measures nothing.

mod outcome;
mod steps;

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;
use thiserror::Error;

use crate::hosts::HostPlace;
use crate::signals::interrupt;

pub use outcome::{AllOutcome, AllRow, AllSummary};
pub use steps::{AllStep, STEPS};

/// How all of them are run.
#[derive(Debug, Clone)]
pub struct AllOptions {
    /// The folder that takes the reports; it is there.
    pub folder: PathBuf,
    /// Where the receiver is of those that send a stream.
    pub with: HostPlace,
    /// Only these, and what they need; all of them if there is none.
    pub only: Vec<&'static AllStep>,
}

/// What all of them found.
#[derive(Debug, Clone, Serialize)]
pub struct AllReport {
    /// Version of these names.
    pub schema: u32,
    /// How it was asked for.
    pub command: String,
    /// From the first to the last.
    pub duration_ns: u64,
    /// Whether it was to end before all of them had run.
    pub ended_early: bool,
    /// In the order in which they ran.
    pub experiments: Vec<AllOutcome>,
}

/// Why all of them end early; ends with the mend.
#[derive(Debug, Error)]
pub enum AllError {
    /// Nothing can be written there.
    #[error("writing {}: {error}; name a folder that you may write in", path.display())]
    NotWritten {
        /// What was to be written.
        path: PathBuf,
        /// What the system answered.
        error: std::io::Error,
    },
    /// The program cannot start itself.
    #[error("starting taut: {0}; is it still where it was?")]
    NotStarted(std::io::Error),
}

/// From one look at a running experiment to the next.
const LOOK: Duration = Duration::from_millis(20);
/// An experiment that was told to end writes its report; one that has not by then is ended for good.
const GRACE: Duration = Duration::from_secs(20);

/// Runs them; `tell` is given what begins with how many are left, then what it came to. Once `stop` says
/// so, the one that runs is told to end and no other begins.
pub fn run(
    options: &AllOptions,
    stop: &dyn Fn() -> bool,
    mut tell: impl FnMut(&str),
) -> Result<AllReport, AllError> {
    let begun = Instant::now();
    let steps = steps::needed(&options.only);
    let mut report = AllReport {
        schema: 1,
        command: String::new(),
        duration_ns: 0,
        ended_early: false,
        experiments: Vec::new(),
    };
    for (number, step) in steps.iter().enumerate() {
        if stop() {
            report.ended_early = true;
            break;
        }
        // What one needs is a part of it.
        let left = steps[number..].iter().filter(|step| step.is_experiment()).count();
        tell(&format!("{}: {} ({left} left)", step.name, step.does()));
        let words = step.words(&options.folder, &options.with);
        let began = Instant::now();
        let status = once(step, &words, &options.folder, stop)?;
        let took = began.elapsed();
        if !step.is_experiment() && status.success() {
            continue;
        }
        let outcome = AllOutcome::read(step, &words, &options.folder, status.success(), took);
        tell(&outcome.to_string());
        report.experiments.push(outcome);
    }
    report.duration_ns = begun.elapsed().as_nanos() as u64;
    Ok(report)
}

/// Runs one; what it says on the way is kept beside its report.
fn once(
    step: &AllStep,
    words: &[String],
    folder: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<ExitStatus, AllError> {
    let path = folder.join(step.log());
    let log = File::create(&path).map_err(|error| AllError::NotWritten { path, error })?;
    // What an earlier run left must not be taken for this one's.
    for left in step.leaves() {
        let path = folder.join(left);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(AllError::NotWritten { path, error });
            }
            _ => {}
        }
    }
    let program = std::env::current_exe().map_err(AllError::NotStarted)?;
    let mut command = Command::new(program);
    command
        .args(words)
        .args(step.reports(folder))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    // What a terminal tells this at Ctrl-C, the experiment is told once, by this: told twice it would end
    // without its report.
    let mut child = command.process_group(0).spawn().map_err(AllError::NotStarted)?;
    let mut told: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait().map_err(AllError::NotStarted)? {
            return Ok(status);
        }
        match told {
            None if stop() => {
                told = Some(Instant::now());
                interrupt(&mut child);
            }
            Some(since) if since.elapsed() > GRACE => {
                // It may have ended just now.
                let _ = child.kill();
            }
            _ => {}
        }
        // Nothing is measured here; the experiment is another program.
        std::thread::sleep(LOOK);
    }
}
