//! Bounded waits on the thread that uses a link.

use std::os::fd::{AsRawFd, BorrowedFd};

use tautline_proto::time::LocalTime;

use crate::socket::descriptor::poll;
use crate::thread::realtime::permit;

/// Maximum descriptors per wait.
pub const MAX: usize = 4;

/// Waits until one of the first [`MAX`] descriptors is readable (`true`) or until `until`. Does not
/// allocate. Wakes 5 to 50 µs late, without real-time priority up to 100 µs (timer slack).
pub fn await_any<'a>(
    descriptors: impl IntoIterator<Item = Option<BorrowedFd<'a>>>,
    until: LocalTime,
) -> bool {
    const ABSENT: libc::pollfd = libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 };
    let mut polled = [ABSENT; MAX];
    for (slot, descriptor) in polled.iter_mut().zip(descriptors) {
        slot.fd = descriptor.map_or(-1, |descriptor| descriptor.as_raw_fd());
    }
    let _permit = permit("the caller asked to wait, until an instant that it chose");
    poll(&mut polled, until)
}
