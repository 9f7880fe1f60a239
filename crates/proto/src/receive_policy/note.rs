//! Notes about a received stream. The caller writes the text.

use tautline_dsp::format::SampleFormat;

use crate::endpoint::Host;
use crate::evidence::Contradiction;
use crate::jitter_buffer::OtherType;
use crate::latency::{LatencyRule, LatencySum};
use crate::packet::Codings;
use crate::stream::StreamFormat;
use crate::time::Span;
use crate::unannounced::Need;
use crate::units::Channels;

/// Note about a received stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiveNote {
    /// Not played: it would be noise.
    Refused(Refusal),
    /// Not played: packets prove another format.
    Contradicted {
        /// The contradiction.
        contradiction: Contradiction,
        /// Format in use.
        format: StreamFormat,
    },
    /// All packets have an unexpected payload type.
    WrongType(WrongType),
    /// Unannounced packets need more than the latency.
    Needs {
        /// Required latency.
        need: Need,
        /// Device time.
        device: Span,
        /// Current latency.
        latency: Span,
        /// Maximum of the buffer.
        longest: Span,
        /// Latency rule.
        rule: LatencyRule,
    },
    /// Latency too short for packets, device and a usual network.
    TooShort {
        /// Sufficient latency.
        needs: LatencySum,
        /// Current latency.
        latency: Span,
    },
    /// Presentation times (AVTP) are early by this; only the talker can change them.
    PresentedTooSoon(Span),
    /// Announced latency too short here; a longer latency is used.
    Raised {
        /// Announced latency.
        promised: Span,
        /// Latency in use.
        needs: LatencySum,
    },
    /// The latency is limited by the buffer.
    NoRoom {
        /// Desired latency.
        wanted: Span,
        /// Maximum of the buffer.
        longest: Span,
    },
    /// Latency too short for some repairs.
    RepairShort {
        /// Maximum age of redundant data.
        window: Span,
        /// Current latency.
        latency: Span,
        /// Latency for all repairs and arrivals so far.
        enough: Span,
    },
    /// Drift too large to follow.
    OutOfReach,
    /// Recent jumps of presentation times.
    Unsteady(u64),
    /// Recent restarts of the talker's media clock.
    Restarting(u64),
    /// Packets mark their clock as uncertain.
    Uncertain,
    /// Percentage of packets lost within 3 s, from 1 %.
    Loss(u8),
    /// Percentage of packets lost within 3 s, from 20 %: the network carries less than the stream needs.
    HeavyLoss(u8),
    /// Most packets are late for a fixed latency.
    MostlyLate {
        /// Percentage of packets late within 3 s.
        percent: u8,
        /// Current latency.
        latency: Span,
        /// Latency that the packets need.
        needed: Span,
    },
    /// No packets for 3 s, without a goodbye.
    Stopped,
    /// Packets arrive again after this time.
    Resumed(Span),
    /// The sender's device is lost; the sender sends silence.
    DeviceLost,
    /// The sender's device is back, after this silence.
    DeviceBack(Span),
    /// Another host uses the sender's SSRC.
    Posing {
        /// The SSRC.
        ssrc: u32,
        /// Host of the sender.
        sender: Host,
        /// Other host.
        other: Host,
    },
}

/// Format mismatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// Announced format.
    pub theirs: StreamFormat,
    /// Expected format.
    pub ours: StreamFormat,
    /// Wrong sample format used for packets.
    pub coding: Option<SampleFormat>,
    /// Accepted payload types.
    pub codings: Codings,
}

impl Refusal {
    /// Whether rate or channels differ. One channel is played on all.
    pub fn is_of_another_shape(&self) -> bool {
        let Self { theirs, ours, .. } = self;
        let mono = theirs.channels == Channels::MONO && theirs.codec.is_none();
        theirs.rate != ours.rate || theirs.channels != ours.channels && !mono
    }
}

/// Packets with an unexpected payload type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongType {
    /// Most frequent unexpected payload type.
    pub arrived: OtherType,
    /// Accepted payload types.
    pub codings: Codings,
    /// Expected format.
    pub format: StreamFormat,
}
