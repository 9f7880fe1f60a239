//! Shared links: which stream owns a report.

use tautline_io::link::Datagram;
use tautline_proto::endpoint::Author;
use tautline_proto::wire::rtcp::author_of;

use crate::receive_engine::kept::StoredDatagram;

#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkShare {
    pub(crate) link: usize,
    pub(crate) planned: bool,
    pub(crate) author: Option<Author>,
}

pub(crate) struct SharedReport {
    pub(crate) author: Author,
    pub(crate) kept: StoredDatagram,
    pub(crate) received: bool,
}

impl SharedReport {
    pub(crate) fn of(datagram: &Datagram<'_>) -> Option<Self> {
        let author =
            Author { ssrc: author_of(datagram.bytes)?, host: datagram.arrival.from.host() };
        Some(Self { author, kept: StoredDatagram::of(datagram), received: false })
    }

    /// Whether the report is from this stream's sender, at any address except another known
    /// author's. `false` without a sender: an answer would count as a receiver.
    pub(crate) fn concerns(&self, shares: &LinkShare, authors: &[Author]) -> bool {
        let Some(author) = shares.author else { return false };
        author.ssrc == self.author.ssrc
            && (author.host == self.author.host || !authors.contains(&self.author))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use tautline_proto::endpoint::{Arrival, Endpoint};
    use tautline_proto::time::LocalTime;

    use super::*;

    fn author(ssrc: u32, host: u8) -> Author {
        Author { ssrc, host: IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)).into() }
    }

    #[test]
    fn a_report_is_for_its_senders_stream_from_wherever_that_speaks() {
        let shares = |author| LinkShare { link: 0, planned: false, author };
        let authors = [author(7, 1), author(7, 2), author(9, 3)];
        let (unknown, then) = (Endpoint::UNKNOWN, LocalTime::ZERO);
        let arrival = Arrival::exact(unknown, then, then);
        let concerned = |ssrc, host| {
            let kept = StoredDatagram::of(&Datagram { bytes: &[], arrival, truncated: false });
            let said = SharedReport { author: author(ssrc, host), kept, received: false };
            authors.map(|author| said.concerns(&shares(Some(author)), &authors))
        };
        assert_eq!(concerned(7, 1), [true, false, false]);
        assert_eq!(concerned(7, 2), [false, true, false]);
        assert_eq!(concerned(9, 4), [false, false, true], "its second network");
        assert_eq!(concerned(5, 1), [false; 3]);
    }
}
