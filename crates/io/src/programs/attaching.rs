//! Attaches a program to a device of another process.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tautline_proto::device::{Direction, Settings};

use super::ProgramsName;
use super::buffer::ProgramBuffer;
use super::greeting::Greeting;
use super::handing::WakeSign;
use super::handing::{handle, has_hung_up, is_sealed};
use crate::control::Waiter;
use crate::local::is_private;
use crate::local::{connect, is_of_our_user};
use crate::shm::SharedFile;
use crate::socket::forks;

/// Timeout of the answer. It is normally immediate, but a frozen host delays it.
const TIMEOUT: Duration = Duration::from_millis(700);

/// Reason why attaching failed.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// No device has this name.
    #[error("no taut serves programs under this name")]
    Nobody,
    /// Refused, with reason and fix.
    #[error("{0}")]
    Refused(String),
    /// The process belongs neither to this user nor to root.
    #[error("another user serves it; run taut serve as the user of the program")]
    Foreign,
    /// The answer is not a device's.
    #[error("{0}; run the same version of taut serve and of this PCM")]
    Strange(&'static str),
    /// A system call failed.
    #[error("{0}; try again")]
    System(io::Error),
}

/// An attached device of another process.
#[derive(Debug)]
pub struct Attachment {
    settings: Settings,
    buffer: Arc<ProgramBuffer>,
    sign: WakeSign,
    stream: UnixStream,
}

impl Attachment {
    /// Attaches to `name`, for playback or recording. Tries `folders` private to this user, in
    /// order, up to 0.7 s.
    pub fn open<'a>(
        folders: impl IntoIterator<Item = &'a Path>,
        name: &ProgramsName,
        direction: Direction,
    ) -> Result<Self, AttachError> {
        let mut private = folders.into_iter().filter(|folder| is_private(folder));
        let found = private.find_map(|folder| match connect(&name.socket(folder, direction)) {
            Ok(stream) => Some(Ok(stream)),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => None,
                _ => Some(Err(AttachError::System(error))),
            },
        });
        let stream = found.unwrap_or(Err(AttachError::Nobody))?;
        // The directory proves nothing; the kernel knows the listening user.
        if !is_of_our_user(&stream).map_err(AttachError::System)? {
            return Err(AttachError::Foreign);
        }
        forks::remember(stream.as_raw_fd());
        match greeted(&stream) {
            Ok((settings, buffer, sign)) => Ok(Self { settings, buffer, sign, stream }),
            Err(error) => {
                forks::forget(stream.as_raw_fd());
                Err(error)
            }
        }
    }

    /// The device's settings.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// The buffer shared with the device's thread.
    pub fn buffer(&self) -> &Arc<ProgramBuffer> {
        &self.buffer
    }

    /// Readable when the device's thread has reached the [wanted](ProgramBuffer::want) position.
    pub fn sign(&self) -> &WakeSign {
        &self.sign
    }

    /// Adds wake-up and end of the device to `waiter`.
    pub fn watched_by(&self, waiter: &Waiter) -> io::Result<()> {
        waiter.add(&self.sign, 0)?;
        waiter.add(&self.stream, 1)
    }

    /// Returns whether the device has ended.
    pub fn is_over(&self) -> bool {
        has_hung_up(&self.stream)
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        forks::forget(self.stream.as_raw_fd());
    }
}

type Greeted = (Settings, Arc<ProgramBuffer>, WakeSign);

fn greeted(stream: &UnixStream) -> Result<Greeted, AttachError> {
    let mut bytes = [0; Greeting::MAX_BYTES];
    let received = stream
        .set_nonblocking(false)
        .and_then(|()| stream.set_read_timeout(Some(TIMEOUT)))
        .and_then(|()| handle(stream, &mut bytes));
    let (length, descriptors) = received.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => AttachError::Refused(
            "its device does not run; wait until taut serve listens for calls".to_owned(),
        ),
        _ => AttachError::System(error),
    })?;
    let greeting = Greeting::read(&bytes[..length]).map_err(AttachError::Strange)?;
    let (settings, frames) = match greeting {
        Greeting::Card { settings, frames } => (settings, frames),
        Greeting::Refused(why) => return Err(AttachError::Refused(why)),
    };
    let strange = AttachError::Strange("it sent no memory");
    let Some([memory, sign]) = descriptors else { return Err(strange) };
    // Access to a truncated file would kill this program.
    if !is_sealed(memory.as_fd()) {
        return Err(strange);
    }
    let file = SharedFile::handed(memory);
    let buffer = ProgramBuffer::there(&file, frames, settings.channels.count());
    match buffer {
        Ok(Some(buffer)) => Ok((settings, Arc::new(buffer), WakeSign::handed(sign))),
        Ok(None) => Err(strange),
        Err(why) => Err(AttachError::Refused(why.to_string())),
    }
}
