//! What people are to know of a stream that is sent, without the words for it.

use crate::endpoint::Host;
use crate::redundancy::Redundancy;
use crate::stream::Coding;
use crate::time::Span;

/// One matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendNote {
    /// A receiver like this end cannot keep what is promised.
    TooShort {
        /// How old packets are at most when they leave.
        packing_age: Span,
        /// What is promised.
        promised: Span,
        /// What such a receiver keeps.
        kept: Span,
    },
    /// A receiver gets by one network what goes by two.
    ComesOnce(u32),
    /// A receiver asks for more latency than receivers may ask for.
    AsksBeyond {
        /// The receiver's.
        host: Host,
        /// What they may ask for.
        limit: Span,
    },
    /// Somebody reports on this stream to whom nothing is sent, so what is asked for does not count.
    Stranger(Host),
    /// A receiver stopped reporting without a goodbye.
    ReceiverLost {
        /// Its name.
        ssrc: u32,
        /// Its host.
        host: Host,
        /// The time since its last report.
        silence: Span,
        /// How often it was lost so far.
        times_lost: u32,
    },
    /// A receiver that was lost reports again, or another in its place.
    ReceiverBack {
        /// Its name.
        ssrc: u32,
        /// Its host.
        host: Host,
        /// The time without a report.
        silence: Span,
        /// How often it was lost so far.
        times_lost: u32,
    },
    /// The packets of a period leave at once.
    SentAtOnce(Span),
    /// The path carries more or less than before: the stream is sent so from now on.
    Adapted {
        /// The coding; its bit rate changes without a note.
        coding: Coding,
        /// Sound in one packet.
        ptime: Span,
    },
    /// Packets have another payload type from now on.
    NewPayloadType {
        /// For this coding,
        coding: Coding,
        /// this one.
        payload_type: u8,
    },
    /// Packets are repaired in less time than is asked for, as they reach no further.
    ShortReach {
        /// The time of the packets that may repair one.
        reach: Span,
        /// What is asked for.
        wanted: Span,
    },
    /// Packets are repaired in less time than is asked for, as the latency leaves no more.
    LessRepair {
        /// What the latency leaves.
        budget: Span,
        /// What is asked for.
        wanted: Span,
        /// The latency that is promised.
        latency: Span,
        /// The latency that leaves all of it.
        enough: Span,
    },
    /// Nothing can be repaired.
    NoRepair(NoRepair),
    /// Losses ask for more symbols than receivers may ask for.
    MoreSymbols {
        /// What they ask for.
        wanted: usize,
        /// What packets carry.
        got: usize,
    },
}

/// Why nothing can be repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRepair {
    /// The budget holds no packet.
    Budget {
        /// What it is.
        budget: Span,
        /// Sound in one packet.
        ptime: Span,
    },
    /// The latency leaves no time for it.
    Latency {
        /// What is promised.
        latency: Span,
        /// What was asked for.
        asked: Redundancy,
        /// The latency that leaves time for one packet.
        enough: Span,
        /// Sound in one packet.
        ptime: Span,
    },
}
