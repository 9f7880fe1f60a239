//! What people are to know of a run, without the words for it: whoever runs the engine has those.

pub mod messages;

use tautline_proto::crf_follower::CrfNote;
use tautline_proto::endpoint::{Endpoint, Host};
use tautline_proto::receive_policy::ReceiveNote;
use tautline_proto::send_policy::SendNote;
use tautline_proto::target_delay::Journal;
use tautline_proto::time::Span;

use crate::plan::too_long::TooLong;

/// Puts a note into words, a sentence with the mend; `None` if it is nothing for those readers.
pub type Words = fn(&Note<'_>) -> Option<String>;

/// One matter.
#[derive(Debug, Clone, Copy)]
pub enum Note<'a> {
    /// Of a stream that is sent.
    Sending {
        /// Where to, as it was given.
        address: &'a str,
        /// The two networks that everything goes by, if it does.
        networks: Option<(&'a str, &'a str)>,
        /// What.
        note: &'a SendNote,
    },
    /// Of a stream that is received.
    Receiving {
        /// From where, as it was given.
        address: &'a str,
        /// What.
        note: &'a ReceiveNote,
    },
    /// Of a clock that is followed.
    Clock {
        /// Where it is heard, as it was given.
        address: &'a str,
        /// What.
        note: &'a CrfNote,
    },
    /// The path to a destination does not carry packets of a stream that is sent whole.
    Fragments {
        /// How long they are.
        too_long: &'a TooLong,
        /// Sound in one packet.
        ptime: Span,
    },
    /// The system refused packets.
    SystemRefused {
        /// By which network, where they go by two.
        network: Option<&'a str>,
        /// So many,
        refused: u64,
        /// of so many.
        of: u64,
        /// What it answered last: an `errno`.
        errno: i32,
    },
    /// The interface's queue dropped packets, as they came to it too late for their launch times.
    Unlaunched {
        /// The stream's address, as it was given.
        address: &'a str,
        /// So many,
        dropped: u64,
        /// of so many.
        of: u64,
        /// Of those, the ones that a ledger does not mark, as nobody could name them; 0 without a ledger.
        unnamed: u64,
    },
    /// The other end of a link is not connected any more.
    LinkLost {
        /// The stream's address, as it was given.
        address: &'a str,
        /// The other end.
        place: Endpoint,
    },
    /// It is connected again.
    LinkFound {
        /// The stream's address, as it was given.
        address: &'a str,
        /// The other end.
        place: Endpoint,
    },
    /// A link failed at something that no count tells of.
    LinkError {
        /// The stream's address, as it was given.
        address: &'a str,
        /// What the system answered first: an `errno`.
        errno: i32,
    },
    /// Another talker claimed the group that was claimed for a stream: nothing is sent until another is claimed.
    AddressTaken {
        /// The stream's address.
        address: &'a str,
        /// Who claimed it with more right.
        by: Endpoint,
    },
    /// Another address was claimed in the place of one that was lost, and the stream goes there.
    AddressMoved {
        /// Where it went before.
        from: &'a str,
        /// Where it goes.
        to: &'a str,
    },
    /// No receiver has answered.
    NobodyAnswers {
        /// Where packets went, as it was given.
        address: &'a str,
        /// Whether packets carried the sender's instants.
        stamps: bool,
    },
    /// The program was stopped for so long, as by SIGSTOP.
    Stopped(Span),
    /// What was to be written is not whole: a sentence.
    Unwritten(&'a str),
    /// Datagrams came that were not sealed with the stream's key, and nobody read them.
    Unopened {
        /// The stream's address, as it was given.
        address: &'a str,
        /// How many.
        datagrams: u64,
    },
    /// Packets of another sender came to the same port and were not played.
    AnotherSender {
        /// The stream's address, as it was given.
        address: &'a str,
        /// How many.
        packets: u64,
        /// Where they came from.
        host: Host,
    },
    /// Senders found no place at a link where several are heard.
    NoPlace {
        /// The stream's address, as it was given.
        address: &'a str,
        /// So many are heard at once.
        most: usize,
        /// From where the first came that found none.
        from: Endpoint,
    },
    /// What became of a latency that followed the packets.
    Followed {
        /// The stream's address, as it was given.
        address: &'a str,
        /// How it went, once the packets were measured,
        journal: &'a Journal,
        /// to this at first,
        first: Span,
        /// and to this at the end.
        last: Span,
    },
    /// More than half the packets came after their turn.
    MostlyLate {
        /// The stream's address, as it was given.
        address: &'a str,
        /// Whether packets carry their presentation time and no latency, so that only the talker can change it.
        presented: bool,
    },
    /// The sender's clock stayed unknown.
    PlacedByArrival {
        /// The stream's address, as it was given.
        address: &'a str,
    },
    /// Many packets were not found in what the card played.
    NotFound {
        /// So many,
        packets: u64,
        /// of so many.
        of: u64,
    },
}
