//! The runs of this machine, and what each told last.

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

/// The longest line that is read: more than that of a thousand streams.
const LONGEST: usize = 8 << 20;
/// Who says nothing for so long is stopped, or no taut.
const PATIENCE: Span = Span::from_secs(1);

#[derive(Default)]
pub(super) struct Programs(BTreeMap<PathBuf, Program>);

pub(super) struct Program {
    /// Its process, by the name of its socket.
    pub(super) process: u32,
    stream: Option<UnixStream>,
    /// The line that it has begun.
    begun: Vec<u8>,
    /// When it said anything; first when it was connected.
    heard: Option<LocalTime>,
    /// Whether that is too long ago.
    silent: bool,
    told: Option<Told>,
    /// Why nothing of it can be shown.
    flaw: Option<String>,
}

struct Told {
    snapshot: Snapshot,
    /// The same as it was told, with what this taut does not know.
    value: Value,
}

impl Programs {
    /// Connects those that are new, and forgets those whose socket is gone.
    pub(super) fn look(&mut self, sockets: &[PathBuf]) {
        self.0.retain(|socket, _| sockets.contains(socket));
        for socket in sockets {
            // One that ended, or sent this away, may be another by now.
            let known = self.0.remove(socket);
            let flaw = known.as_ref().and_then(|known| known.flaw.clone());
            let open = known.filter(|known| known.stream.is_some());
            let anew = || Some(Program::connect(process_of(socket)?, socket, flaw));
            self.0.extend(open.or_else(anew).map(|program| (socket.clone(), program)));
        }
    }

    /// Takes what all have said by `now`. Waits for nobody.
    pub(super) fn hear(&mut self, now: LocalTime) {
        self.0.values_mut().for_each(|program| program.hear(now));
    }

    /// Whether each has told all that it can: figures of a whole second, or why not.
    pub(super) fn have_told_all(&self) -> bool {
        let whole = |stream: &StreamSnapshot| stream.second.over_ns >= 1_000_000_000;
        self.0.values().all(|program| match &program.told {
            _ if program.flaw.is_some() => true,
            // While a sender is waited for there is no more to tell.
            Some(Told { snapshot, .. }) => {
                snapshot.elapsed_ns == 0 || snapshot.streams.iter().all(whole)
            }
            None => false,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Every stream, and whose it is.
    pub(super) fn streams(&self) -> impl Iterator<Item = (&Snapshot, &StreamSnapshot)> {
        let told = self.0.values().filter_map(|program| program.told.as_ref());
        told.flat_map(|Told { snapshot, .. }| {
            snapshot.streams.iter().map(move |stream| (snapshot, stream))
        })
    }

    /// The newest snapshot of each run.
    pub(super) fn runs(&self) -> impl Iterator<Item = &Snapshot> {
        self.0.values().filter_map(|program| program.told.as_ref()).map(|told| &told.snapshot)
    }

    /// What was told last, by each that told something.
    pub(super) fn values(&self) -> impl Iterator<Item = &Value> {
        self.0.values().filter_map(|program| program.told.as_ref()).map(|told| &told.value)
    }

    /// The sockets of which nothing can be shown, each with the process that its name says, and why.
    pub(super) fn unread(&self) -> impl Iterator<Item = (&Path, u32, &str)> {
        self.0.iter().filter_map(|(socket, program)| {
            let silent = program.silent.then_some("it says nothing: is it stopped?");
            let why = program.flaw.as_deref().or(silent)?;
            Some((socket.as_path(), program.process, why))
        })
    }
}

impl Program {
    /// What was known to be wrong with it is so until it says something.
    fn connect(process: u32, socket: &Path, flaw: Option<String>) -> Self {
        let (stream, flaw) = match connect(socket) {
            Ok(stream) => (Some(stream), flaw),
            Err(error) => (None, Some(format!("it cannot be reached: {error}"))),
        };
        let (begun, heard, silent, told) = (Vec::new(), None, false, None);
        Self { process, stream, begun, heard, silent, told, flaw }
    }

    fn hear(&mut self, now: LocalTime) {
        let heard = *self.heard.get_or_insert(now);
        let mut room = [0; 1 << 16];
        while let Some(stream) = &mut self.stream {
            match stream.read(&mut room) {
                Ok(0) => self.end("it ended, or has as many observers as it takes"),
                Ok(bytes) => {
                    (self.heard, self.silent) = (Some(now), false);
                    self.take(&room[..bytes]);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // What it told last is not how it stands now.
                    if now - heard > PATIENCE {
                        (self.told, self.silent) = (None, true);
                    }
                    return;
                }
                Err(error) => self.end(&error.to_string()),
            }
        }
    }

    /// The newest whole line counts.
    fn take(&mut self, bytes: &[u8]) {
        // Earlier bytes hold no end of a line: they were searched when they arrived.
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map(|end| self.begun.len() + end);
        self.begun.extend_from_slice(bytes);
        if let Some(end) = end {
            let rest = self.begun.split_off(end + 1);
            let lines = core::mem::replace(&mut self.begun, rest);
            let line = lines[..end].rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
            match read(line) {
                Ok(told) => (self.told, self.flaw) = (Some(told), None),
                Err(why) => self.end(&why),
            }
        } else if self.begun.len() > LONGEST {
            self.end("it says more than anybody reads: it is no taut");
        }
    }

    fn end(&mut self, why: &str) {
        self.flaw = Some(why.to_owned());
        (self.stream, self.told, self.begun) = (None, None, Vec::new());
    }
}

/// What a line says.
fn read(line: &[u8]) -> Result<Told, String> {
    let no_snapshot = |error: serde_json::Error| format!("what it says is no snapshot: {error}");
    let value: Value = serde_json::from_slice(line).map_err(no_snapshot)?;
    let schema = &value["schema"];
    if *schema != SCHEMA {
        return Err(format!("it tells schema {schema} and not {SCHEMA}: it is another taut"));
    }
    let snapshot = Snapshot::deserialize(&value).map_err(no_snapshot)?;
    Ok(Told { snapshot, value })
}
