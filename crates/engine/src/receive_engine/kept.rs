//! Datagrams that arrived before a receiver was ready.

use tautline_io::link::destinations::Destinations;
use tautline_io::link::event_queue::EventSender;
use tautline_io::link::{Datagram, Link, LinkCounters, TransmitStamp};
use tautline_io::udp::pair::OpenedStream;
use tautline_proto::endpoint::Arrival;
use tautline_proto::stream::Outgoing;
use tautline_proto::time::LocalTime;

#[derive(Default)]
pub(super) struct StoredDatagrams(Vec<StoredDatagram>);

pub(crate) struct StoredDatagram {
    bytes: Box<[u8]>,
    pub(super) arrival: Arrival,
    truncated: bool,
}

impl StoredDatagram {
    pub(super) fn of(datagram: &Datagram<'_>) -> Self {
        let &Datagram { bytes, arrival, truncated } = datagram;
        Self { bytes: bytes.into(), arrival, truncated }
    }

    pub(super) fn datagram(&self) -> Datagram<'_> {
        Datagram { bytes: &self.bytes, arrival: self.arrival, truncated: self.truncated }
    }
}

impl StoredDatagrams {
    /// Maximum datagrams kept: half a second of the shortest packets.
    const MAX: usize = 4096;

    pub(super) fn keep(&mut self, datagram: &Datagram<'_>) {
        if self.0.len() < Self::MAX {
            self.0.push(StoredDatagram::of(datagram));
        }
    }

    pub(super) fn unread(self, opened: OpenedStream) -> OpenedStream {
        if self.0.is_empty() {
            return opened;
        }
        let OpenedStream { link, .. } = opened;
        let until = self.0.last().map_or(LocalTime::ZERO, |kept| kept.arrival.at);
        let unread = UnreadLink { link, kept: self.0, next: 0, until };
        OpenedStream { link: Box::new(unread), ..opened }
    }
}

struct UnreadLink {
    link: Box<dyn Link>,
    kept: Vec<StoredDatagram>,
    /// Next datagram to deliver. Delivered datagrams stay, because a device's thread must not free
    /// memory.
    next: usize,
    /// Arrival of the last kept datagram. The new socket's datagrams up to then are copies, as both
    /// sockets received the multicast group.
    until: LocalTime,
}

impl Link for UnreadLink {
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
        self.kept.iter().skip(self.next).for_each(|kept| deliver(kept.datagram()));
        self.next = self.kept.len();
        let until = self.until;
        self.link.receive(&mut |datagram| {
            if datagram.arrival.at > until {
                deliver(datagram);
            }
        });
    }

    fn transmit_stamps(&mut self, deliver: &mut dyn FnMut(TransmitStamp)) {
        self.link.transmit_stamps(deliver);
    }

    fn counters(&self) -> LinkCounters {
        self.link.counters()
    }
}
