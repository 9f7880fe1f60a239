//! A timer that `poll(2)` hears, on the monotonic clock.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use tautline_proto::time::LocalTime;

use crate::clock::timespec;

/// Readable from the instant it was set to until it is set to another.
#[derive(Debug)]
pub struct Timer(OwnedFd);

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Timer {
    /// A timer that is set to nothing.
    pub fn new() -> io::Result<Self> {
        let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
        // SAFETY: no pointers.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was made above and nobody else has it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// What to poll, for reading.
    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Readable from `due` on, at once if that has passed; [`LocalTime::NEVER`] is never.
    pub fn set(&self, due: LocalTime) {
        // Zero would stop the timer.
        let nanos = if due.is_never() { 0 } else { due.as_nanos().max(1) };
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let wanted = libc::itimerspec { it_interval: none, it_value: timespec(nanos) };
        // SAFETY: a valid itimerspec; the old setting is not asked for. It cannot fail for a
        // timer's descriptor and a valid time.
        unsafe {
            libc::timerfd_settime(
                self.fd(),
                libc::TFD_TIMER_ABSTIME,
                &raw const wanted,
                core::ptr::null_mut(),
            )
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;
    use tautline_proto::time::Span;

    fn is_readable(timer: &Timer, millis: i32) -> bool {
        let mut one = libc::pollfd { fd: timer.fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd.
        unsafe { libc::poll(&raw mut one, 1, millis) == 1 }
    }

    #[test]
    fn a_timer_is_readable_from_its_instant_until_it_is_set_to_another() {
        let timer = Timer::new().unwrap();
        assert!(!is_readable(&timer, 0));
        let due = now() + Span::from_millis(2);
        timer.set(due);
        assert!(is_readable(&timer, -1) && now() >= due);
        assert!(is_readable(&timer, 0), "still");
        timer.set(now() + Span::from_secs(3600));
        assert!(!is_readable(&timer, 0));
        timer.set(LocalTime::ZERO);
        assert!(is_readable(&timer, 0), "an instant long past");
        timer.set(LocalTime::NEVER);
        assert!(!is_readable(&timer, 0));
    }
}
