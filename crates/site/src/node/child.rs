//! A process of a node, with its pipes.

use std::io::{self, BufRead as _, BufReader, Lines, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tautline_io::clock::now;
use tautline_proto::time::LocalTime;

/// Lines of standard error that are kept: a message and its hints.
const KEPT: usize = 20;
/// Lines that wait for the process to read them. A process with more unread lines hangs.
const UNREAD: usize = 1000;

/// The process leads a process group, so that its own children end with it. Otherwise they would
/// keep its pipes open.
pub(super) struct RunningChild {
    child: Child,
    input: Option<SyncSender<String>>,
    /// Time of its newest line.
    pub(super) reported: LocalTime,
}

/// Lines of the process, until it closes standard output.
pub(super) struct ChildLines {
    lines: Lines<BufReader<ChildStdout>>,
    errors: Option<JoinHandle<Vec<String>>>,
}

impl RunningChild {
    /// Starts the process, with a first line for its standard input.
    pub(super) fn start(mut command: Command, first: &str) -> io::Result<(Self, ChildLines)> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.process_group(0).spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(error)) = pipes else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let errors = thread("taut-errors").spawn(move || newest_lines(error))?;
        let (sender, unread) = sync_channel(UNREAD);
        thread("taut-input").spawn(move || write_lines(input, &unread))?;
        let mut child = Self { child, input: Some(sender), reported: now() };
        child.tell(first);
        let lines = BufReader::new(output).lines();
        Ok((child, ChildLines { lines, errors: Some(errors) }))
    }

    /// Sends a line without blocking. Drops the line if the process has ended. Kills a process with
    /// too many unread lines; the process gets the changes when it restarts.
    pub(super) fn tell(&mut self, line: &str) {
        let sent = self.input.as_ref().map(|input| input.try_send(format!("{line}\n")));
        if let Some(Err(std::sync::mpsc::TrySendError::Full(_))) = sent {
            self.kill();
        }
    }

    /// Closes the standard input of the process, which ends the process.
    pub(super) fn end(&mut self) {
        self.input = None;
    }

    /// Whether the node ended it.
    pub(super) const fn has_no_input(&self) -> bool {
        self.input.is_none()
    }

    /// Kills it and its children.
    pub(super) fn kill(&self) {
        // The process number stays reserved until `fault` or `drop` waits for the process.
        let _ = kill_process_group(self.id(), Signal::KILL);
    }

    /// Whether the process ended. Its children may still run.
    pub(super) fn is_over(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(self.id()), look), Ok(None))
    }

    pub(super) fn id(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Why the process ended: its own error with the fix, or its exit status.
    pub(super) fn fault(mut self, errors: &[String]) -> String {
        let status = self.child.wait();
        let error = errors.iter().rposition(|line| line.starts_with("error: "));
        match (error.map(|at| &errors[at..]), status) {
            (Some([error, rest @ ..]), _) => {
                let hint = rest.iter().find_map(|line| line.strip_prefix("hint: "));
                let hint = hint.map_or(String::new(), |hint| format!("; {hint}"));
                error.trim_start_matches("error: ").to_owned() + &hint
            }
            (_, Ok(status)) => format!("its process ended: {status}"),
            (_, Err(error)) => format!("its process ended: {error}"),
        }
    }
}

impl ChildLines {
    /// The next line; `None` at the end.
    pub(super) fn next(&mut self) -> Option<String> {
        self.lines.next()?.ok()
    }

    /// Newest lines of standard error. Waits until standard error is closed.
    pub(super) fn errors(&mut self) -> Vec<String> {
        let errors = self.errors.take().map(JoinHandle::join);
        errors.and_then(Result::ok).unwrap_or_default()
    }
}

/// The thread ends with the process, or once no more lines can come.
fn write_lines(mut input: ChildStdin, lines: &Receiver<String>) {
    while lines.recv().is_ok_and(|line| input.write_all(line.as_bytes()).is_ok()) {}
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
