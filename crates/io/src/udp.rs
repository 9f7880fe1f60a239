//! RTP's usual way: UDP, the system calls made on the caller's own thread.

pub(crate) mod address;
pub(crate) mod fixed;
pub mod forks;
pub(crate) mod incoming;
pub(crate) mod open;
pub mod pair;
pub(crate) mod receive_batch;
pub(crate) mod send_batch;
pub(crate) mod socket;
pub(crate) mod timestamp;
pub(crate) mod transmit;

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use rtrb::Producer;
use tautline_proto::ledger::Departure;
use tautline_proto::stream::Outgoing;

use crate::clock::now;
use crate::link::destinations::Destinations;
use crate::link::{Arrival, Link, LinkCounters, OpenError, Pollable, TransmitStamp};
pub use crate::udp::address::interface_label;
use crate::udp::incoming::Incoming;
use crate::udp::open::open;
pub use crate::udp::open::{
    DSCP_MEDIA, FragmentPolicy, UdpOptions, check_destinations, header_bytes, path_mtu,
    source_address,
};
use crate::udp::send_batch::SendBatch;
use crate::udp::socket::Socket;
use crate::udp::transmit::TransmitSampler;

/// A UDP link whose every call is the caller's own: [`Link::flush`] is one `sendmmsg` and
/// [`Link::receive`] one `recvmmsg` that does not wait (another only after a full batch).
///
/// The kernel's socket queue is the queue, and its stamp the arrival time.
pub struct DirectUdp {
    socket: Socket,
    local: SocketAddr,
    outgoing: SendBatch,
    incoming: Incoming,
    departures: Option<Producer<Departure>>,
    counters: LinkCounters,
    sampler: TransmitSampler,
    /// The second network, by which everything goes too.
    also: Option<Box<DirectUdp>>,
}

impl DirectUdp {
    /// Opens the socket and lays out everything that will ever be needed.
    pub fn open(options: &UdpOptions) -> Result<Self, OpenError> {
        let socket = open(options)?;
        let local = socket.local().unwrap_or(options.bind);
        Ok(Self {
            local,
            outgoing: SendBatch::new(
                if options.sends() { options.batch } else { 1 },
                options.datagram_bytes,
                (&options.destinations, options.most_destinations),
            ),
            incoming: Incoming::new(options, options.batch),
            departures: None,
            counters: LinkCounters::default(),
            sampler: TransmitSampler::every(options.transmit_stamp_every),
            also: options.also.as_deref().map(Self::open).transpose()?.map(Box::new),
            socket,
        })
    }

    /// The address that the socket is bound to.
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// Gives the link the ring into which it puts the instants of each packet once it is handed
    /// over.
    pub fn record_departures(&mut self, ring: Producer<Departure>) {
        self.departures = Some(ring);
    }

    /// The bytes that the kernel gave the receive and the send buffer, its own book-keeping
    /// included.
    pub fn buffers(&self) -> (usize, usize) {
        let bytes =
            |name| self.socket.option(libc::SOL_SOCKET, name).map_or(0, |n| n.max(0) as usize);
        (bytes(libc::SO_RCVBUF), bytes(libc::SO_SNDBUF))
    }
}

impl AsFd for DirectUdp {
    /// For waiting on the socket in a poll of the caller's own. Reading it by other means loses
    /// what is read to the link.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Pollable for DirectUdp {
    fn datagram_bytes(&self) -> usize {
        self.outgoing.datagram_bytes()
    }

    fn is_full(&self) -> bool {
        self.outgoing.is_full()
    }
}

impl Link for DirectUdp {
    fn queue(&mut self, packet: &Outgoing<'_>) -> bool {
        if let Some(also) = &mut self.also {
            also.queue(packet);
        }
        let taken = self.outgoing.queue(packet);
        self.counters.dropped += u64::from(!taken);
        taken
    }

    fn flush(&mut self) {
        if self.outgoing.queued() == 0 {
            return;
        }
        if let Some(also) = &mut self.also {
            also.flush();
        }
        let handed = now();
        self.outgoing.stamp(handed);
        self.sampler.choose(&mut self.outgoing);
        let outcome = self.outgoing.send(&self.socket);
        if let Some(ring) = &mut self.departures {
            for departure in self.outgoing.departures() {
                self.counters.departures_lost += u64::from(ring.push(departure).is_err());
            }
        }
        self.outgoing.clear();
        self.counters.sent += outcome.sent;
        if outcome.last_error != 0 {
            self.counters.send_errors += outcome.refused;
            self.counters.last_error = outcome.last_error;
            self.sampler.start_over(&self.socket);
        }
    }

    fn set_destinations(&mut self, destinations: &Destinations) -> bool {
        // Two networks have destinations of their own.
        if self.also.is_some() {
            return false;
        }
        if destinations.iter().any(|to| to.socket_address().is_none()) {
            return false;
        }
        // What was queued goes where it was meant to go.
        self.flush();
        self.outgoing.set_destinations(destinations.iter().filter_map(|to| to.socket_address()))
    }

    fn receive(&mut self, deliver: &mut dyn FnMut(Arrival<'_>)) {
        self.incoming.receive(&self.socket, &mut self.counters, deliver);
    }

    fn transmit_stamps(&mut self, deliver: &mut dyn FnMut(TransmitStamp)) {
        self.sampler.collect(&self.socket, &mut self.incoming.clock, deliver);
    }

    fn counters(&self) -> LinkCounters {
        let mut counters = self.counters;
        if let Some(also) = &self.also {
            let others = also.counters();
            counters.also = (others.sent, others.send_errors);
            counters.sent += others.sent;
            counters.send_errors += others.send_errors;
            counters.dropped += others.dropped;
            counters.last_error =
                if others.last_error == 0 { counters.last_error } else { others.last_error };
        }
        counters
    }
}
