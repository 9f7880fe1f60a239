//! Whoever looks at a run from outside, by a local socket: each is told a [`Snapshot`] as a line of JSON,
//! ten times a second at most. The ordinary thread serves them; it waits for nobody.

mod place;

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use tautline_io::clock::now;
use tautline_io::link::muxed::CurrentTransport;
use tautline_io::local::{effective_user, peer_user};
use tautline_proto::time::{LocalTime, Span};
use tautline_report::snapshot::{SCHEMA, Snapshot};

pub use place::{is_private, places, process_of, sockets, sockets_in};

/// From one snapshot to the next: as fast as figures can be read.
const EVERY: Span = Span::from_millis(100);
/// Observers at once; more are sent away.
const MOST: usize = 4;

/// Why nobody can look. Its `Display` is a sentence.
#[derive(Debug, thiserror::Error)]
pub enum Unobservable {
    /// The folder is somebody else's, or others may look into it.
    #[error(
        "nobody can look at this run: {} is no folder of this user's alone (mode 0700); remove it, or \
         set XDG_RUNTIME_DIR to one",
        .0.display()
    )]
    Folder(PathBuf),
    /// The system refused the folder or the socket.
    #[error(
        "nobody can look at this run: {}: {error}; set XDG_RUNTIME_DIR to a folder of this user's \
         alone",
        path.display()
    )]
    System {
        /// What was to be made.
        path: PathBuf,
        /// What the system answered.
        error: io::Error,
    },
}

/// Those who look at one run. Clones are the same ones: what runs before the engine does, and the engine.
#[derive(Clone, Default)]
pub struct Observers {
    served: Option<Arc<Mutex<Served>>>,
    onlookers: Vec<Onlooker>,
    /// By what its packets go, where that may change.
    transport: Option<CurrentTransport>,
}

struct Served {
    role: &'static str,
    command: String,
    socket: PathBuf,
    listener: UnixListener,
    readers: Vec<SnapshotReader>,
    next: LocalTime,
}

impl Observers {
    /// Nobody can look.
    pub fn none() -> Self {
        Self::default()
    }

    /// Lets others of this user look at a run in this process: `send` or `recv`.
    pub fn open(role: &'static str) -> Result<Self, Unobservable> {
        let place = places().into_iter().next().unwrap_or_default();
        Self::open_in(&place, role)
    }

    /// The same by a socket in this folder, which is made if need be.
    pub fn open_in(folder: &Path, role: &'static str) -> Result<Self, Unobservable> {
        place::make(folder)?;
        place::sweep(folder);
        place::sweep_newborn(folder, SystemTime::now());
        let (listener, socket) = bind(folder)?;
        let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        let command = words.collect::<Vec<_>>().join(" ");
        let (readers, next) = (Vec::new(), LocalTime::ZERO);
        let served = Served { role, command, socket, listener, readers, next };
        Ok(Self { served: Some(Arc::new(Mutex::new(served))), ..Self::default() })
    }

    /// With one that looks from within this process, too.
    pub fn and(mut self, onlooker: Onlooker) -> Self {
        self.onlookers.push(onlooker);
        self
    }

    /// Says by what the packets of the run go, too, as that is when they are told.
    pub fn going_by(self, transport: CurrentTransport) -> Self {
        Self { transport: Some(transport), ..self }
    }

    /// Lets in who came and drops who went; whether anybody looks.
    pub fn are_here(&self) -> bool {
        let served = self.served.as_ref().is_some_and(|served| {
            let mut served = served.lock().unwrap_or_else(PoisonError::into_inner);
            served.meet(now());
            !served.readers.is_empty()
        });
        served || !self.onlookers.is_empty()
    }

    /// Tells them, if it is time to and anybody is here: how it stands, whatever process this is.
    pub fn tell(&self, standing: impl FnOnce() -> Snapshot) {
        let now = now();
        let mut served = self
            .served
            .as_ref()
            .map(|served| served.lock().unwrap_or_else(PoisonError::into_inner));
        let served = served.as_deref_mut().filter(|served| served.is_due(now));
        if served.is_none() && !self.onlookers.iter().any(|onlooker| onlooker.is_due(now)) {
            return;
        }
        let mut standing = standing();
        if let Some(transport) = self.transport.as_ref().and_then(CurrentTransport::name) {
            let streams = standing.streams.iter_mut();
            streams.for_each(|stream| stream.transport = Some(transport.to_owned()));
        }
        let due = self.onlookers.iter().filter(|onlooker| onlooker.is_due(now));
        due.for_each(|onlooker| onlooker.tell(now, &standing));
        if let Some(served) = served {
            served.tell(now, standing);
        }
    }
}

/// A socket of a name that no run has, also none of another process of our number, as one in a container
/// may be. One process may have several runs. It is born under a name that nobody looks for: between its
/// birth and the moment from which it is listened at, it would be taken for one that a dead process left.
fn bind(folder: &Path) -> Result<(UnixListener, PathBuf), Unobservable> {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    loop {
        let name = match RUNS.fetch_add(1, Ordering::Relaxed) {
            0 => format!("{}.sock", std::process::id()),
            more => format!("{}.{more}.sock", std::process::id()),
        };
        let socket = folder.join(name);
        if place::is_deserted(&socket) {
            // Left by a process of our number that ended without a chance to remove it.
            let _ = fs::remove_file(&socket);
        }
        // As long as the other: a path of a socket has a limit.
        let newborn = socket.with_extension("born");
        let opened = UnixListener::bind(&newborn).and_then(|listener| {
            let named =
                listener.set_nonblocking(true).and_then(|()| fs::hard_link(&newborn, &socket));
            let _ = fs::remove_file(&newborn);
            named.map(|()| listener)
        });
        match opened.map_err(|error| (error.kind(), error)) {
            Ok(listener) => return Ok((listener, socket)),
            Err((ErrorKind::AddrInUse | ErrorKind::AlreadyExists, _)) => {}
            Err((_, error)) => return Err(Unobservable::System { path: socket, error }),
        }
    }
}

impl Served {
    fn is_due(&self, now: LocalTime) -> bool {
        !self.readers.is_empty() && now >= self.next
    }

    fn tell(&mut self, now: LocalTime, standing: Snapshot) {
        self.next = now + EVERY;
        let snapshot = Snapshot {
            schema: SCHEMA,
            pid: std::process::id(),
            role: self.role.to_owned(),
            command: self.command.clone(),
            ..standing
        };
        // Plain values: there is nothing that JSON could not say.
        let Ok(mut line) = serde_json::to_vec(&snapshot) else { return };
        line.push(b'\n');
        self.readers.retain_mut(|reader| reader.tell(&line, now));
    }

    fn meet(&mut self, now: LocalTime) {
        self.readers.retain_mut(|reader| reader.goes_on(now));
        while let Ok((stream, _)) = self.listener.accept() {
            let ours = peer_user(&stream).is_ok_and(|user| user == effective_user() || user == 0);
            if ours && self.readers.len() < MOST {
                self.readers.extend(SnapshotReader::new(stream, now).ok());
            }
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = fs::remove_file(&self.socket);
    }
}

/// The newest that was told of a run. Clones look at the same one.
#[derive(Debug, Clone, Default)]
pub struct Onlooker(Arc<Mutex<Sight>>);

#[derive(Debug, Default)]
struct Sight {
    newest: Option<Snapshot>,
    next: Option<LocalTime>,
}

impl Onlooker {
    fn sight<T>(&self, see: impl FnOnce(&mut Sight) -> T) -> T {
        see(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How the run stands, if that was told since this was asked last. For ordinary threads.
    pub fn newest(&self) -> Option<Snapshot> {
        self.sight(|sight| sight.newest.take())
    }

    fn is_due(&self, now: LocalTime) -> bool {
        self.sight(|sight| sight.next.is_none_or(|next| now >= next))
    }

    fn tell(&self, now: LocalTime, standing: &Snapshot) {
        self.sight(|sight| {
            (sight.newest, sight.next) = (Some(standing.clone()), Some(now + EVERY));
        });
    }
}

/// Who takes nothing for so long is dropped.
const PATIENCE: Span = Span::from_secs(2);

/// One observer: a line at a time, and nothing more until that was taken.
struct SnapshotReader {
    stream: UnixStream,
    /// What is left of a line that was begun.
    rest: Vec<u8>,
    took: LocalTime,
}

impl SnapshotReader {
    fn new(stream: UnixStream, now: LocalTime) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, rest: Vec::new(), took: now })
    }

    /// Goes on with what is left; whether it is still there.
    fn goes_on(&mut self, now: LocalTime) -> bool {
        self.is_there() && self.write(now)
    }

    /// Tells it a line, unless the one before is not taken yet; whether it is still there.
    fn tell(&mut self, line: &[u8], now: LocalTime) -> bool {
        if self.rest.is_empty() {
            // It has waited for this line and not the line for it.
            self.took = now;
            self.rest.extend_from_slice(line);
        }
        self.write(now)
    }

    fn write(&mut self, now: LocalTime) -> bool {
        while !self.rest.is_empty() {
            match self.stream.write(&self.rest) {
                Ok(0) => return false,
                Ok(taken) => {
                    self.rest.drain(..taken);
                    self.took = now;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return now - self.took < PATIENCE;
                }
                Err(_) => return false,
            }
        }
        true
    }

    /// Whether it has not hung up. What it says is of no interest.
    fn is_there(&mut self) -> bool {
        let mut said = [0; 64];
        match self.stream.read(&mut said) {
            Ok(0) => false,
            Ok(_) => true,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }
}

#[cfg(test)]
mod tests;
