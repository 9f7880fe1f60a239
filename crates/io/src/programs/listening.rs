//! Accepts programs on an ordinary thread. The device's half of each goes to its thread through a
//! wait-free ring, and back to be freed.

use core::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rtrb::{Consumer, Producer, RingBuffer};
use tautline_proto::device::{Direction, Settings};
use tautline_proto::text::on_one_line;
use tautline_proto::time::{LocalTime, Span};

use super::ProgramsName;
use super::buffer::{MAX_SAMPLES, ProgramBuffer};
use super::greeting::Greeting;
use super::handing::wake_pair;
use super::handing::{emit, is_sealed, seal, unnamed};
use super::mixing::{AttachedProgram, AttachedPrograms, MAX_PROGRAMS};
use crate::clock::now;
use crate::control::Waiter;
use crate::local::is_of_our_user;
use crate::local::{NotPrivate, make_private};
use crate::shm::SharedFile;
use crate::thread::halt::EventDescriptor;

const FRAMES: usize = 96_000;
/// Polling interval for events without a descriptor: the card's start, a program's last period, a
/// free descriptor.
const SOON: Span = Span::from_millis(10);
const LATER: Span = Span::from_secs(3600);
const LISTENER: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;

/// Reason why programs cannot attach, with its fix.
#[derive(Debug, thiserror::Error)]
pub enum ProgramsRefused {
    /// Another process has a device of this name.
    #[error("another taut serves programs under this name\nhint: end it, or use another name")]
    Taken,
    /// Another user owns the directory or has access.
    #[error(
        "{} is not a private folder of this user (mode 0700)\nhint: remove it, or set XDG_RUNTIME_DIR to one",
        .0.display()
    )]
    Folder(PathBuf),
    /// A system call failed.
    #[error("{}: {error}\nhint: set XDG_RUNTIME_DIR to a private folder of this user", path.display())]
    System {
        /// Path that could not be created.
        path: PathBuf,
        /// Error of the system call.
        error: io::Error,
    },
}

/// Lets programs attach until it is dropped.
#[derive(Debug)]
pub struct ProgramsSocket {
    socket: PathBuf,
    stop: Arc<EventDescriptor>,
    thread: Option<JoinHandle<()>>,
    /// Held until the file closes, even if the process is killed.
    _lock: File,
}

impl ProgramsSocket {
    /// Accepts this user's programs for playback or recording, under `name` in `folder`. Also
    /// returns the device's half.
    pub fn open(
        folder: &Path,
        name: &ProgramsName,
        direction: Direction,
        settings: Settings,
    ) -> Result<(Self, AttachedPrograms), ProgramsRefused> {
        make_private(folder).map_err(|refused| match refused {
            NotPrivate::Others => ProgramsRefused::Folder(folder.to_owned()),
            NotPrivate::System(error) => ProgramsRefused::System { path: folder.to_owned(), error },
        })?;
        let socket = name.socket(folder, direction);
        let system = |error| ProgramsRefused::System { path: socket.clone(), error };
        let lock = locked(&socket).map_err(system)?;
        let lock = lock.ok_or(ProgramsRefused::Taken)?;
        // Left by a killed process: the lock has only one holder.
        match fs::remove_file(&socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(system(error)),
            _ => {}
        }
        let listener = UnixListener::bind(&socket).map_err(system)?;
        fs::set_permissions(&socket, PermissionsExt::from_mode(0o600)).map_err(system)?;
        listener.set_nonblocking(true).map_err(system)?;
        let stop = Arc::new(EventDescriptor::new().map_err(system)?);
        let waiter = Waiter::new().map_err(system)?;
        waiter.add(&*stop, STOP).map_err(system)?;
        let (arrivals, coming) = RingBuffer::new(MAX_PROGRAMS);
        let (going, departures) = RingBuffer::new(MAX_PROGRAMS);
        let start = Arc::new(AtomicI64::new(LocalTime::NEVER.as_nanos()));
        let programs = AttachedPrograms::new(&settings, coming, going, Arc::clone(&start));
        let door = ProgramsThread {
            listener,
            waiter,
            direction,
            settings,
            start,
            arrivals,
            departures,
            attached: [const { None }; MAX_PROGRAMS],
        };
        let named = thread::Builder::new().name("taut-programs".to_owned());
        let thread = named.spawn(move || door.run()).map_err(system)?;
        Ok((Self { socket, stop, thread: Some(thread), _lock: lock }, programs))
    }
}

impl Drop for ProgramsSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.socket);
        self.stop.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Locks the file next to this socket. It stays: after removal, two processes could each lock one.
fn locked(socket: &Path) -> io::Result<Option<File>> {
    let mut path = socket.as_os_str().to_owned();
    path.push(".lock");
    let file = File::options().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

struct Attached {
    stream: Option<UnixStream>,
    gone: Arc<AtomicBool>,
}

struct ProgramsThread {
    listener: UnixListener,
    waiter: Waiter,
    direction: Direction,
    settings: Settings,
    start: Arc<AtomicI64>,
    arrivals: Producer<AttachedProgram>,
    departures: Consumer<AttachedProgram>,
    attached: [Option<Attached>; MAX_PROGRAMS],
}

impl ProgramsThread {
    fn run(mut self) {
        let mut open = false;
        let mut opens = LocalTime::ZERO;
        loop {
            if !open && self.start() != LocalTime::NEVER && now() >= opens {
                open = self.waiter.add(&self.listener, LISTENER).is_ok();
            }
            let leaving = self.attached.iter().flatten().any(|one| one.stream.is_none());
            let timeout = if open && !leaving { LATER } else { SOON };
            for number in self.waiter.wait(now() + timeout) {
                match number {
                    STOP => return,
                    // The socket stays readable, so without a pause this would busy-loop.
                    LISTENER => {
                        if !self.let_in() && self.waiter.remove(&self.listener).is_ok() {
                            (open, opens) = (false, now() + SOON);
                        }
                    }
                    number => self.hang_up(number as usize),
                }
            }
            while let Ok(program) = self.departures.pop() {
                if let Some(place) = self.attached.get_mut(program.number) {
                    *place = None;
                }
            }
        }
    }

    fn start(&self) -> LocalTime {
        LocalTime::from_nanos(self.start.load(Ordering::Acquire))
    }

    fn hang_up(&mut self, number: usize) {
        if let Some(Some(attached)) = self.attached.get_mut(number) {
            attached.stream = None;
            attached.gone.store(true, Ordering::Relaxed);
        }
    }

    /// Accepts waiting programs. Returns `false` without free descriptors.
    fn let_in(&mut self) -> bool {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            };
            if let Err(why) = self.attach(&stream) {
                let _ = emit(&stream, &Greeting::Refused(why).written(), None);
            }
        }
    }

    fn attach(&mut self, stream: &UnixStream) -> Result<(), String> {
        if !is_of_our_user(stream).map_err(|error| error.to_string())? {
            return Err(
                "it serves only programs of its own user; run the program as that user".to_owned()
            );
        }
        let free = self.attached.iter().position(Option::is_none);
        let number =
            free.ok_or_else(|| format!("{MAX_PROGRAMS} programs are attached; end one of them"))?;
        let cannot = |error: io::Error| format!("{error}; raise ulimit -n for taut serve");
        let (memory, buffer) = self.buffer()?;
        let (event, theirs) = wake_pair().map_err(cannot)?;
        let kept = stream.try_clone().map_err(cannot)?;
        kept.set_nonblocking(true).map_err(cannot)?;
        buffer.set_start(self.start());
        let greeting = Greeting::Card { settings: self.settings, frames: buffer.frames() };
        let gone = Arc::new(AtomicBool::new(false));
        let program =
            AttachedProgram::new(number, self.direction, buffer, (event, Arc::clone(&gone)));
        let handed = Some([memory.as_fd(), theirs.as_fd()]);
        if emit(stream, &greeting.written(), handed).is_err() {
            return Ok(()); // The program has gone.
        }
        self.waiter.add(&kept, number as u64).map_err(cannot)?;
        if self.arrivals.push(program).is_ok() {
            self.attached[number] = Some(Attached { stream: Some(kept), gone });
        }
        Ok(())
    }

    fn buffer(&self) -> Result<(OwnedFd, Arc<ProgramBuffer>), String> {
        let cannot = |error: io::Error| format!("allocating memory: {error}; end other programs");
        let channels = self.settings.channels.count();
        let frames = FRAMES.min(MAX_SAMPLES / channels).max(4 * self.settings.period.as_len());
        let memory = unnamed().map_err(cannot)?;
        let file = SharedFile::handed(memory.try_clone().map_err(cannot)?);
        let buffer = ProgramBuffer::made(&file, frames, channels);
        let buffer = buffer.map_err(on_one_line)?;
        seal(memory.as_fd()).map_err(cannot)?;
        debug_assert!(is_sealed(memory.as_fd()), "the kernel confirmed it");
        let buffer = buffer.ok_or("the allocated memory is too short; try again")?;
        if self.direction == Direction::Capture {
            // Blocks are handed over early by the card's lead; programs count from there.
            buffer.set_latency(self.settings.playback_lead());
        }
        Ok((memory, Arc::new(buffer)))
    }
}
