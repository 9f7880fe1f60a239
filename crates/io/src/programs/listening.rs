//! Lets programs attach to a device, on an ordinary thread: each gets a buffer and what wakes it. The device's half
//! goes to its thread by a wait-free ring, and comes back by another to be freed.

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
use tautline_proto::time::{LocalTime, Span};

use super::ProgramsName;
use super::buffer::{MOST_SAMPLES, ProgramBuffer};
use super::greeting::Greeting;
use super::handing::wake_pair;
use super::handing::{is_sealed, say, seal, unnamed};
use super::mixing::{AttachedProgram, AttachedPrograms, MOST_PROGRAMS};
use crate::clock::now;
use crate::control::Waiter;
use crate::local::is_of_our_user;
use crate::local::{NotPrivate, make_private};
use crate::shm::SharedFile;
use crate::thread::halt::EventDescriptor;

const FRAMES: usize = 96_000;
/// How soon to look again for events without a sign: the card's first period, a program's last, a free descriptor.
const SOON: Span = Span::from_millis(10);
const LATER: Span = Span::from_secs(3600);
const LISTENER: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;

/// Why programs cannot attach: one sentence with the mend.
#[derive(Debug, thiserror::Error)]
pub enum ProgramsRefused {
    /// Another process has a device of this name.
    #[error("another taut serves programs by this name; end it, or use another name")]
    Taken,
    /// The folder is somebody else's, or others may look into it.
    #[error(
        "{} is no folder of this user's alone (mode 0700); remove it, or set XDG_RUNTIME_DIR to one",
        .0.display()
    )]
    Folder(PathBuf),
    /// The system refused.
    #[error("{}: {error}; set XDG_RUNTIME_DIR to a folder of this user's alone", path.display())]
    System {
        /// What was to be made.
        path: PathBuf,
        /// What it answered.
        error: io::Error,
    },
}

/// Programs may attach as long as this lives.
#[derive(Debug)]
pub struct ProgramsSocket {
    socket: PathBuf,
    stop: Arc<EventDescriptor>,
    thread: Option<JoinHandle<()>>,
    /// Locked until it is closed, also if its process is killed.
    _lock: File,
}

impl ProgramsSocket {
    /// Lets programs of this user attach to a device with these settings, to play or to record, by this name in this
    /// folder, which is made if it is missing. The other half is the device's.
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
        // A killed process left it: the holder of the lock is the only one.
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
        let (arrivals, coming) = RingBuffer::new(MOST_PROGRAMS);
        let (going, departures) = RingBuffer::new(MOST_PROGRAMS);
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
            attached: [const { None }; MOST_PROGRAMS],
        };
        let named = thread::Builder::new().name("taut-programs".to_owned());
        let thread = named.spawn(move || door.run()).map_err(system)?;
        Ok((Self { socket, stop, thread: Some(thread), _lock: lock }, programs))
    }
}

impl Drop for ProgramsSocket {
    fn drop(&mut self) {
        // Another that begins now waits for the lock.
        let _ = fs::remove_file(&self.socket);
        self.stop.wake();
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so on its own.
            let _ = thread.join();
        }
    }
}

/// The locked file beside this socket; `None` if another process has it. It stays: removed, two could have it.
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
    attached: [Option<Attached>; MOST_PROGRAMS],
}

impl ProgramsThread {
    fn run(mut self) {
        let mut open = false;
        let mut opens = LocalTime::ZERO;
        loop {
            // Who comes before the card runs is let in when it does.
            if !open && self.start() != LocalTime::NEVER && now() >= opens {
                open = self.waiter.add(&self.listener, LISTENER).is_ok();
            }
            let leaving = self.attached.iter().flatten().any(|one| one.stream.is_none());
            let patience = if open && !leaving { LATER } else { SOON };
            for number in self.waiter.wait(now() + patience) {
                match number {
                    STOP => return,
                    // It stays readable as long as a program waits: without a pause this would be a busy loop.
                    LISTENER => {
                        if !self.let_in() && self.waiter.remove(&self.listener).is_ok() {
                            (open, opens) = (false, now() + SOON);
                        }
                    }
                    // Programs send nothing: it has hung up.
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

    /// Whether all that wait were let in: not if no descriptor is left.
    fn let_in(&mut self) -> bool {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            };
            if let Err(why) = self.attach(&stream) {
                // Who is gone already needs no answer.
                let _ = say(&stream, &Greeting::Refused(why).written(), None);
            }
        }
    }

    fn attach(&mut self, stream: &UnixStream) -> Result<(), String> {
        if !is_of_our_user(stream).map_err(|error| error.to_string())? {
            return Err("it serves programs of its own user; run the program as that".to_owned());
        }
        let free = self.attached.iter().position(Option::is_none);
        let number =
            free.ok_or_else(|| format!("{MOST_PROGRAMS} programs are attached; end one of them"))?;
        let cannot = |error: io::Error| format!("{error}; raise ulimit -n where taut serve runs");
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
        if say(stream, &greeting.written(), handed).is_err() {
            return Ok(()); // It has gone.
        }
        self.waiter.add(&kept, number as u64).map_err(cannot)?;
        // There is room for as many as there may be.
        if self.arrivals.push(program).is_ok() {
            self.attached[number] = Some(Attached { stream: Some(kept), gone });
        }
        Ok(())
    }

    fn buffer(&self) -> Result<(OwnedFd, Arc<ProgramBuffer>), String> {
        let cannot = |error: io::Error| format!("memory for it: {error}; end other programs");
        let channels = self.settings.channels.count();
        let frames = FRAMES.min(MOST_SAMPLES / channels).max(4 * self.settings.period.as_len());
        let memory = unnamed().map_err(cannot)?;
        let file = SharedFile::handed(memory.try_clone().map_err(cannot)?);
        let buffer = ProgramBuffer::made(&file, frames, channels).map_err(|why| why.to_string())?;
        seal(memory.as_fd()).map_err(cannot)?;
        debug_assert!(is_sealed(memory.as_fd()), "the kernel said so");
        let buffer = buffer.ok_or("memory for it is shorter than was asked for; try again")?;
        if self.direction == Direction::Capture {
            // A block is given the card's lead before it is due; for a program it counts from then.
            buffer.set_latency(self.settings.playback_lead());
        }
        Ok((memory, Arc::new(buffer)))
    }
}
