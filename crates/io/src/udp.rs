//! RTP's usual way: UDP, the system calls made on the caller's own thread.

pub(crate) mod address;
pub mod blocked;
pub(crate) mod fixed;
pub mod forks;
pub(crate) mod incoming;
pub(crate) mod open;
pub(crate) mod outlet;
pub mod pair;
pub(crate) mod receive_batch;
pub(crate) mod segments;
pub(crate) mod socket;
pub(crate) mod timestamp;
pub(crate) mod transmit;

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use tautline_proto::stream::Outgoing;

use crate::clock::now;
use crate::link::batch::Batch;
use crate::link::destinations::Destinations;
use crate::link::seal::{Seal, room};
use crate::link::told::{LinkEvent, Teller};
use crate::link::{Arrival, Link, LinkCounters, OpenError, Pollable, TransmitStamp};
pub use crate::udp::address::interface_label;
use crate::udp::incoming::Incoming;
use crate::udp::open::open;
pub use crate::udp::open::{
    DSCP_MEDIA, FragmentPolicy, PORT_HELD, UdpOptions, check_destinations, header_bytes, path_mtu,
    source_address,
};
use crate::udp::outlet::{Outlet, Sent};
use crate::udp::transmit::TransmitSampler;

/// A UDP link whose every call is the caller's own: [`Link::flush`] is one `sendmmsg` and
/// [`Link::receive`] one `recvmmsg` that does not wait (another only after a full batch).
///
/// The kernel's socket queue is the queue, and its stamp the arrival time.
pub struct DirectUdp {
    local: SocketAddr,
    batch: Batch,
    outlet: Outlet,
    /// The second network, by which everything goes too.
    also: Option<Box<Outlet>>,
    seal: Option<Box<dyn Seal>>,
    incoming: Incoming,
    teller: Option<Teller>,
    /// The `errno` that was told last.
    failed: i32,
    counters: LinkCounters,
    sampler: TransmitSampler,
}

impl DirectUdp {
    /// Opens the socket and lays out everything that will ever be needed. Datagrams go and come as
    /// they are.
    pub fn open(options: &UdpOptions) -> Result<Self, OpenError> {
        Self::open_sealed(options, None)
    }

    /// The same with a seal on every datagram, if there is one: what is sent is longer by its room.
    pub fn open_sealed(
        options: &UdpOptions,
        seal: Option<Box<dyn Seal>>,
    ) -> Result<Self, OpenError> {
        let seal_room = room(seal.as_deref());
        let capacity = if options.sends() { options.batch.max(2) } else { 1 };
        let outlet = |options: &UdpOptions| {
            let UdpOptions { destinations, most_destinations, .. } = options;
            Ok(Outlet::new(open(options)?, capacity, destinations, *most_destinations))
        };
        let first = outlet(options)?;
        Ok(Self {
            local: first.socket.local().unwrap_or(options.bind),
            batch: Batch::new(capacity, options.datagram_bytes, seal_room),
            also: options.also.as_deref().map(outlet).transpose()?.map(Box::new),
            outlet: first,
            seal,
            incoming: Incoming::new(options, options.batch, seal_room),
            teller: None,
            failed: 0,
            counters: LinkCounters::default(),
            sampler: TransmitSampler::every(options.transmit_stamp_every),
        })
    }

    fn count(&mut self, outcome: Sent) {
        self.counters.sent += outcome.sent;
        self.counters.send_errors += outcome.refused;
        self.fail(outcome.last_error);
    }

    /// A system call failed, if `errno` is not 0. That the same goes on is no news.
    fn fail(&mut self, errno: i32) {
        if errno == 0 {
            return;
        }
        self.counters.last_error = errno;
        if let Some(teller) = self.teller.as_mut().filter(|_| self.failed != errno) {
            self.failed = errno;
            teller.event(LinkEvent::Error(errno));
        }
    }

    /// The address that the socket is bound to.
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// The bytes that the kernel gave the receive and the send buffer, its own book-keeping
    /// included.
    pub fn buffers(&self) -> (usize, usize) {
        let bytes = |name| {
            self.outlet.socket.option(libc::SOL_SOCKET, name).map_or(0, |n| n.max(0) as usize)
        };
        (bytes(libc::SO_RCVBUF), bytes(libc::SO_SNDBUF))
    }
}

impl AsFd for DirectUdp {
    /// For waiting on the socket in a poll of the caller's own. Reading it by other means loses
    /// what is read to the link.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.outlet.socket.as_fd()
    }
}

impl Pollable for DirectUdp {
    fn datagram_bytes(&self) -> usize {
        self.batch.datagram_bytes()
    }

    fn is_full(&self) -> bool {
        self.batch.is_full()
    }
}

impl Link for DirectUdp {
    fn tell(&mut self, teller: Teller) {
        self.teller = Some(teller);
    }

    fn queue(&mut self, packet: &Outgoing<'_>) -> bool {
        let taken = self.outlet.sends() && self.batch.queue(packet);
        self.counters.dropped += u64::from(!taken);
        taken
    }

    fn flush(&mut self) {
        if self.batch.queued() == 0 {
            return;
        }
        self.batch.finish(now(), self.seal.as_deref_mut());
        self.sampler.choose(&self.batch, &mut self.outlet);
        let outcome = self.outlet.send(&self.batch);
        self.count(outcome);
        if outcome.last_error != 0 {
            self.sampler.start_over(&self.outlet.socket);
        }
        if let Some(also) = &mut self.also {
            let outcome = also.send(&self.batch);
            self.counters.also.0 += outcome.sent;
            self.counters.also.1 += outcome.refused;
            self.count(outcome);
        }
        if let Some(teller) = self.teller.as_mut().filter(|teller| teller.tells_departures()) {
            for departure in self.batch.departures() {
                self.counters.departures_lost += u64::from(!teller.departure(departure));
            }
        }
        self.batch.clear();
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
        self.outlet.set_destinations(destinations.iter().filter_map(|to| to.socket_address()))
    }

    fn receive(&mut self, deliver: &mut dyn FnMut(Arrival<'_>)) {
        let (socket, seal) = (&self.outlet.socket, self.seal.as_deref_mut());
        let errno = self.incoming.receive(socket, &mut self.counters, seal, deliver);
        self.fail(errno);
    }

    fn transmit_stamps(&mut self, deliver: &mut dyn FnMut(TransmitStamp)) {
        self.sampler.collect(&self.outlet.socket, &mut self.incoming.clock, deliver);
    }

    fn counters(&self) -> LinkCounters {
        self.counters
    }
}
