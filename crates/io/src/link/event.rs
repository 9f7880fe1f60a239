//! A descriptor that one thread makes readable for another.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::system::checked;
use crate::thread::realtime::permit;

/// Wakes whoever polls it. Neither call waits.
#[derive(Debug)]
pub struct EventDescriptor(OwnedFd);

impl AsFd for EventDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl EventDescriptor {
    /// One that is not readable.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers.
        let fd = checked(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
        // SAFETY: a descriptor just made, owned by nobody else.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Makes it readable.
    pub fn wake(&self) {
        let one = 1u64.to_ne_bytes();
        let _permit = permit("the event descriptor is non-blocking");
        // SAFETY: eight bytes, as an event descriptor wants. It refuses only when it has been rung
        // 2⁶⁴ − 2 times unheard, and then it still wakes.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Makes it unreadable until the next [`Self::wake`].
    pub fn silence(&self) {
        let mut count = [0u8; 8];
        let _permit = permit("the event descriptor is non-blocking");
        // SAFETY: eight writable bytes. It refuses if the bell has not rung, which is as well.
        unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}
