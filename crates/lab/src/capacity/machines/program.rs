//! A program that runs beside, and is ended with what needs it.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::signals::interrupt;

/// It is asked to end when it is dropped, and ended if it does not.
#[derive(Debug)]
pub(super) struct WorkerProgram {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl WorkerProgram {
    pub(super) fn start(mut command: Command) -> Result<Self, String> {
        let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let failed = |why: String| format!("starting {}: {why}", command_line(&command));
        let mut child = started.map_err(|error| failed(error.to_string()))?;
        let out = child.stdout.take().ok_or_else(|| failed("it has no output".to_owned()))?;
        Ok(Self { child, out: BufReader::new(out) })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line that it says.
    pub(super) fn says(&mut self, what: &str) -> Result<String, String> {
        let mut line = String::new();
        match self.out.read_line(&mut line) {
            Ok(bytes) if bytes > 0 => Ok(line),
            _ => Err(format!("a program ended before it said {what}; its words are above")),
        }
    }
}

fn command_line(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

impl Drop for WorkerProgram {
    fn drop(&mut self) {
        interrupt(&mut self.child);
        if self.child.try_wait().ok().flatten().is_none() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
