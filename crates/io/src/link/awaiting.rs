//! Bounded waits for links on the thread that uses them.

use std::os::fd::{AsRawFd, BorrowedFd};

use tautline_proto::time::LocalTime;

use crate::socket::descriptor::poll;
use crate::thread::realtime::permit;

/// Maximum number of descriptors per wait.
pub const MAX: usize = 4;

/// Waits until one of the first [`MAX`] descriptors is readable (returns `true`) or until `until`
/// (returns `false`). Skips absent ones. Does not allocate. Wakes 5 to 50 µs late, and without
/// real-time priority up to another 50 µs later (timer slack).
pub fn await_any<'a>(
    descriptors: impl IntoIterator<Item = Option<BorrowedFd<'a>>>,
    until: LocalTime,
) -> bool {
    const ABSENT: libc::pollfd = libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 };
    let mut polled = [ABSENT; MAX];
    for (slot, descriptor) in polled.iter_mut().zip(descriptors) {
        // poll(2) skips negative descriptors.
        slot.fd = descriptor.map_or(-1, |descriptor| descriptor.as_raw_fd());
    }
    let _permit = permit("the caller asked to wait, until an instant that it chose");
    poll(&mut polled, until)
}
