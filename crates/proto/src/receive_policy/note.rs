//! Notes to the user about a received stream. The caller writes the text.

use tautline_dsp::format::SampleFormat;

use crate::endpoint::Host;
use crate::evidence::Contradiction;
use crate::jitter_buffer::OtherType;
use crate::latency::LatencyRule;
use crate::packet::Codings;
use crate::stream::StreamFormat;
use crate::time::Span;
use crate::unannounced::Need;
use crate::units::Channels;

/// Note about a received stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiveNote {
    /// The stream is not played because it would be noise.
    Refused(Refusal),
    /// The stream is not played because packets prove another format than the configured one.
    Contradicted {
        /// The contradiction.
        contradiction: Contradiction,
        /// Format in use.
        format: StreamFormat,
    },
    /// All packets have an unexpected payload type.
    WrongType(WrongType),
    /// Packets of a sender without an announcement need more than the latency.
    Needs {
        /// Required latency.
        need: Need,
        /// Time that the device needs.
        device: Span,
        /// Latency at that time.
        latency: Span,
        /// Maximum latency that the buffer has room for.
        longest: Span,
        /// Latency rule.
        rule: LatencyRule,
    },
    /// The latency is too short for the age of packets and for the device.
    TooShort {
        /// Maximum age of packets when sent.
        packing_age: Span,
        /// Time that the device needs.
        device: Span,
        /// Current latency.
        latency: Span,
    },
    /// The presentation times in packets (AVTP) are early by this span. Only the talker can change
    /// them.
    PresentedTooSoon(Span),
    /// The announced latency is too short for this receiver, so a longer one is used.
    Raised {
        /// Announced latency.
        promised: Span,
        /// Maximum age of packets when sent.
        packing_age: Span,
        /// Time that the device needs.
        device: Span,
        /// Latency in use.
        kept: Span,
    },
    /// The latency is limited to the maximum that the buffer has room for.
    NoRoom {
        /// Desired latency.
        wanted: Span,
        /// Maximum latency that the buffer has room for.
        longest: Span,
    },
    /// The latency is too short for some repairs.
    RepairShort {
        /// Maximum time between a packet and its redundant data.
        window: Span,
        /// Current latency.
        latency: Span,
        /// Latency that is sufficient for all repairs.
        enough: Span,
    },
    /// The card's drift is too large to follow.
    OutOfReach,
    /// Presentation times jump repeatedly. The value is the recent number of jumps.
    Unsteady(u64),
    /// The talker reports repeated restarts of its media clock. The value is the recent number of
    /// restarts.
    Restarting(u64),
    /// Packets mark the clock of their presentation times as uncertain.
    Uncertain,
    /// Another host sends packets with the SSRC of the sender.
    Posing {
        /// The SSRC.
        ssrc: u32,
        /// Host of the sender.
        sender: Host,
        /// Other host.
        other: Host,
    },
}

/// Reason for not playing a stream: its format does not match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// Announced format.
    pub theirs: StreamFormat,
    /// Expected format.
    pub ours: StreamFormat,
    /// Sample format in which packets would be read, if it is wrong.
    pub coding: Option<SampleFormat>,
    /// Accepted payload types.
    pub codings: Codings,
}

impl Refusal {
    /// Whether the rate or the channels differ. A single channel does not differ: it is played on
    /// all.
    pub fn is_of_another_shape(&self) -> bool {
        let Self { theirs, ours, .. } = self;
        let mono = theirs.channels == Channels::MONO && theirs.coder.is_none();
        theirs.rate != ours.rate || theirs.channels != ours.channels && !mono
    }
}

/// Packets with an unexpected payload type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongType {
    /// Most frequent unexpected payload type.
    pub came: OtherType,
    /// Accepted payload types.
    pub codings: Codings,
    /// Expected format.
    pub format: StreamFormat,
}
