//! Wakes or stops another thread.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::system::owned;
use crate::thread::realtime::permit;

#[derive(Debug)]
pub(crate) struct EventDescriptor(OwnedFd);

impl AsFd for EventDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl EventDescriptor {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: the call takes no pointers, and the descriptor is new.
        unsafe { owned(libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC)) }.map(Self)
    }

    pub(crate) fn wake(&self) {
        let one = 1u64.to_ne_bytes();
        let _permit = permit("the event descriptor is non-blocking");
        // SAFETY: eight bytes, as an event descriptor requires. The write fails only if it is
        // readable already.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    pub(crate) fn silence(&self) {
        let mut count = [0u8; 8];
        let _permit = permit("the event descriptor is non-blocking");
        // SAFETY: `count` has eight writable bytes. The read fails only if the descriptor is
        // already unreadable.
        unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

/// A permanent stop request, shared by clones. Its descriptor is then readable.
#[derive(Debug, Clone)]
pub struct Halt(Arc<(AtomicBool, EventDescriptor)>);

impl Halt {
    /// Creates a stop flag that is not set.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Arc::new((AtomicBool::new(false), EventDescriptor::new()?))))
    }

    /// Requests the stop.
    pub fn request(&self) {
        self.0.0.store(true, Ordering::Release);
        self.0.1.wake();
    }

    /// Returns whether the stop was requested.
    pub fn is_requested(&self) -> bool {
        self.0.0.load(Ordering::Acquire)
    }
}

impl AsFd for Halt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.1.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::wait;
    use tautline_proto::time::LocalTime;

    #[test]
    fn stop_request_ends_every_wait_of_every_clone() {
        let halt = Halt::new().unwrap();
        assert!(!wait(&[&halt], LocalTime::ZERO) && !halt.is_requested());
        let other = halt.clone();
        std::thread::spawn(move || other.request()).join().unwrap();
        assert!(halt.is_requested());
        assert!((0..3).all(|_| wait(&[&halt], LocalTime::NEVER)));
    }
}
