//! What comes to one socket, parted between two who read it: each on a thread of its own, whenever it likes.
//!
//! A system has one socket for each address, and some senders send what is for another reader to the address of a
//! stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rtrb::{Consumer, Producer};
use tautline_proto::endpoint::Endpoint;
use tautline_proto::stream::Outgoing;
use tautline_proto::time::{LocalTime, Span};

use super::destinations::Destinations;
use super::told::Teller;
use super::{Arrival, Link, LinkCounters, TransmitStamp};
use crate::thread::memory;

/// What is set aside is no longer: a frame of Ethernet holds no more.
const BYTES: usize = 1500;

/// Says which datagrams are for the other reader.
pub type IsAside = Box<dyn Fn(&[u8]) -> bool + Send>;

/// One datagram on its way to the other reader.
#[derive(Clone, Copy)]
pub(crate) struct SetAside {
    len: usize,
    bytes: [u8; BYTES],
    source: Endpoint,
    arrival: LocalTime,
    stamp_uncertainty: Span,
    read: LocalTime,
    truncated: bool,
}

/// A link to which all comes, and which delivers all but what is for the other reader. It is the one that reads: it is
/// to be called for that, too.
pub struct DividedLink {
    link: Box<dyn Link>,
    is_aside: IsAside,
    aside: Producer<SetAside>,
    dropped: Arc<AtomicU64>,
    taken: u64,
}

/// What is for the other reader. It sends nothing.
pub struct AsideLink {
    aside: Consumer<SetAside>,
    dropped: Arc<AtomicU64>,
    received: u64,
}

/// Parts what comes to `link`: what `is_aside` says so of is set aside, where so many datagrams have room.
pub fn divide(
    link: Box<dyn Link>,
    datagrams: usize,
    is_aside: IsAside,
) -> (DividedLink, AsideLink) {
    let (producer, consumer) = memory::ring(datagrams);
    let dropped = Arc::new(AtomicU64::new(0));
    let aside = AsideLink { aside: consumer, dropped: Arc::clone(&dropped), received: 0 };
    (DividedLink { link, is_aside, aside: producer, dropped, taken: 0 }, aside)
}

impl SetAside {
    pub(crate) fn of(arrival: &Arrival<'_>) -> Self {
        let len = arrival.datagram.len().min(BYTES);
        let mut bytes = [0; BYTES];
        bytes[..len].copy_from_slice(&arrival.datagram[..len]);
        let &Arrival { source, arrival: at, stamp_uncertainty, read, truncated, .. } = arrival;
        let truncated = truncated || len < arrival.datagram.len();
        Self { len, bytes, source, arrival: at, stamp_uncertainty, read, truncated }
    }

    pub(crate) fn arrival(&self) -> Arrival<'_> {
        let &Self { len, source, arrival, stamp_uncertainty, read, truncated, .. } = self;
        let datagram = self.bytes.get(..len).unwrap_or_default();
        Arrival { datagram, source, arrival, stamp_uncertainty, read, truncated }
    }
}

impl Link for DividedLink {
    fn tell(&mut self, teller: Teller) {
        self.link.tell(teller);
    }

    fn queue(&mut self, packet: &Outgoing<'_>) -> bool {
        self.link.queue(packet)
    }

    fn flush(&mut self) {
        self.link.flush();
    }

    fn set_destinations(&mut self, destinations: &Destinations) -> bool {
        self.link.set_destinations(destinations)
    }

    fn receive(&mut self, deliver: &mut dyn FnMut(Arrival<'_>)) {
        let Self { link, is_aside, aside, dropped, taken } = self;
        link.receive(&mut |arrival| {
            if !is_aside(arrival.datagram) {
                return deliver(arrival);
            }
            *taken += 1;
            if aside.push(SetAside::of(&arrival)).is_err() {
                dropped.fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    fn transmit_stamps(&mut self, deliver: &mut dyn FnMut(TransmitStamp)) {
        self.link.transmit_stamps(deliver);
    }

    /// Of what it delivers.
    fn counters(&self) -> LinkCounters {
        let counters = self.link.counters();
        LinkCounters { received: counters.received.saturating_sub(self.taken), ..counters }
    }
}

impl Link for AsideLink {
    fn queue(&mut self, _: &Outgoing<'_>) -> bool {
        false
    }

    fn flush(&mut self) {}

    fn receive(&mut self, deliver: &mut dyn FnMut(Arrival<'_>)) {
        while let Ok(aside) = self.aside.pop() {
            self.received += 1;
            deliver(aside.arrival());
        }
    }

    fn transmit_stamps(&mut self, _: &mut dyn FnMut(TransmitStamp)) {}

    fn counters(&self) -> LinkCounters {
        let ring_drops = self.dropped.load(Ordering::Relaxed);
        LinkCounters { received: self.received, ring_drops, ..LinkCounters::default() }
    }
}
