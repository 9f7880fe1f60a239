//! What came to a link while nobody was ready to play it, and to a channel that several streams share.

use tautline_io::link::destinations::Destinations;
use tautline_io::link::event_queue::EventSender;
use tautline_io::link::{Datagram, Link, LinkCounters, TransmitStamp};
use tautline_io::udp::pair::OpenedStream;
use tautline_proto::endpoint::{Arrival, Author};
use tautline_proto::stream::Outgoing;
use tautline_proto::time::LocalTime;
use tautline_proto::wire::rtcp::author_of;

/// Datagrams that were read and are not played yet, oldest first.
#[derive(Default)]
pub(super) struct KeptDatagrams(Vec<KeptDatagram>);

/// A datagram that outlives its buffer.
pub(crate) struct KeptDatagram {
    bytes: Box<[u8]>,
    pub(super) arrival: Arrival,
    truncated: bool,
}

impl KeptDatagram {
    pub(super) fn of(datagram: &Datagram<'_>) -> Self {
        let &Datagram { bytes, arrival, truncated } = datagram;
        Self { bytes: bytes.into(), arrival, truncated }
    }

    pub(super) fn datagram(&self) -> Datagram<'_> {
        Datagram { bytes: &self.bytes, arrival: self.arrival, truncated: self.truncated }
    }
}

impl KeptDatagrams {
    /// No more are kept: half a second of the shortest packets.
    const MOST: usize = 4096;

    pub(super) fn keep(&mut self, datagram: &Datagram<'_>) {
        if self.0.len() < Self::MOST {
            self.0.push(KeptDatagram::of(datagram));
        }
    }

    /// The stream as if nobody had read of it yet.
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

/// A link that delivers first what was read of it before.
struct UnreadLink {
    link: Box<dyn Link>,
    kept: Vec<KeptDatagram>,
    /// The first that was not delivered. What was delivered stays: a device's thread gives back no memory.
    next: usize,
    /// The arrival of the last. A socket of a group that was opened meanwhile has copies of some.
    until: LocalTime,
}

impl Link for UnreadLink {
    fn tell(&mut self, teller: EventSender) {
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

/// What a stream has of the link that it shares.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shares {
    /// The how many-th shared link.
    pub(crate) link: usize,
    /// Whether it was planned, and not laid out for whoever comes.
    pub(crate) planned: bool,
    /// Whose stream it is, once that is known.
    pub(crate) author: Option<Author>,
}

/// A report that arrived at a shared channel.
pub(crate) struct Said {
    pub(crate) author: Author,
    pub(crate) kept: KeptDatagram,
    /// Whether it was its own sender's stream that heard it.
    pub(crate) heard: bool,
}

impl Said {
    pub(crate) fn of(datagram: &Datagram<'_>) -> Option<Self> {
        let author =
            Author { ssrc: author_of(datagram.bytes)?, host: datagram.arrival.from.host() };
        Some(Self { author, kept: KeptDatagram::of(datagram), heard: false })
    }

    /// Whether it is about this stream of those whose `authors` are known: its own sender's, from
    /// wherever that speaks by now. Nobody's while it has none: who is answered counts a receiver more.
    pub(crate) fn concerns(&self, shares: &Shares, authors: &[Author]) -> bool {
        let Some(author) = shares.author else { return false };
        author.ssrc == self.author.ssrc
            && (author.host == self.author.host || !authors.contains(&self.author))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use tautline_proto::endpoint::Endpoint;

    use super::*;

    fn author(ssrc: u32, host: u8) -> Author {
        Author { ssrc, host: IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)).into() }
    }

    #[test]
    fn a_report_is_for_its_senders_stream_from_wherever_that_speaks() {
        let shares = |author| Shares { link: 0, planned: false, author };
        let authors = [author(7, 1), author(7, 2), author(9, 3)];
        let (unknown, then) = (Endpoint::UNKNOWN, LocalTime::ZERO);
        let arrival = Arrival::exact(unknown, then, then);
        let concerned = |ssrc, host| {
            let kept = KeptDatagram { bytes: Box::default(), arrival, truncated: false };
            let said = Said { author: author(ssrc, host), kept, heard: false };
            authors.map(|author| said.concerns(&shares(Some(author)), &authors))
        };
        assert_eq!(concerned(7, 1), [true, false, false]);
        assert_eq!(concerned(7, 2), [false, true, false]);
        assert_eq!(concerned(9, 4), [false, false, true], "its second network");
        assert_eq!(concerned(5, 1), [false; 3]);
    }
}
