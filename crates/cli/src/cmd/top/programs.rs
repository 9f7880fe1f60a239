//! Runs on this machine, with their newest snapshots.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use tautline_engine::monitor::observers::process_of;
use tautline_io::local::connect;
use tautline_proto::time::{LocalTime, Span};
use tautline_report::snapshot::{SCHEMA, Snapshot, StreamSnapshot};

/// Maximum line length: over a thousand streams.
const LONGEST: usize = 8 << 20;
/// Timeout of a program. A silent program is stopped, or is not taut.
const TIMEOUT: Span = Span::from_secs(1);

#[derive(Default)]
pub(super) struct Programs(BTreeMap<PathBuf, Program>);

pub(super) struct Program {
    /// Process ID, from the name of the socket.
    pub(super) process: u32,
    stream: Option<UnixStream>,
    begun: Vec<u8>,
    received: Option<LocalTime>,
    silent: bool,
    reported: Option<Reported>,
    flaw: Option<String>,
}

struct Reported {
    snapshot: Snapshot,
    /// The snapshot, with fields unknown to this version.
    value: Value,
}

impl Programs {
    pub(super) fn look(&mut self, sockets: &[PathBuf]) {
        self.0.retain(|socket, _| sockets.contains(socket));
        for socket in sockets {
            // Another run may have this socket now.
            let known = self.0.remove(socket);
            let flaw = known.as_ref().and_then(|known| known.flaw.clone());
            let open = known.filter(|known| known.stream.is_some());
            let anew = || Some(Program::connect(process_of(socket)?, socket, flaw));
            self.0.extend(open.or_else(anew).map(|program| (socket.clone(), program)));
        }
    }

    /// Never waits.
    pub(super) fn handle(&mut self, now: LocalTime) {
        self.0.values_mut().for_each(|program| program.handle(now));
    }

    /// Whether every run has reported a whole second, or an error.
    pub(super) fn have_reported_all(&self) -> bool {
        let whole = |stream: &StreamSnapshot| stream.second.interval_ns >= 1_000_000_000;
        self.0.values().all(|program| match &program.reported {
            _ if program.flaw.is_some() => true,
            // A run that waits for a sender has no more to report.
            Some(Reported { snapshot, .. }) => {
                snapshot.elapsed_ns == 0 || snapshot.streams.iter().all(whole)
            }
            None => false,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn streams(&self) -> impl Iterator<Item = (&Snapshot, &StreamSnapshot)> {
        let reported = self.0.values().filter_map(|program| program.reported.as_ref());
        reported.flat_map(|Reported { snapshot, .. }| {
            snapshot.streams.iter().map(move |stream| (snapshot, stream))
        })
    }

    pub(super) fn runs(&self) -> impl Iterator<Item = &Snapshot> {
        self.0
            .values()
            .filter_map(|program| program.reported.as_ref())
            .map(|reported| &reported.snapshot)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Value> {
        self.0
            .values()
            .filter_map(|program| program.reported.as_ref())
            .map(|reported| &reported.value)
    }

    pub(super) fn unread(&self) -> impl Iterator<Item = (&Path, u32, &str)> {
        self.0.iter().filter_map(|(socket, program)| {
            let silent = program.silent.then_some("no data: it may be stopped");
            let why = program.flaw.as_deref().or(silent)?;
            Some((socket.as_path(), program.process, why))
        })
    }
}

impl Program {
    fn connect(process: u32, socket: &Path, flaw: Option<String>) -> Self {
        let (stream, flaw) = match connect(socket) {
            Ok(stream) => (Some(stream), flaw),
            Err(error) => (None, Some(format!("cannot connect: {error}"))),
        };
        let (begun, received, silent, reported) = (Vec::new(), None, false, None);
        Self { process, stream, begun, received, silent, reported, flaw }
    }

    fn handle(&mut self, now: LocalTime) {
        let received = *self.received.get_or_insert(now);
        let mut room = [0; 1 << 16];
        while let Some(stream) = &mut self.stream {
            match stream.read(&mut room) {
                Ok(0) => self.end("it ended, or has the maximum number of observers"),
                Ok(bytes) => {
                    (self.received, self.silent) = (Some(now), false);
                    self.take(&room[..bytes]);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if now - received > TIMEOUT {
                        (self.reported, self.silent) = (None, true);
                    }
                    return;
                }
                Err(error) => self.end(&error.to_string()),
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map(|end| self.begun.len() + end);
        self.begun.extend_from_slice(bytes);
        if let Some(end) = end {
            let rest = self.begun.split_off(end + 1);
            let lines = core::mem::replace(&mut self.begun, rest);
            let line = lines[..end].rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
            match read(line) {
                Ok(reported) => (self.reported, self.flaw) = (Some(reported), None),
                Err(why) => self.end(&why),
            }
        } else if self.begun.len() > LONGEST {
            self.end("too much data: not a taut");
        }
    }

    fn end(&mut self, why: &str) {
        self.flaw = Some(why.to_owned());
        (self.stream, self.reported, self.begun) = (None, None, Vec::new());
    }
}

fn read(line: &[u8]) -> Result<Reported, String> {
    let no_snapshot = |error: serde_json::Error| format!("invalid snapshot: {error}");
    let value: Value = serde_json::from_slice(line).map_err(no_snapshot)?;
    let schema = &value["schema"];
    if *schema != SCHEMA {
        return Err(format!("schema {schema} instead of {SCHEMA}: another version of taut"));
    }
    let snapshot = Snapshot::deserialize(&value).map_err(no_snapshot)?;
    Ok(Reported { snapshot, value })
}
