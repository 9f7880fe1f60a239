//! Notes on a run for the user, without text: the program that runs the engine supplies it.

pub mod messages;

use tautline_proto::crf_follower::CrfNote;
use tautline_proto::endpoint::{Endpoint, Host};
use tautline_proto::receive_policy::ReceiveNote;
use tautline_proto::send_policy::SendNote;
use tautline_proto::target_delay::Journal;
use tautline_proto::time::Span;

use crate::plan::too_long::TooLong;

/// Converts a note into a sentence with the fix. `None` if the note does not concern these readers.
pub type Words = fn(&Note<'_>) -> Option<String>;

/// A note.
#[derive(Debug, Clone, Copy)]
pub enum Note<'a> {
    /// Note on a sent stream.
    Sending {
        /// Destination address, as given.
        address: &'a str,
        /// Both networks of a stream that is sent over two.
        networks: Option<(&'a str, &'a str)>,
        /// Note of the send policy.
        note: &'a SendNote,
    },
    /// Note on a received stream.
    Receiving {
        /// Source address, as given.
        address: &'a str,
        /// Note of the receive policy.
        note: &'a ReceiveNote,
    },
    /// Note on a followed clock.
    Clock {
        /// Address of the clock, as given.
        address: &'a str,
        /// Note of the CRF follower.
        note: &'a CrfNote,
    },
    /// Packets of a sent stream exceed the MTU of a path.
    Fragments {
        /// Size of the packets, and the MTU.
        too_long: &'a TooLong,
        /// Packet duration.
        ptime: Span,
    },
    /// The system refused to send packets.
    SystemRefused {
        /// Network, if packets are sent over two.
        network: Option<&'a str>,
        /// Number of refused packets.
        refused: u64,
        /// Number of all packets.
        of: u64,
        /// Last `errno`.
        errno: i32,
    },
    /// The interface's queue dropped packets that were too late for their launch times.
    DroppedByQueue {
        /// Address of the stream, as given.
        address: &'a str,
        /// Number of dropped packets.
        dropped: u64,
        /// Number of all packets.
        of: u64,
        /// Dropped packets that the ledger cannot mark because they are unidentified; 0 without a
        /// ledger.
        unnamed: u64,
    },
    /// The other end of a link disconnected.
    LinkLost {
        /// Address of the stream, as given.
        address: &'a str,
        /// The other end.
        place: Endpoint,
    },
    /// The other end of a link connected again.
    LinkFound {
        /// Address of the stream, as given.
        address: &'a str,
        /// The other end.
        place: Endpoint,
    },
    /// A link failed in a way that no counter shows.
    LinkError {
        /// Address of the stream, as given.
        address: &'a str,
        /// First `errno`.
        errno: i32,
    },
    /// Another talker took the group address claimed for a stream. Nothing is sent until another
    /// address is claimed.
    AddressTaken {
        /// Address of the stream.
        address: &'a str,
        /// Host that takes precedence.
        by: Endpoint,
    },
    /// The stream lost its claimed address and moved to another.
    AddressMoved {
        /// Previous address.
        from: &'a str,
        /// New address.
        to: &'a str,
    },
    /// No receiver has answered.
    NoAnswer {
        /// Destination address, as given.
        address: &'a str,
        /// Whether packets carried the sender's timestamps.
        stamps: bool,
    },
    /// The program was stopped for this time, for example by SIGSTOP.
    Stopped(Span),
    /// An output file is incomplete; holds the message.
    Unwritten(&'a str),
    /// Datagrams failed to decrypt and were dropped.
    AuthFailed {
        /// Address of the stream, as given.
        address: &'a str,
        /// Number of datagrams.
        datagrams: u64,
    },
    /// Packets of another sender arrived at the same port and were not played.
    AnotherSender {
        /// Address of the stream, as given.
        address: &'a str,
        /// Number of packets.
        packets: u64,
        /// Host of the other sender.
        host: Host,
    },
    /// A link for several senders was full.
    NoPlace {
        /// Address of the stream, as given.
        address: &'a str,
        /// Maximum simultaneous senders.
        most: usize,
        /// Address of the first rejected sender.
        from: Endpoint,
    },
    /// Outcome of an adaptive latency.
    Followed {
        /// Address of the stream, as given.
        address: &'a str,
        /// Course of the adaptation since the first measured packets.
        journal: &'a Journal,
        /// First adapted latency.
        first: Span,
        /// Final latency.
        last: Span,
    },
    /// More than half of the packets were late.
    MostlyLate {
        /// Address of the stream, as given.
        address: &'a str,
        /// Whether packets carry a presentation time and no latency, so that only the talker can
        /// change it.
        presented: bool,
    },
    /// The sender's clock was never known.
    PlacedByArrival {
        /// Address of the stream, as given.
        address: &'a str,
    },
    /// Many packets were not found in the sound that the card played.
    NotFound {
        /// Number of packets not found.
        packets: u64,
        /// Number of all packets.
        of: u64,
    },
}
