//! Control channel of a link, such as RTCP over UDP.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use tautline_proto::endpoint::Endpoint;
use tautline_proto::time::LocalTime;

use crate::socket::Datagram;
use crate::socket::descriptor::{poll, readable};
use crate::system::{checked, owned};

/// A few datagrams per second between ordinary threads. The descriptor is readable after an
/// arrival. No call blocks.
pub trait Control: Send + AsFd {
    /// An error is counted and returned; the next call may succeed.
    fn send(&mut self, datagram: &[u8], to: Endpoint) -> io::Result<()>;

    /// Delivers received datagrams, oldest first. Does not wait.
    fn receive(&mut self, deliver: &mut dyn FnMut(Datagram<'_>));
}

/// Waits until a channel is readable (`true`) or until `until`.
pub fn wait<T: AsFd + ?Sized>(channels: &[&T], until: LocalTime) -> bool {
    let readable = |channel: &&T| readable(channel.as_fd().as_raw_fd());
    let mut polled: Vec<_> = channels.iter().map(readable).collect();
    poll(&mut polled, until)
}

/// Reports which sockets are readable (epoll(7)). Closed sockets are removed automatically.
#[derive(Debug)]
pub struct Waiter(OwnedFd);

impl AsFd for Waiter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

const AT_ONCE: usize = 64;

impl Waiter {
    /// Creates a waiter without sockets.
    pub fn new() -> io::Result<Self> {
        // SAFETY: the call takes no pointers, and the descriptor is new.
        unsafe { owned(libc::epoll_create1(libc::EPOLL_CLOEXEC)) }.map(Self)
    }

    /// Adds `channel` as `number`.
    pub fn add<T: AsFd + ?Sized>(&self, channel: &T, number: u64) -> io::Result<()> {
        self.change(libc::EPOLL_CTL_ADD, channel, libc::EPOLLIN, number)
    }

    /// Removes `channel`; an error if it was not added.
    pub fn remove<T: AsFd + ?Sized>(&self, channel: &T) -> io::Result<()> {
        self.change(libc::EPOLL_CTL_DEL, channel, 0, 0)
    }

    pub(crate) fn change<T: AsFd + ?Sized>(
        &self,
        operation: i32,
        channel: &T,
        events: i32,
        number: u64,
    ) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: number };
        let channel = channel.as_fd().as_raw_fd();
        // SAFETY: both descriptors are open; the event is read only during the call.
        checked(unsafe { libc::epoll_ctl(self.fd(), operation, channel, &raw mut event) }).map(drop)
    }

    /// Descriptor that is readable when any socket is.
    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Waits until a socket is readable or until `until`. Returns socket numbers, ascending.
    pub fn wait(&self, until: LocalTime) -> Vec<u64> {
        if !poll(&mut [readable(self.fd())], until) {
            return Vec::new();
        }
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; AT_ONCE];
        // SAFETY: the array holds `AT_ONCE` events.
        let count = unsafe { libc::epoll_wait(self.fd(), events.as_mut_ptr(), AT_ONCE as i32, 0) };
        let ready = &events[..usize::try_from(count).unwrap_or(0)];
        let mut numbers: Vec<u64> = ready.iter().map(|event| event.u64).collect();
        numbers.sort_unstable();
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;
    use crate::udp::ControlSocket;
    use crate::udp::open::UdpOptions;
    use tautline_proto::time::Span;

    fn socket() -> ControlSocket {
        ControlSocket::open(&UdpOptions::receiver("127.0.0.1:0".parse().unwrap())).unwrap()
    }

    #[test]
    fn only_readable_sockets_are_reported() {
        let (waiter, mut from) = (Waiter::new().unwrap(), socket());
        let mut sockets: Vec<ControlSocket> = (0..200).map(|_| socket()).collect();
        for (number, socket) in (0..).zip(&sockets) {
            waiter.add(socket, number).unwrap();
        }
        assert_eq!(waiter.wait(now()), []);
        for to in [170, 3] {
            from.send_to(b"!", sockets[to].local()).unwrap();
        }
        let until = now() + Span::from_secs(10);
        while waiter.wait(until).len() < 2 {}
        assert_eq!(waiter.wait(until), [3, 170]);
        sockets[3].receive(&mut |_| {});
        assert_eq!(waiter.wait(until), [170]);
        waiter.remove(&sockets[170]).unwrap();
        assert_eq!(waiter.wait(now()), []);
        waiter.add(&sockets[170], 170).unwrap();
        assert_eq!(waiter.wait(until), [170]);
        sockets.truncate(100);
        assert_eq!(waiter.wait(now()), [], "it was closed");
    }
}
