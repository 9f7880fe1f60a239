//! Waits for many sockets at once, at a price that does not grow with their number.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use tautline_proto::time::LocalTime;

use crate::socket::poll::{poll, readable};

/// Knows which of many sockets have something to read (epoll(7)). A socket that is closed is
/// forgotten.
#[derive(Debug)]
pub struct Waiter {
    epoll: OwnedFd,
}

/// Sockets that one call tells of; the next tells of others.
const AT_ONCE: usize = 64;

impl Waiter {
    /// Waits for nothing yet.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened, and nobody else's.
        Ok(Self { epoll: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Waits for `channel`, too, and calls it by `number`.
    pub fn add<T: AsFd + ?Sized>(&self, channel: &T, number: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: number };
        let fd = self.epoll.as_raw_fd();
        let channel = channel.as_fd().as_raw_fd();
        // SAFETY: the event is read during the call alone.
        let answer = unsafe { libc::epoll_ctl(fd, libc::EPOLL_CTL_ADD, channel, &raw mut event) };
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Waits no longer for `channel`; one that was not waited for is refused.
    pub fn remove<T: AsFd + ?Sized>(&self, channel: &T) -> io::Result<()> {
        let (fd, channel) = (self.epoll.as_raw_fd(), channel.as_fd().as_raw_fd());
        let none = core::ptr::null_mut();
        // SAFETY: both are open; nothing is read of an event that is taken away.
        let answer = unsafe { libc::epoll_ctl(fd, libc::EPOLL_CTL_DEL, channel, none) };
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Has something to read itself when a socket has: to be waited for among others.
    pub fn fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// Waits until a socket has something to read, or `until`; the numbers of those that have, in
    /// rising order. Blocks: for ordinary threads.
    pub fn wait(&self, until: LocalTime) -> Vec<u64> {
        if !poll(&mut [readable(self.epoll.as_raw_fd())], until) {
            return Vec::new();
        }
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; AT_ONCE];
        // SAFETY: there is room for as many events.
        let count = unsafe {
            libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), AT_ONCE as i32, 0)
        };
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
    fn those_that_have_something_to_read_are_told_and_no_others() {
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
