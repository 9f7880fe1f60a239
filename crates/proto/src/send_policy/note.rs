//! Notes to the user about a sent stream. The caller writes the text.

use crate::endpoint::Host;
use crate::redundancy::Redundancy;
use crate::stream::Coding;
use crate::time::Span;

/// Note about a sent stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendNote {
    /// A receiver with a device like ours cannot keep the promised latency.
    TooShort {
        /// Maximum age of packets at departure.
        packing_age: Span,
        /// Promised latency.
        promised: Span,
        /// Latency that such a receiver keeps.
        kept: Span,
    },
    /// The receiver with this SSRC gets packets from only one of two networks.
    ComesOnce(u32),
    /// A receiver needs more latency than receivers may request.
    AsksBeyond {
        /// Receiver's host.
        host: Host,
        /// Maximum latency that receivers may request.
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
    /// A lost receiver, or its replacement, reports again.
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
    /// The packets of a period are sent together. The value is the packet time.
    SentAtOnce(Span),
    /// The stream adapted to the capacity of the path.
    Adapted {
        /// New coding. Bitrate changes cause no note.
        coding: Coding,
        /// New packet time.
        ptime: Span,
    },
    /// The payload type changed.
    NewPayloadType {
        /// Coding.
        coding: Coding,
        /// Its payload type.
        payload_type: u8,
    },
    /// The repair time is shorter than requested because packets reach no further.
    ShortReach {
        /// Span of the packets that may repair one.
        reach: Span,
        /// Requested repair time.
        wanted: Span,
    },
    /// The repair time is shorter than requested because the latency leaves no more.
    LessRepair {
        /// Time that the latency leaves.
        budget: Span,
        /// Requested repair time.
        wanted: Span,
        /// Promised latency.
        latency: Span,
        /// Latency that leaves the requested repair time.
        enough: Span,
    },
    /// Repairs are impossible.
    NoRepair(NoRepair),
    /// The losses need more symbols than receivers may request.
    MoreSymbols {
        /// Number of symbols needed.
        wanted: usize,
        /// Number of symbols in packets.
        got: usize,
    },
}

/// Reason why repairs are impossible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRepair {
    /// The repair budget is shorter than a packet.
    Budget {
        /// Budget.
        budget: Span,
        /// Packet time.
        ptime: Span,
    },
    /// The latency leaves no time for repairs.
    Latency {
        /// Promised latency.
        latency: Span,
        /// Requested redundancy.
        asked: Redundancy,
        /// Latency that leaves time for one packet.
        enough: Span,
        /// Packet time.
        ptime: Span,
    },
}
