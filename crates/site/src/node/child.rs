//! A process of a node, with its pipes.

use std::io::{self, BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

use tautline_io::clock::now;
use tautline_proto::time::LocalTime;

/// Lines of standard error that are kept: a message and its hints.
const KEPT: usize = 20;

pub(super) struct RunningChild {
    child: Child,
    input: Option<ChildStdin>,
    /// Time of its newest line.
    pub(super) reported: LocalTime,
}

/// Its lines, until it closes standard output.
pub(super) struct ChildLines {
    lines: Lines<BufReader<ChildStdout>>,
    errors: Option<JoinHandle<Vec<String>>>,
}

impl RunningChild {
    /// Starts it, with a first line for its standard input.
    pub(super) fn start(mut command: Command, first: &str) -> io::Result<(Self, ChildLines)> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(error)) = pipes else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let errors = std::thread::Builder::new()
            .name("taut-errors".to_owned())
            .spawn(move || newest_lines(error))?;
        let mut child = Self { child, input: Some(input), reported: now() };
        child.tell(first);
        let lines = BufReader::new(output).lines();
        Ok((child, ChildLines { lines, errors: Some(errors) }))
    }

    /// Writes a line. A process that has ended takes none.
    pub(super) fn tell(&mut self, line: &str) {
        if let Some(input) = &mut self.input {
            let _ = input.write_all(format!("{line}\n").as_bytes());
        }
    }

    /// Closes its standard input, which ends it.
    pub(super) fn end(&mut self) {
        self.input = None;
    }

    pub(super) fn kill(&mut self) {
        let _ = self.child.kill();
    }

    /// Why it ended: its own error, or its exit status.
    pub(super) fn fault(mut self, errors: &[String]) -> String {
        self.input = None;
        let status = self.child.wait();
        let message = errors.iter().rev().find_map(|line| line.strip_prefix("error: "));
        match (message, status) {
            (Some(message), _) => message.to_owned(),
            (None, Ok(status)) => format!("its process ended: {status}"),
            (None, Err(error)) => format!("its process ended: {error}"),
        }
    }
}

impl ChildLines {
    /// The next line; `None` at the end.
    pub(super) fn next(&mut self) -> Option<String> {
        self.lines.next()?.ok()
    }

    /// Newest lines of standard error, once it is closed.
    pub(super) fn errors(&mut self) -> Vec<String> {
        let errors = self.errors.take().map(JoinHandle::join);
        errors.and_then(Result::ok).unwrap_or_default()
    }
}

fn newest_lines(error: ChildStderr) -> Vec<String> {
    let mut newest = Vec::new();
    for line in BufReader::new(error).lines().map_while(Result::ok) {
        if newest.len() == KEPT {
            newest.remove(0);
        }
        newest.push(line);
    }
    newest
}
