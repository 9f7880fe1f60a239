//! What the tests of real links share.

use std::net::SocketAddr;

use tautline_io::clock::now;
use tautline_io::link::Link;
use tautline_io::udp::{DirectUdp, UdpOptions};
use tautline_proto::endpoint::Endpoint;
use tautline_proto::ledger::Departure;
use tautline_proto::stream::Outgoing;
use tautline_proto::time::{LocalTime, MediaTime, Span};

/// An arrival that outlives its batch.
pub(crate) struct Got {
    pub(crate) bytes: Vec<u8>,
    pub(crate) source: Endpoint,
    pub(crate) arrival: LocalTime,
    pub(crate) uncertainty: Span,
    pub(crate) read: LocalTime,
    pub(crate) truncated: bool,
}

/// Receives until `count` datagrams have come, for ten seconds at most.
pub(crate) fn collect(link: &mut impl Link, count: usize) -> Vec<Got> {
    let mut all = Vec::new();
    let until = now() + Span::from_secs(10);
    while all.len() < count {
        assert!(now() < until, "{} of {count} datagrams came: {:?}", all.len(), link.counters());
        link.receive(&mut |a| {
            all.push(Got {
                bytes: a.datagram.to_vec(),
                source: a.source,
                arrival: a.arrival,
                uncertainty: a.stamp_uncertainty,
                read: a.read,
                truncated: a.truncated,
            });
        });
        std::thread::yield_now();
    }
    all
}

/// Receives once; how many came.
pub(crate) fn drain(link: &mut impl Link) -> usize {
    let mut count = 0;
    link.receive(&mut |_| count += 1);
    count
}

pub(crate) fn sender_to(destination: SocketAddr) -> DirectUdp {
    DirectUdp::open(&UdpOptions::sender(vec![destination])).unwrap()
}

/// The instants of a packet captured at `capture` that is to leave at `due`.
pub(crate) fn departure(capture: LocalTime, due: LocalTime) -> Departure {
    Departure {
        media: MediaTime::ZERO,
        capture,
        taken: capture,
        packed: capture,
        due,
        handed: LocalTime::NEVER,
    }
}

/// A packet that wants nothing but to be sent.
pub(crate) fn outgoing(datagram: &mut [u8]) -> Outgoing<'_> {
    let instants = departure(now(), LocalTime::ZERO);
    Outgoing { datagram, instants, handed_at: None, again: None }
}
