//! The control channel beside a link, which the session's ordinary thread waits on. RTCP over UDP is
//! one.

mod socket;
pub mod waiter;

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use tautline_proto::endpoint::Endpoint;
use tautline_proto::time::LocalTime;

use crate::clock::{now, timespec};
use crate::link::Arrival;
pub use socket::ControlSocket;

/// Carries datagrams between the ordinary threads of two ends, a few a second. Its descriptor becomes
/// readable when one has arrived; nothing blocks.
pub trait Control: Send + AsFd {
    /// Sends one datagram. A refusal is counted and returned; the next may succeed.
    fn send(&mut self, datagram: &[u8], to: Endpoint) -> io::Result<()>;

    /// Delivers every datagram that has arrived, oldest first. Does not wait.
    fn receive(&mut self, deliver: &mut dyn FnMut(Arrival<'_>));
}

/// Waits until one of `channels` has something to read (true) or `until` has come (false). Blocks:
/// for ordinary threads. For many there is [`crate::control::waiter`].
pub fn wait<T: AsFd + ?Sized>(channels: &[&T], until: LocalTime) -> bool {
    let readable = |channel: &&T| readable(channel.as_fd().as_raw_fd());
    let mut polled: Vec<_> = channels.iter().map(readable).collect();
    poll(&mut polled, until)
}

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
