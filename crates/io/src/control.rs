//! The control channel beside a link, which the session's ordinary thread waits on. RTCP over UDP is
//! one.

pub mod waiter;

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use tautline_proto::endpoint::Endpoint;
use tautline_proto::time::LocalTime;

use crate::socket::Arrival;
use crate::socket::poll::{poll, readable};

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
