//! What a stream has of a link and a control channel that it shares with other senders' streams.

use tautline_io::link::Arrival;
use tautline_proto::endpoint::{Author, Endpoint};
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::wire::rtcp::author_of;

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
    datagram: Vec<u8>,
    source: Endpoint,
    arrival: LocalTime,
    stamp_uncertainty: Span,
    read: LocalTime,
    /// Whether it was its own sender's stream that heard it.
    pub(crate) heard: bool,
}

impl Said {
    pub(crate) fn of(arrival: &Arrival<'_>) -> Option<Self> {
        let ssrc = author_of(arrival.datagram)?;
        Some(Self {
            author: Author { ssrc, host: arrival.source.host() },
            datagram: arrival.datagram.to_vec(),
            source: arrival.source,
            arrival: arrival.arrival,
            stamp_uncertainty: arrival.stamp_uncertainty,
            read: arrival.read,
            heard: false,
        })
    }

    /// As it arrived.
    pub(crate) fn arrival(&self) -> Arrival<'_> {
        Arrival {
            datagram: &self.datagram,
            source: self.source,
            arrival: self.arrival,
            stamp_uncertainty: self.stamp_uncertainty,
            read: self.read,
            truncated: false,
        }
    }

    /// Whether it is about this stream: its own sender's, or anybody's while it has none.
    pub(crate) fn concerns(&self, shares: &Shares) -> bool {
        shares.author.is_none_or(|author| author == self.author)
    }
}
