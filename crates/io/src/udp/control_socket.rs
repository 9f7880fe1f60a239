//! A plain datagram socket for RTCP.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use crate::control::Control;
use crate::link::{Datagram, LinkCounters, OpenError};
use crate::socket::descriptor::Socket;
use crate::socket::incoming::Incoming;
use crate::socket::seal::{Seal, room, sealed_copy};
use crate::udp::open::{UdpOptions, open, send_groups_by};
use tautline_proto::endpoint::Endpoint;

const BATCH: usize = 4;

/// A non-blocking socket for RTCP, with kernel timestamps.
pub struct ControlSocket {
    socket: Socket,
    local: SocketAddr,
    incoming: Incoming,
    counters: LinkCounters,
    interfaces: Vec<u32>,
    seal: Option<Box<dyn Seal>>,
    sealed: Vec<u8>,
}

impl ControlSocket {
    /// Uses addresses, groups and DSCP in `options`.
    pub fn open(options: &UdpOptions) -> Result<Self, OpenError> {
        Self::open_sealed(options, None)
    }

    /// Opens a socket with `seal`. Failed decryptions are counted ([`LinkCounters::auth_failed`]).
    pub fn open_sealed(
        options: &UdpOptions,
        seal: Option<Box<dyn Seal>>,
    ) -> Result<Self, OpenError> {
        let socket = open(options)?;
        Ok(Self {
            local: socket.local().unwrap_or(options.bind),
            incoming: Incoming::new(
                options.batch.min(BATCH),
                options.datagram_bytes + room(seal.as_deref()),
                options.hosts(),
            ),
            counters: LinkCounters::default(),
            interfaces: options.group_interfaces()?,
            seal,
            sealed: Vec::new(),
            socket,
        })
    }

    /// The bound address.
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// Sends one datagram, to a group via every opened network. Errors are counted.
    pub fn send_to(&mut self, datagram: &[u8], to: impl Into<Endpoint>) -> io::Result<()> {
        let Some(seal) = &mut self.seal else { return self.send_as_it_is(datagram, to.into()) };
        let mut sealed = std::mem::take(&mut self.sealed);
        let answer = match sealed_copy(&mut **seal, datagram, &mut sealed) {
            Ok(bytes) => self.send_as_it_is(bytes, to.into()),
            Err(error) => self.count(Err(error)),
        };
        self.sealed = sealed;
        answer
    }

    fn send_as_it_is(&mut self, datagram: &[u8], to: Endpoint) -> io::Result<()> {
        let Some(destination) = to.socket_address() else {
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

    /// Delivers received datagrams, oldest first. Does not wait.
    pub fn receive(&mut self, deliver: &mut dyn FnMut(Datagram<'_>)) {
        let seal = self.seal.as_deref_mut();
        let errno = self.incoming.receive(&self.socket, &mut self.counters, seal, deliver);
        if errno != 0 {
            self.counters.last_error = errno;
        }
    }

    /// Counters since opening.
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

    fn receive(&mut self, deliver: &mut dyn FnMut(Datagram<'_>)) {
        self.receive(deliver);
    }
}
