//! A program attaches to a device that another process has.

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
use super::handing::{has_hung_up, hear, is_sealed};
use crate::control::Waiter;
use crate::local::is_private;
use crate::local::{connect, is_of_our_user};
use crate::shm::SharedFile;
use crate::socket::forks;

/// It answers at once; a host that freezes takes a good deal longer.
const PATIENCE: Duration = Duration::from_millis(700);

/// Why not.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// Nobody has a device of this name.
    #[error("nobody serves programs by this name")]
    Nobody,
    /// Who has it said why not, with the mend.
    #[error("{0}")]
    Refused(String),
    /// Who has it is neither this user nor root, and would hear or say what is not theirs.
    #[error("another user serves it; run taut serve as the user of the program")]
    Foreign,
    /// What was said is no device's.
    #[error("{0}; run the same version of taut serve as of this PCM")]
    Strange(&'static str),
    /// The system refused.
    #[error("{0}; try again")]
    System(io::Error),
}

/// A device of another process, attached.
#[derive(Debug)]
pub struct Attachment {
    settings: Settings,
    buffer: Arc<ProgramBuffer>,
    sign: WakeSign,
    stream: UnixStream,
}

impl Attachment {
    /// Attaches to the device of this name, to play or to record: the first that is found in those of these folders
    /// that are private to this user (anybody may make them in /tmp). Waits at most 0.7 s.
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
        // The folder's name proves nothing; the kernel knows who listens.
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

    /// How the device runs.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// What lies between this program and its thread.
    pub fn buffer(&self) -> &Arc<ProgramBuffer> {
        &self.buffer
    }

    /// Readable when the device's thread has come to where it was [wanted](ProgramBuffer::want).
    pub fn sign(&self) -> &WakeSign {
        &self.sign
    }

    /// Has `waiter` wait for that, and for the end of the device.
    pub fn watched_by(&self, waiter: &Waiter) -> io::Result<()> {
        waiter.add(&self.sign, 0)?;
        waiter.add(&self.stream, 1)
    }

    /// Whether the device is no more.
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
    let heard = stream
        .set_nonblocking(false)
        .and_then(|()| stream.set_read_timeout(Some(PATIENCE)))
        .and_then(|()| hear(stream, &mut bytes));
    let (length, descriptors) = heard.map_err(|error| match error.kind() {
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
    let strange = AttachError::Strange("it hands over no memory");
    let Some([memory, sign]) = descriptors else { return Err(strange) };
    // A file that can be cut short could end this program.
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
