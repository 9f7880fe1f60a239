//! Serves observers at a local socket: a [`Snapshot`] per JSON line, at most ten a second. Runs on
//! the ordinary thread, without blocking.

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

/// Minimum interval of figures. People cannot read them faster.
const EVERY: Span = Span::from_millis(100);
const MAX: usize = 4;

/// Reason why a run cannot be observed.
#[derive(Debug, thiserror::Error)]
pub enum Unobservable {
    /// Other users own or can read the folder.
    #[error(
        "this run cannot be observed: {} is not a private folder of this user (mode 0700); remove it, or \
         set XDG_RUNTIME_DIR to one",
        .0.display()
    )]
    Folder(PathBuf),
    /// Failed system call.
    #[error(
        "this run cannot be observed: {}: {error}; set XDG_RUNTIME_DIR to a private folder of this \
         user",
        path.display()
    )]
    System {
        /// Folder or socket.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
}

/// Observers of a run, shared by clones.
#[derive(Clone, Default)]
pub struct Observers {
    served: Option<Arc<Mutex<Served>>>,
    onlookers: Vec<Onlooker>,
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
    /// No observers: the run cannot be observed.
    pub fn none() -> Self {
        Self::default()
    }

    /// Serves this user's programs; `role` is `send` or `recv`.
    pub fn open(role: &'static str) -> Result<Self, Unobservable> {
        let place = places().into_iter().next().unwrap_or_default();
        Self::open_in(&place, role)
    }

    /// Opens the socket in `folder`, created if necessary.
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

    /// Adds an observer in this process.
    pub fn and(mut self, onlooker: Onlooker) -> Self {
        self.onlookers.push(onlooker);
        self
    }

    /// Adds the transport to snapshots.
    pub fn going_by(self, transport: CurrentTransport) -> Self {
        Self { transport: Some(transport), ..self }
    }

    /// Accepts and drops observers; returns whether any remain.
    pub fn are_here(&self) -> bool {
        let served = self.served.as_ref().is_some_and(|served| {
            let mut served = served.lock().unwrap_or_else(PoisonError::into_inner);
            served.meet(now());
            !served.readers.is_empty()
        });
        served || !self.onlookers.is_empty()
    }

    /// Sends a due snapshot with the process's fields.
    pub fn notify(&self, standing: impl FnOnce() -> Snapshot) {
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
        due.for_each(|onlooker| onlooker.notify(now, &standing));
        if let Some(served) = served {
            served.notify(now, standing);
        }
    }
}

/// Binds a unique name: processes have several runs, and containers reuse PIDs. Until the socket
/// listens it has a temporary name, because it looks dead.
fn bind(folder: &Path) -> Result<(UnixListener, PathBuf), Unobservable> {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    loop {
        let name = match RUNS.fetch_add(1, Ordering::Relaxed) {
            0 => format!("{}.sock", std::process::id()),
            more => format!("{}.{more}.sock", std::process::id()),
        };
        let socket = folder.join(name);
        if place::is_deserted(&socket) {
            let _ = fs::remove_file(&socket);
        }
        // The temporary name is as long as the final name: socket paths are limited.
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

    fn notify(&mut self, now: LocalTime, standing: Snapshot) {
        self.next = now + EVERY;
        let snapshot = Snapshot {
            schema: SCHEMA,
            pid: std::process::id(),
            role: self.role.to_owned(),
            command: self.command.clone(),
            ..standing
        };
        let Ok(mut line) = serde_json::to_vec(&snapshot) else { return };
        line.push(b'\n');
        self.readers.retain_mut(|reader| reader.notify(&line, now));
    }

    fn meet(&mut self, now: LocalTime) {
        self.readers.retain_mut(|reader| reader.goes_on(now));
        while let Ok((stream, _)) = self.listener.accept() {
            let ours = peer_user(&stream).is_ok_and(|user| user == effective_user() || user == 0);
            if ours && self.readers.len() < MAX {
                self.readers.extend(SnapshotReader::new(stream, now).ok());
            }
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.socket);
    }
}

/// Newest snapshot, shared by clones.
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

    /// The newest snapshot since the last call. For ordinary threads.
    pub fn newest(&self) -> Option<Snapshot> {
        self.sight(|sight| sight.newest.take())
    }

    fn is_due(&self, now: LocalTime) -> bool {
        self.sight(|sight| sight.next.is_none_or(|next| now >= next))
    }

    fn notify(&self, now: LocalTime, standing: &Snapshot) {
        self.sight(|sight| {
            (sight.newest, sight.next) = (Some(standing.clone()), Some(now + EVERY));
        });
    }
}

const TIMEOUT: Span = Span::from_secs(2);

struct SnapshotReader {
    stream: UnixStream,
    rest: Vec<u8>,
    took: LocalTime,
}

impl SnapshotReader {
    fn new(stream: UnixStream, now: LocalTime) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, rest: Vec::new(), took: now })
    }

    fn goes_on(&mut self, now: LocalTime) -> bool {
        self.is_there() && self.write(now)
    }

    /// Sends a line unless an earlier line is unsent; returns whether the observer is connected.
    fn notify(&mut self, line: &[u8], now: LocalTime) -> bool {
        if self.rest.is_empty() {
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
                    return now - self.took < TIMEOUT;
                }
                Err(_) => return false,
            }
        }
        true
    }

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
