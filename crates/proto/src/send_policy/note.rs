//! Notes to the user about a sent stream, without their text.

use crate::endpoint::Host;
use crate::redundancy::Redundancy;
use crate::stream::Coding;
use crate::time::Span;

/// One note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendNote {
    /// A receiver like this end cannot keep the promise.
    TooShort {
        /// Maximum age of packets at departure.
        packing_age: Span,
        /// Promised latency.
        promised: Span,
        /// Latency that such a receiver keeps.
        kept: Span,
    },
    /// A receiver gets packets from one of two networks only.
    ComesOnce(u32),
    /// A receiver needs more latency than receivers may request.
    AsksBeyond {
        /// Receiver's host.
        host: Host,
        /// Limit.
        limit: Span,
    },
    /// A host that is not a destination reports on this stream; its requests are ignored.
    Stranger(Host),
    /// A receiver stopped reporting without a goodbye.
    ReceiverLost {
        /// Its SSRC.
        ssrc: u32,
        /// Its host.
        host: Host,
        /// Time since its last report.
        silence: Span,
        /// Number of times lost so far.
        times_lost: u32,
    },
    /// A lost receiver reports again, or its replacement does.
    ReceiverBack {
        /// Its SSRC.
        ssrc: u32,
        /// Its host.
        host: Host,
        /// Time without a report.
        silence: Span,
        /// Number of times lost so far.
        times_lost: u32,
    },
    /// The packets of a period leave at once.
    SentAtOnce(Span),
    /// Adapted to the path's capacity.
    Adapted {
        /// Coding; bitrate changes cause no note.
        coding: Coding,
        /// Packet time.
        ptime: Span,
    },
    /// New payload type.
    NewPayloadType {
        /// Coding.
        coding: Coding,
        /// Its payload type.
        payload_type: u8,
    },
    /// Repair time shorter than requested: packets reach no further.
    ShortReach {
        /// Span of the packets that may repair one.
        reach: Span,
        /// Requested repair time.
        wanted: Span,
    },
    /// Repair time shorter than requested: the latency leaves no more.
    LessRepair {
        /// Time that the latency leaves.
        budget: Span,
        /// Requested repair time.
        wanted: Span,
        /// Promised latency.
        latency: Span,
        /// Latency that leaves all of it.
        enough: Span,
    },
    /// Repairs impossible.
    NoRepair(NoRepair),
    /// Losses need more symbols than receivers may request.
    MoreSymbols {
        /// Needed symbols.
        wanted: usize,
        /// Symbols in packets.
        got: usize,
    },
}

/// Reason why repairs are impossible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRepair {
    /// Repair budget shorter than a packet.
    Budget {
        /// Budget.
        budget: Span,
        /// Packet time.
        ptime: Span,
    },
    /// No time within the latency.
    Latency {
        /// Promised latency.
        latency: Span,
        /// Requested redundancy.
        asked: Redundancy,
        /// Latency with time for one packet.
        enough: Span,
        /// Packet time.
        ptime: Span,
    },
}
