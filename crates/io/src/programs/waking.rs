//! What wakes a program: it sees that the device's thread has rung, and has no hand on what that rings.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::link::event::EventDescriptor;
use crate::system::checked;
use crate::thread::realtime::permit;

/// The program's end: readable when the device's thread has rung.
///
/// It is an epoll descriptor that waits for the device's event descriptor (epoll(7)), and not that one itself: flags
/// belong to what is open and not to a descriptor (fcntl(2)), so that a program that had it could make it block, fill
/// it, and hold up the device's thread. Of one that is waited for nothing can be changed, read or written.
#[derive(Debug)]
pub struct WakeSign(OwnedFd);

impl AsFd for WakeSign {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What the device's thread rings, and what the program is handed that sees it.
pub(super) fn wake_pair() -> io::Result<(EventDescriptor, OwnedFd)> {
    let event = EventDescriptor::new()?;
    // SAFETY: no pointers.
    let sign = checked(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    // SAFETY: a descriptor just made, owned by nobody else.
    let sign = unsafe { OwnedFd::from_raw_fd(sign) };
    // Each time that it rings counts anew: nobody reads it, so that it stays readable itself.
    let mut each = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: 0 };
    let (waits, rung) = (sign.as_raw_fd(), event.as_fd().as_raw_fd());
    // SAFETY: both are open; the event is read during the call alone.
    checked(unsafe { libc::epoll_ctl(waits, libc::EPOLL_CTL_ADD, rung, &raw mut each) })?;
    Ok((event, sign))
}

impl WakeSign {
    /// One that the device's process made and handed over.
    pub(super) fn handed(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// Makes it unreadable until the device's thread rings again. Does not wait.
    pub fn silence(&self) {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        let _permit = permit("the call does not wait for what has not rung");
        // SAFETY: room for one event. It tells of none if nothing has rung, which is as well.
        unsafe { libc::epoll_wait(self.0.as_raw_fd(), &raw mut event, 1, 0) };
    }
}
