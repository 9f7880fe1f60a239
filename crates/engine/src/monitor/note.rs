//! Notes for the user; the program that runs the engine supplies the text.

pub mod messages;

use tautline_proto::crf_follower::CrfNote;
use tautline_proto::endpoint::{Endpoint, Host};
use tautline_proto::receive_policy::ReceiveNote;
use tautline_proto::send_policy::SendNote;
use tautline_proto::target_delay::Journal;
use tautline_proto::time::Span;
use tautline_proto::zone::{ClaimRefused, ZoneEvent};

use crate::plan::too_long::TooLong;

/// Text with the fix; `None` if the note does not concern these readers.
pub type Words = fn(&Note<'_>) -> Option<String>;

/// A note.
#[derive(Debug, Clone, Copy)]
pub enum Note<'a> {
    /// Sent stream.
    Sending {
        /// As given.
        address: &'a str,
        /// Both networks of a stream that is sent over two networks.
        networks: Option<(&'a str, &'a str)>,
        /// Send policy's note.
        note: &'a SendNote,
    },
    /// Received stream.
    Receiving {
        /// As given.
        address: &'a str,
        /// Receive policy's note.
        note: &'a ReceiveNote,
    },
    /// Followed clock.
    Clock {
        /// As given.
        address: &'a str,
        /// CRF follower's note.
        note: &'a CrfNote,
    },
    /// Packets exceed a path's MTU.
    Fragments {
        /// Packet size and MTU.
        too_long: &'a TooLong,
        /// Packet duration.
        ptime: Span,
    },
    /// The system refused packets.
    SystemRefused {
        /// Network, if there are two.
        network: Option<&'a str>,
        /// Refused packets.
        refused: u64,
        /// All packets.
        of: u64,
        /// Last `errno`.
        errno: i32,
    },
    /// The interface's queue dropped packets too late to launch.
    DroppedByQueue {
        /// As given.
        address: &'a str,
        /// Dropped packets.
        dropped: u64,
        /// All packets.
        of: u64,
        /// Dropped packets that the ledger cannot identify; 0 without a ledger.
        unnamed: u64,
    },
    /// Link disconnected.
    LinkLost {
        /// As given.
        address: &'a str,
        /// Peer.
        place: Endpoint,
    },
    /// Link connected again.
    LinkFound {
        /// As given.
        address: &'a str,
        /// Peer.
        place: Endpoint,
    },
    /// Link failure without a counter.
    LinkError {
        /// As given.
        address: &'a str,
        /// First `errno`.
        errno: i32,
    },
    /// Another talker took the claimed group. Sending pauses until the next claim.
    AddressTaken {
        /// Stream address.
        address: &'a str,
        /// Preferred host.
        by: Endpoint,
    },
    /// The stream moved from a lost claim.
    AddressMoved {
        /// Previous.
        from: &'a str,
        /// New.
        to: &'a str,
    },
    /// No receiver answered.
    NoAnswer {
        /// As given.
        address: &'a str,
        /// Whether packets had timestamps.
        stamps: bool,
    },
    /// The program was stopped this long, for example by SIGSTOP.
    Stopped(Span),
    /// Decision of the zone.
    Zone(&'a ZoneEvent),
    /// A claim without effect.
    ClaimRefused {
        /// Announcement port, as given.
        address: &'a str,
        /// Reason.
        why: ClaimRefused,
    },
    /// Incomplete output file; the message.
    Unwritten(&'a str),
    /// Dropped datagrams: decryption failed.
    AuthFailed {
        /// As given.
        address: &'a str,
        /// Dropped datagrams.
        datagrams: u64,
    },
    /// Packets of another sender at the port, not played.
    AnotherSender {
        /// As given.
        address: &'a str,
        /// Their number.
        packets: u64,
        /// Its host.
        host: Host,
    },
    /// A link for several senders was full.
    NoPlace {
        /// As given.
        address: &'a str,
        /// Maximum senders.
        maximum: usize,
        /// First rejected sender.
        from: Endpoint,
    },
    /// Outcome of an adaptive latency.
    Followed {
        /// As given.
        address: &'a str,
        /// Course since the first measurement.
        journal: &'a Journal,
        /// First latency.
        first: Span,
        /// Final latency.
        last: Span,
    },
    /// Sender's clock never known.
    PlacedByArrival {
        /// As given.
        address: &'a str,
    },
    /// Many packets not found in the played sound.
    NotFound {
        /// Not found.
        packets: u64,
        /// All packets.
        of: u64,
    },
}
