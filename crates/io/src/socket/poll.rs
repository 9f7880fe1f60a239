//! Waiting for descriptors.

use std::os::fd::RawFd;

use tautline_proto::time::LocalTime;

use crate::clock::{now, timespec};

pub(crate) const fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// Waits for the events asked for until `until`; false if none came. A signal does not end it.
pub(crate) fn poll(polled: &mut [libc::pollfd], until: LocalTime) -> bool {
    loop {
        let left = timespec((until - now()).as_nanos());
        let count = polled.len() as libc::nfds_t;
        // SAFETY: the slice has `count` elements, and there is no signal mask.
        let ready =
            unsafe { libc::ppoll(polled.as_mut_ptr(), count, &raw const left, core::ptr::null()) };
        if ready > 0 {
            return true;
        }
        // An error other than a signal cannot be waited away either: both end at `until`.
        if now() >= until {
            return false;
        }
    }
}
