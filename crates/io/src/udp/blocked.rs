//! A blocking socket, only for measurements.

use std::io;
use std::net::SocketAddr;

use tautline_proto::time::Span;

use crate::link::{Datagram, LinkCounters, OpenError};
use crate::socket::descriptor::Socket;
use crate::socket::incoming::Incoming;
use crate::udp::open::{UdpOptions, open};

/// Receives with a waiting `recvmmsg`.
pub struct BlockedUdp {
    socket: Socket,
    local: SocketAddr,
    incoming: Incoming,
    counters: LinkCounters,
}

impl BlockedUdp {
    /// [`Self::receive`] waits up to `timeout`.
    pub fn open(options: &UdpOptions, timeout: Span) -> Result<Self, OpenError> {
        let socket = open(options)?;
        socket.block(timeout).map_err(|error| {
            let tried = format!("setting up the UDP socket for {}", options.bind);
            OpenError::new(tried, &error, "this is a bug in tautline: please report it")
        })?;
        Ok(Self {
            local: socket.local().unwrap_or(options.bind),
            socket,
            incoming: Incoming::new(options.batch, options.datagram_bytes, options.hosts()),
            counters: LinkCounters::default(),
        })
    }

    /// The bound address.
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// Waits and delivers one call's datagrams. `false` on timeout. Other errors are counted.
    pub fn receive(&mut self, deliver: &mut dyn FnMut(Datagram<'_>)) -> io::Result<bool> {
        match self.incoming.receive_blocked(&self.socket, &mut self.counters, deliver) {
            Ok(count) => Ok(count > 0),
            Err(libc::EAGAIN | libc::EINTR) => Ok(false),
            Err(errno) => {
                self.counters.last_error = errno;
                Err(io::Error::from_raw_os_error(errno))
            }
        }
    }

    /// Returns the counters since the socket was opened.
    pub const fn counters(&self) -> LinkCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::clock::now;

    #[test]
    fn blocked_receive_ends_by_datagram_or_timeout() {
        let timeout = Span::from_millis(20);
        let here = UdpOptions::receiver(([127, 0, 0, 1], 0).into());
        let mut blocked = BlockedUdp::open(&here, timeout).unwrap();
        let begun = now();
        assert!(!blocked.receive(&mut |_| panic!("nothing was sent")).unwrap());
        assert!(now() - begun >= timeout);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for datagram in [&b"one"[..], b"two", b"three"] {
            sender.send_to(datagram, blocked.local()).unwrap();
        }
        let mut arrived = Vec::new();
        while arrived.len() < 3 {
            let came_some = blocked.receive(&mut |datagram| {
                assert!(
                    begun <= datagram.arrival.at && datagram.arrival.at <= datagram.arrival.read
                );
                arrived.push(datagram.bytes.to_vec());
            });
            assert!(came_some.unwrap());
        }
        assert_eq!(arrived, [&b"one"[..], b"two", b"three"]);
        assert_eq!(blocked.counters().received, 3);
    }
}
