//! A running program, with its standard output as a pipe for the audio device.

use std::io::{self, BufRead as _, BufReader, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{Builder, park_timeout};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tautline_audio::{DeviceSpec, SoftwareSpec};
use tautline_proto::text::printable;
use tautline_proto::time::Span;

use super::{LocalError, LocalSource};
use crate::Error;

/// Maximum characters of a line of standard error.
const MAX_LINE: usize = 200;
/// Timeout for the end of a program that closed its output.
const ENDS: Duration = Duration::from_secs(1);

/// The program belongs to the process group of its source's process. The node kills this group.
pub(crate) struct LocalProgram {
    source: LocalSource,
    child: Child,
    /// The device opens the pipe by its descriptor number.
    pipe: PipeReader,
    /// How the output ended.
    ended: Receiver<Output>,
    /// Last line of standard error.
    errors: Receiver<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    Closed,
    Stalled,
}

impl LocalProgram {
    /// Starts it in a shell.
    pub(crate) fn start(source: LocalSource) -> Result<Self, LocalError> {
        let command = source.command.clone();
        Self::spawn(source).map_err(|error| LocalError::NotStarted(command, error))
    }

    fn spawn(source: LocalSource) -> io::Result<Self> {
        let (pipe, sound) = io::pipe()?;
        let mut command = Command::new("sh");
        command.args(["-c", &source.command]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (output, error) = (child.stdout.take(), child.stderr.take());
        let (Some(output), Some(error)) = (output, error) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let (sender, ended) = channel();
        let header = source.raw.map_or(Vec::new(), |raw| raw.header());
        let timeout = source.timeout;
        let forward = move || sender.send(forward(output, sound, &header, timeout));
        Builder::new().name("taut-program".to_owned()).spawn(forward)?;
        let (sender, errors) = channel();
        let read = move || sender.send(last_line(error));
        Builder::new().name("taut-errors".to_owned()).spawn(read)?;
        Ok(Self { source, child, pipe, ended, errors })
    }

    /// Device that captures the program's sound.
    pub(crate) fn device(&self) -> DeviceSpec {
        let path = PathBuf::from(format!("/dev/fd/{}", self.pipe.as_raw_fd()));
        DeviceSpec::Software(SoftwareSpec::File(path.into()))
    }

    /// Exit status, if the program ends soon.
    fn status(&mut self) -> Option<String> {
        let end = Instant::now() + ENDS;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status.to_string()),
                Ok(None) if Instant::now() < end => park_timeout(Duration::from_millis(20)),
                _ => return None,
            }
        }
    }

    /// Why the sound ended, with the error of the device.
    pub(crate) fn fault(mut self, sent: Result<(), Error>) -> Error {
        let command = self.source.command.clone();
        let output = self.ended.recv_timeout(ENDS).ok();
        match (output, sent, self.source.timeout) {
            (Some(Output::Stalled), _, Some(time)) => LocalError::Stalled { command, time }.into(),
            (None, Err(Error::Device(error)), _) => {
                LocalError::NotSound { command, why: error.answer }.into()
            }
            (None, Err(error), _) => error,
            _ => {
                let said = self.errors.recv_timeout(ENDS).unwrap_or_default();
                let how = self.status().unwrap_or_else(|| "it closed standard output".to_owned());
                let how = if said.is_empty() { how } else { format!("{how}: {said}") };
                LocalError::Ended { command, how }.into()
            }
        }
    }
}

/// Passes the output on until it ends, or until the program writes nothing for `timeout`. A full
/// pipe makes the program wait.
fn forward(
    mut output: ChildStdout,
    mut sound: PipeWriter,
    header: &[u8],
    timeout: Option<Span>,
) -> Output {
    let mut bytes = vec![0; 16 * 1024];
    let mut passed = sound.write_all(header);
    while passed.is_ok() {
        if !is_readable(&output, timeout) {
            return Output::Stalled;
        }
        passed = match output.read(&mut bytes) {
            Ok(0) => return Output::Closed,
            Ok(count) => sound.write_all(&bytes[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        };
    }
    Output::Closed
}

/// Waits for bytes or the end.
fn is_readable(output: &impl AsFd, timeout: Option<Span>) -> bool {
    let timeout = timeout.map(|span| {
        let nanos = span.as_nanos();
        Timespec { tv_sec: nanos / 1_000_000_000, tv_nsec: nanos % 1_000_000_000 }
    });
    let mut events = [PollFd::new(output, PollFlags::IN)];
    // After an error, the next read reports the error.
    !matches!(poll(&mut events, timeout.as_ref()), Ok(0))
}

/// Last line with text. Progress bars end their lines with carriage returns.
fn last_line(error: ChildStderr) -> String {
    let (mut last, mut line) = (String::new(), Vec::new());
    let mut error = BufReader::new(error);
    let mut keep = |line: &mut Vec<u8>| {
        let text = String::from_utf8_lossy(line);
        if !text.trim().is_empty() {
            last = printable(text.trim(), MAX_LINE);
        }
        line.clear();
    };
    while let Ok(bytes @ [_, ..]) = error.fill_buf() {
        let count = bytes.len();
        for byte in bytes {
            match byte {
                b'\n' | b'\r' => keep(&mut line),
                // A line without an end is cut.
                byte if line.len() < 4 * MAX_LINE => line.push(*byte),
                _ => {}
            }
        }
        error.consume(count);
    }
    keep(&mut line);
    last
}

#[cfg(test)]
mod tests {
    use tautline_audio::{Wanted, probe};

    use super::*;

    fn program(command: &str, timeout: Option<Span>) -> LocalProgram {
        let source = LocalSource { command: command.to_owned(), raw: None, timeout };
        LocalProgram::start(source).unwrap()
    }

    fn nothing() -> Result<(), Error> {
        Err(Error::Ended("no sound".to_owned()))
    }

    #[track_caller]
    fn ended(program: LocalProgram) -> String {
        match program.fault(nothing()) {
            Error::Local(LocalError::Ended { how, .. }) => how,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn end_has_the_status_and_the_last_line_of_errors() {
        let long = "x".repeat(9000);
        let last = program(&format!("printf '{long}\\none\\rtwo\\n\\n' >&2; exit 3"), None);
        assert_eq!(ended(last), "exit status: 3: two");
        assert_eq!(ended(program("exit 0", None)), "exit status: 0");
        assert!(ended(program("kill -9 $$", None)).contains("signal: 9"));
        assert!(ended(program(&format!("printf {long} >&2"), None)).len() < 300);
    }

    #[test]
    fn program_without_output_stalls() {
        let time = Span::from_millis(50);
        let mut stalled = program("exec sleep 1000", Some(time));
        let id = rustix::process::Pid::from_child(&stalled.child);
        let output = stalled.ended.recv().unwrap();
        assert_eq!(output, Output::Stalled);
        rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
        stalled.child.wait().unwrap();
    }

    #[test]
    fn output_can_be_captured_and_other_output_is_named() {
        let raw = super::super::RawSound {
            format: super::super::RawFormat::S16le,
            hertz: 22_050,
            channels: 1,
        };
        let source = LocalSource { command: "cat /dev/zero".into(), raw: Some(raw), timeout: None };
        let zeros = LocalProgram::start(source).unwrap();
        let wanted = Wanted::default();
        let found = probe(&zeros.device().fitted(), wanted).unwrap().unwrap();
        assert_eq!((found.rate.hertz(), found.channels.count()), (48_000, 2));
        let text = program("exec yes", None);
        let error = probe(&text.device().fitted(), wanted).unwrap_err();
        let fault = text.fault(Err(error.into()));
        assert!(matches!(fault, Error::Local(LocalError::NotSound { .. })), "{fault}");
    }
}
