//! What people are to know of a stream that is received, without the words for it.

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

/// One matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiveNote {
    /// It is not played, as it would be noise.
    Refused(Refusal),
    /// It is not played: its packets prove another format than they are read in.
    Contradicted {
        /// What they prove.
        contradiction: Contradiction,
        /// What they are read in.
        format: StreamFormat,
    },
    /// Packets come that are not taken for their payload type, and nothing else does.
    WrongType(WrongType),
    /// Its sender announces nothing, and its packets need more than the latency.
    Needs {
        /// What they need.
        need: Need,
        /// What the device takes.
        device: Span,
        /// The latency as it was then.
        latency: Span,
        /// The longest there is room for.
        longest: Span,
        /// Who says what it is.
        rule: LatencyRule,
    },
    /// The latency is too short for packets so old and a device that takes so long.
    TooShort {
        /// How old packets are at most when they leave.
        packing_age: Span,
        /// What the device takes.
        device: Span,
        /// The latency that is kept.
        latency: Span,
    },
    /// Packets tell a presentation (AVTP) that is too soon for them to be played here. Only their talker can change it.
    PresentedTooSoon(Span),
    /// The sender promises less than works here, so more is kept.
    Raised {
        /// What it promises.
        promised: Span,
        /// How old packets are at most when they leave.
        packing_age: Span,
        /// What the device takes.
        device: Span,
        /// What is kept.
        kept: Span,
    },
    /// There is room for less than is wanted, so the longest there is room for is kept.
    NoRoom {
        /// What is wanted.
        wanted: Span,
        /// What there is room for.
        longest: Span,
    },
    /// The latency has no time for all repairs that packets allow.
    RepairShort {
        /// Packets repair others up to so long after they left.
        window: Span,
        /// The latency that is kept.
        latency: Span,
        /// The latency that has time for all.
        enough: Span,
    },
    /// The card runs further off the sender's than is followed.
    OutOfReach,
    /// The presentation times of its packets jump again and again.
    Unsteady(u64),
    /// Its talker's media clock restarts again and again, by the talker's own word.
    Restarting(u64),
    /// Its packets say that the clock of their presentation times is not to be relied upon.
    Uncertain,
    /// Packets under the name of its sender come from another host too.
    Posing {
        /// The name: an SSRC.
        ssrc: u32,
        /// The sender's own host.
        sender: Host,
        /// The other.
        other: Host,
    },
}

/// Why a stream cannot be played: its shape is another than was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// What its sender says that it is.
    pub theirs: StreamFormat,
    /// What was expected.
    pub ours: StreamFormat,
    /// The coding that its packets would be read as, where that is wrong.
    pub coding: Option<SampleFormat>,
    /// Which payload types are taken.
    pub codings: Codings,
}

impl Refusal {
    /// Whether its rate or its channels differ. One channel is played on all.
    pub fn is_of_another_shape(&self) -> bool {
        let Self { theirs, ours, .. } = self;
        let mono = theirs.channels == Channels::MONO && theirs.coder.is_none();
        theirs.rate != ours.rate || theirs.channels != ours.channels && !mono
    }
}

/// What came with a payload type that is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongType {
    /// What came most.
    pub came: OtherType,
    /// Which payload types are taken,
    pub codings: Codings,
    /// and for what.
    pub format: StreamFormat,
}
