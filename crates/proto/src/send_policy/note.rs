//! Notes about a sent stream. The caller writes the text.

use crate::endpoint::Host;
use crate::latency::LatencySum;
use crate::redundancy::Redundancy;
use crate::stream::Coding;
use crate::time::Span;

/// Note about a sent stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendNote {
    /// Latency too short for a device like ours.
    TooShort {
        /// Promised latency.
        promised: Span,
        /// Latency that such a device keeps.
        needs: LatencySum,
    },
    /// This SSRC gets packets from only one network.
    ComesOnce(u32),
    /// A receiver needs more latency than allowed.
    AsksBeyond {
        /// Receiver's host.
        host: Host,
        /// Maximum latency.
        limit: Span,
    },
    /// A reporting host is not a destination; its requests are ignored.
    Stranger(Host),
    /// A receiver stopped reporting.
    ReceiverLost {
        /// SSRC of the receiver.
        ssrc: u32,
        /// Host of the receiver.
        host: Host,
        /// Time since its last report.
        silence: Span,
        /// Times lost so far.
        times_lost: u32,
    },
    /// A lost receiver or its replacement reports.
    ReceiverBack {
        /// SSRC of the receiver.
        ssrc: u32,
        /// Host of the receiver.
        host: Host,
        /// Time without a report.
        silence: Span,
        /// Times lost so far.
        times_lost: u32,
    },
    /// Percentage of packets that a receiver lost within 3 s.
    Loss(u8),
    /// Packets of a period, with this packet time, are sent together.
    SentAtOnce(Span),
    /// Adapted to the path.
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
    /// Repair time shorter than requested: packets reach no further.
    ShortReach {
        /// Span of packets that repair a packet.
        reach: Span,
        /// Requested repair time.
        wanted: Span,
    },
    /// Repair time shorter than requested: the latency leaves no more time.
    LessRepair {
        /// Repair time within the latency.
        budget: Span,
        /// Requested repair time.
        wanted: Span,
        /// Promised latency.
        latency: Span,
        /// Sufficient latency.
        enough: Span,
    },
    /// Repairs are impossible.
    NoRepair(NoRepair),
    /// The losses need more symbols than allowed.
    MoreSymbols {
        /// Symbols needed.
        wanted: usize,
        /// Symbols in packets.
        got: usize,
    },
}

/// Why repairs are impossible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRepair {
    /// Budget shorter than a packet.
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
        requested: Redundancy,
        /// Latency for one packet.
        enough: Span,
        /// Packet time.
        ptime: Span,
    },
}
