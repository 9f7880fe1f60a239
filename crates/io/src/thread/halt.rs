//! Ends a thread that waits for datagrams: by a descriptor it can poll beside theirs.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::system::checked;

/// Asked for once, it stays asked for; clones are the same one. Its descriptor is readable from then on.
#[derive(Debug, Clone)]
pub struct Halt(Arc<HaltSignal>);

#[derive(Debug)]
struct HaltSignal {
    requested: AtomicBool,
    event: OwnedFd,
}

impl Halt {
    /// Not asked for yet.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers.
        let fd = checked(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
        // SAFETY: a descriptor just made, owned by nobody else.
        let event = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self(Arc::new(HaltSignal { requested: AtomicBool::new(false), event })))
    }

    /// Asks whoever waits to end.
    pub fn request(&self) {
        self.0.requested.store(true, Ordering::Release);
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight bytes, as an event descriptor wants. Refused only when it is readable already.
        unsafe { libc::write(self.0.event.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Whether it was asked for.
    pub fn is_requested(&self) -> bool {
        self.0.requested.load(Ordering::Acquire)
    }
}

impl AsFd for Halt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::wait;
    use tautline_proto::time::LocalTime;

    #[test]
    fn once_asked_for_it_ends_every_wait_of_every_clone() {
        let halt = Halt::new().unwrap();
        assert!(!wait(&[&halt], LocalTime::ZERO) && !halt.is_requested());
        let other = halt.clone();
        std::thread::spawn(move || other.request()).join().unwrap();
        assert!(halt.is_requested());
        assert!((0..3).all(|_| wait(&[&halt], LocalTime::NEVER)));
    }
}
