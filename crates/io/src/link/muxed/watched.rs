//! One descriptor that stands for several which come and go: a wire thread polls the same one for as long as it runs.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::system::{checked, errno};
use crate::thread::realtime::permit;

/// Readable while one of those that it follows is.
pub(super) struct WatchedDescriptors {
    epoll: OwnedFd,
    /// The one that comes and goes, as long as it is followed.
    followed: Option<i32>,
}

impl AsFd for WatchedDescriptors {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl WatchedDescriptors {
    /// One that follows `always` to its end.
    pub(super) fn new(always: BorrowedFd<'_>) -> io::Result<Self> {
        // SAFETY: no pointers.
        let fd = checked(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: a descriptor just made, owned by nobody else.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut watched = Self { epoll, followed: None };
        let refused = watched.follow(always);
        watched.followed = None;
        refused.map_or(Ok(watched), |errno| Err(io::Error::from_raw_os_error(errno)))
    }

    /// Follows this one too; the `errno` if it cannot.
    pub(super) fn follow(&mut self, descriptor: BorrowedFd<'_>) -> Option<i32> {
        let fd = descriptor.as_raw_fd();
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        let _permit = permit("nobody else uses the set, so the call waits for nothing");
        // SAFETY: the event lives through the call.
        let answer = unsafe {
            libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event)
        };
        if answer < 0 {
            return Some(errno());
        }
        self.followed = Some(fd);
        None
    }

    /// Follows it no more.
    pub(super) fn leave(&mut self, descriptor: BorrowedFd<'_>) {
        let fd = descriptor.as_raw_fd();
        if self.followed != Some(fd) {
            return;
        }
        self.followed = None;
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        let _permit = permit("nobody else uses the set, so the call waits for nothing");
        // SAFETY: the event, which is not looked at, lives through the call.
        unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_DEL, fd, &raw mut event) };
    }
}
