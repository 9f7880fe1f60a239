//! Speech of `taut say`, by another program.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tautline_io::clock::{now, sleep_until};
use tautline_proto::time::Span;

use crate::failure::Failure;

/// Timeout of the speech program.
const LIMIT: Span = Span::from_secs(30);
/// Largest speech: 11 minutes of stereo with 32 bits at 48 kHz.
const MAX_BYTES: u64 = 256 << 20;
/// Longest text: a pipe has room for it, so that a program that does not read it cannot block us.
const MAX_TEXT: usize = 32 << 10;
/// Longest shown error of the program.
const MAX_ERROR: u64 = 400;

/// Writes the speech of `text` to `file`. `command` is for the shell; it reads the text from
/// standard input and writes a WAV file to standard output.
pub(super) fn speech(command: &str, text: &str, file: &Path) -> Result<(), Failure> {
    speech_within(command, text, file, LIMIT)
}

pub(super) fn speech_within(
    command: &str,
    text: &str,
    file: &Path,
    limit: Span,
) -> Result<(), Failure> {
    if text.trim().is_empty() || text.len() > MAX_TEXT {
        let bytes = text.len();
        return Err(Failure::usage(format!(
            "invalid text: {bytes} bytes, must be 1 to {MAX_TEXT}"
        )));
    }
    let failed = |why: String| Failure::running(format!("speech by '{command}': {why}"));
    let create = |path: &Path| File::create(path).map_err(|error| failed(error.to_string()));
    // Standard error goes to a file: a program that writes much to a pipe without a reader would
    // hang.
    let log = file.with_extension("log");
    let (output, errors) = (create(file)?, create(&log)?);
    let mut child = Command::new("sh")
        .args(["-c", command])
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(output)
        .stderr(errors)
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let group = Pid::from_child(&child);
    let waited = wait(&mut child, text, file, limit);
    // Children of the program may keep running.
    let _ = kill_process_group(group, Signal::KILL);
    let status = child.wait().map_err(|error| failed(error.to_string()))?;
    waited.map_err(failed)?;
    if status.success() {
        return match file.metadata().map_or(0, |file| file.len()) {
            0 => Err(failed("it wrote no sound to standard output".to_owned())),
            _ => Ok(()),
        };
    }
    let mut error = Vec::new();
    if let Ok(log) = File::open(&log) {
        let _ = log.take(MAX_ERROR).read_to_end(&mut error);
    }
    let last = String::from_utf8_lossy(&error)
        .lines()
        .last()
        .map_or_else(|| status.to_string(), str::to_owned);
    // The shell's status for a command that it does not find.
    let hint = match (status.code(), command.split_whitespace().next()) {
        (Some(127), Some("espeak-ng")) => "\nhint: apt install espeak-ng, or write --command",
        (Some(127), _) => "\nhint: install the program, or write another --command",
        _ => "",
    };
    Err(failed(format!("{last}{hint}")))
}

fn wait(child: &mut Child, text: &str, file: &Path, limit: Span) -> Result<(), String> {
    let ends = now() + limit;
    if let Some(mut input) = child.stdin.take() {
        match input.write_all(text.as_bytes()) {
            // A program may know its text already.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => return Err(error.to_string()),
            _ => {}
        }
    }
    while child.try_wait().map_err(|error| error.to_string())?.is_none() {
        if now() >= ends {
            return Err(format!("not complete within {limit}"));
        }
        if file.metadata().is_ok_and(|file| file.len() > MAX_BYTES) {
            return Err(format!("more than {} MiB", MAX_BYTES >> 20));
        }
        sleep_until(now() + Span::from_millis(5));
    }
    Ok(())
}
