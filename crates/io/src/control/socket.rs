//! A plain datagram socket for RTCP.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use crate::control::Control;
use crate::link::{Arrival, LinkCounters, OpenError};
use crate::socket::descriptor::Socket;
use crate::socket::incoming::Incoming;
use crate::udp::open::{UdpOptions, open, send_groups_by};
use tautline_proto::endpoint::Endpoint;

/// Reports come a few a second.
const BATCH: usize = 4;

/// A socket for RTCP. Sends do not block; arrivals carry kernel stamps.
pub struct ControlSocket {
    socket: Socket,
    local: SocketAddr,
    incoming: Incoming,
    counters: LinkCounters,
    /// Interfaces by each of which what goes to a group is sent; none for the one it was opened with.
    interfaces: Vec<u32>,
}

impl ControlSocket {
    /// Opens a socket with the addresses, groups and marks of `options`.
    pub fn open(options: &UdpOptions) -> Result<Self, OpenError> {
        let socket = open(options)?;
        Ok(Self {
            local: socket.local().unwrap_or(options.bind),
            incoming: Incoming::new(
                options.batch.min(BATCH),
                options.datagram_bytes,
                options.hosts(),
            ),
            counters: LinkCounters::default(),
            interfaces: options.group_interfaces()?,
            socket,
        })
    }

    /// The address that the socket is bound to.
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// Sends one datagram, to a group by every network it was opened for. A refusal is counted and
    /// returned; the next may succeed.
    pub fn send_to(&mut self, datagram: &[u8], to: impl Into<Endpoint>) -> io::Result<()> {
        let Some(destination) = to.into().socket_address() else {
            return self.count(Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT)));
        };
        if self.interfaces.is_empty() || !destination.ip().is_multicast() {
            let answer = self.socket.send_to(datagram, destination);
            return self.count(answer);
        }
        let mut all = Ok(());
        for index in 0..self.interfaces.len() {
            let by = send_groups_by(&self.socket, destination.is_ipv4(), self.interfaces[index]);
            let answer = by.and_then(|()| self.socket.send_to(datagram, destination));
            all = self.count(answer).and(all);
        }
        all
    }

    fn count(&mut self, answer: io::Result<()>) -> io::Result<()> {
        match &answer {
            Ok(()) => self.counters.sent += 1,
            Err(error) => {
                self.counters.send_errors += 1;
                self.counters.last_error = error.raw_os_error().unwrap_or(0);
            }
        }
        answer
    }

    /// Delivers every datagram that has arrived, oldest first. Does not wait.
    pub fn receive(&mut self, deliver: &mut dyn FnMut(Arrival<'_>)) {
        let errno = self.incoming.receive(&self.socket, &mut self.counters, None, deliver);
        if errno != 0 {
            self.counters.last_error = errno;
        }
    }

    /// What was counted so far.
    pub const fn counters(&self) -> LinkCounters {
        self.counters
    }
}

impl AsFd for ControlSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Control for ControlSocket {
    fn send(&mut self, datagram: &[u8], to: Endpoint) -> io::Result<()> {
        self.send_to(datagram, to)
    }

    fn receive(&mut self, deliver: &mut dyn FnMut(Arrival<'_>)) {
        self.receive(deliver);
    }
}
