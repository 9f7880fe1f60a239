//! Waits for links on the thread that uses them: for a bounded time that it can spare.

use std::os::fd::{AsRawFd, BorrowedFd};

use tautline_proto::time::LocalTime;

use crate::socket::poll::poll;
use crate::thread::realtime::permit;

/// The most descriptors that one wait is for.
pub const MOST: usize = 4;

/// Waits until one of these descriptors (the first [`MOST`] of them, absent ones passed over) has something to read,
/// or `until`: false. Allocates nothing. How late it wakes is the scheduler's: some 5 to 50 µs, and a thread that is
/// not real-time as much more as its timer slack is (50 µs).
pub fn await_any<'a>(
    descriptors: impl IntoIterator<Item = Option<BorrowedFd<'a>>>,
    until: LocalTime,
) -> bool {
    const ABSENT: libc::pollfd = libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 };
    let mut polled = [ABSENT; MOST];
    for (slot, descriptor) in polled.iter_mut().zip(descriptors) {
        // The kernel passes over what is below nothing.
        slot.fd = descriptor.map_or(-1, |descriptor| descriptor.as_raw_fd());
    }
    let _permit = permit("the caller asked to wait, until an instant that it chose");
    poll(&mut polled, until)
}
