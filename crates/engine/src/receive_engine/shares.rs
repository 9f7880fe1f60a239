//! What a stream has of a link and a control channel that it shares with other senders' streams.

use tautline_io::link::Datagram;
use tautline_proto::endpoint::{Arrival, Author};
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
    bytes: Vec<u8>,
    arrival: Arrival,
    /// Whether it was its own sender's stream that heard it.
    pub(crate) heard: bool,
}

impl Said {
    pub(crate) fn of(datagram: &Datagram<'_>) -> Option<Self> {
        let &Datagram { bytes, arrival, .. } = datagram;
        let author = Author { ssrc: author_of(bytes)?, host: arrival.from.host() };
        Some(Self { author, bytes: bytes.to_vec(), arrival, heard: false })
    }

    pub(crate) fn arrival(&self) -> Datagram<'_> {
        Datagram { bytes: &self.bytes, arrival: self.arrival, truncated: false }
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
    use tautline_proto::time::LocalTime;

    use super::*;

    fn author(ssrc: u32, host: u8) -> Author {
        Author { ssrc, host: IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)).into() }
    }

    #[test]
    fn a_report_is_for_its_senders_stream_from_wherever_that_speaks() {
        let shares = |author| Shares { link: 0, planned: false, author };
        let authors = [author(7, 1), author(7, 2), author(9, 3)];
        let concerned = |ssrc, host| {
            let now = LocalTime::ZERO;
            let arrival = Arrival::exact(Endpoint::UNKNOWN, now, now);
            let said =
                Said { author: author(ssrc, host), bytes: Vec::new(), arrival, heard: false };
            authors.map(|author| said.concerns(&shares(Some(author)), &authors))
        };
        assert_eq!(concerned(7, 1), [true, false, false]);
        assert_eq!(concerned(7, 2), [false, true, false]);
        assert_eq!(concerned(9, 4), [false, false, true], "its second network");
        assert_eq!(concerned(5, 1), [false; 3]);
    }
}
