//! Splits one socket's datagrams between readers on two threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rtrb::{Consumer, Producer};
use tautline_proto::stream::Outgoing;

use super::destinations::Destinations;
use super::event_queue::EventSender;
use super::{Datagram, Link, LinkCounters, TransmitStamp};
use crate::socket::DatagramHead;
use crate::thread::memory;

const BYTES: usize = 1500;

/// Selects the datagrams for the other reader.
pub type IsAside = Box<dyn Fn(&[u8]) -> bool + Send>;

#[derive(Clone, Copy)]
pub(crate) struct SetAside {
    head: DatagramHead,
    bytes: [u8; BYTES],
}

/// Delivers all other datagrams. Only this link reads the socket, so it must also be polled for the
/// other reader.
pub struct DividedLink {
    link: Box<dyn Link>,
    is_aside: IsAside,
    aside: Producer<SetAside>,
    dropped: Arc<AtomicU64>,
    taken: u64,
}

/// The other reader's link. It does not send.
pub struct AsideLink {
    aside: Consumer<SetAside>,
    dropped: Arc<AtomicU64>,
    received: u64,
}

/// Keeps the datagrams that `is_aside` selects, with room for `datagrams`.
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
    pub(crate) fn of(datagram: &Datagram<'_>) -> Self {
        let len = datagram.bytes.len().min(BYTES);
        let mut bytes = [0; BYTES];
        bytes[..len].copy_from_slice(&datagram.bytes[..len]);
        let mut head = DatagramHead::new(datagram);
        (head.len, head.truncated) = (len, head.truncated || len < head.len);
        Self { head, bytes }
    }

    pub(crate) fn arrival(&self) -> Datagram<'_> {
        self.head.of(self.bytes.get(..self.head.len).unwrap_or_default())
    }
}

impl Link for DividedLink {
    fn notify(&mut self, event_sender: EventSender) {
        self.link.notify(event_sender);
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

    fn receive(&mut self, deliver: &mut dyn FnMut(Datagram<'_>)) {
        let Self { link, is_aside, aside, dropped, taken } = self;
        link.receive(&mut |datagram| {
            if !is_aside(datagram.bytes) {
                return deliver(datagram);
            }
            *taken += 1;
            if aside.push(SetAside::of(&datagram)).is_err() {
                dropped.fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    fn transmit_stamps(&mut self, deliver: &mut dyn FnMut(TransmitStamp)) {
        self.link.transmit_stamps(deliver);
    }

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

    fn receive(&mut self, deliver: &mut dyn FnMut(Datagram<'_>)) {
        while let Ok(aside) = self.aside.pop() {
            self.received += 1;
            deliver(aside.arrival());
        }
    }

    fn counters(&self) -> LinkCounters {
        let ring_drops = self.dropped.load(Ordering::Relaxed);
        LinkCounters { received: self.received, ring_drops, ..LinkCounters::default() }
    }
}
