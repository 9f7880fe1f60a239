//! Results that a jitter buffer returns.

use core::ops::Range;

use tautline_dsp::format::SampleFormat;

use crate::clock::ClockId;
use crate::endpoint::Endpoint;
use crate::ledger::PacketTrace;
use crate::packet::Invalid;
use crate::renderer::Renderer;
use crate::time::{Frames, LocalTime, MediaPoint, MediaTime};

/// Reason for a restart of the playout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resync {
    /// Another sender, or the same one restarted.
    NewSource,
    /// The media time jumped, or the sender paused.
    Jump,
    /// Presentation times moved: the clocks were mapped, stepped, or drifted too far.
    Moved,
}

/// Sender of packets that are ignored because another source is current.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stranger {
    /// Its address.
    pub from: Endpoint,
    /// Whether it uses the stream id of the current source.
    pub poses: bool,
}

/// Result for a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received<'a> {
    /// All frames will be played.
    Placed(Accepted<'a>),
    /// The first frames were late, the others will be played.
    Partly(Accepted<'a>, PacketTrace),
    /// Late: its turn was over.
    Late(PacketTrace),
    /// Received before, or already restored.
    Duplicate,
    /// Does not fit the timeline yet; a second such packet moves the timeline.
    Doubted,
    /// From another sender than the current source.
    Foreign,
    /// Too far in the future.
    Early,
    /// Not a packet of the stream.
    Invalid(Invalid),
}

impl Received<'_> {
    /// Trace of a packet that was late, in whole or in part.
    pub const fn late(&self) -> Option<PacketTrace> {
        match self {
            Self::Late(passage) | Self::Partly(_, passage) => Some(*passage),
            _ => None,
        }
    }
}

/// A placed packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted<'a> {
    /// Media time of the first frame.
    pub media: MediaTime,
    /// Audio as on the wire.
    pub payload: &'a [u8],
    /// Sample format of the audio.
    pub sample: SampleFormat,
}

/// Frames of a packet that will be played.
#[derive(Debug, Clone)]
pub struct Playable<'a> {
    /// Range of frames.
    pub frames: Range<MediaTime>,
    /// Their location in the playout.
    pub sound: PlayoutSound<'a>,
}

/// Access to the samples in the playout.
#[derive(Debug, Clone, Copy)]
pub struct PlayoutSound<'a>(pub(super) &'a Renderer);

impl<'a> PlayoutSound<'a> {
    /// Interleaved samples of these frames, in two parts if the playout's ring wraps: as received,
    /// for a quarter of its capacity after they were played.
    pub fn samples(self, frames: &Range<MediaTime>) -> [&'a [f32]; 2] {
        self.0.playout.samples(frames.start, frames.end - frames.start)
    }
}

/// Times of a block: of the request and at the DAC.
#[derive(Debug, Clone, Copy)]
pub struct PullTimes {
    /// Time of the request by the device's thread.
    pub now: LocalTime,
    /// Time at which the block's first frame meets the DAC.
    pub meets: LocalTime,
    /// Frames of silence that the device inserted since the last block.
    pub skipped: Frames,
    /// Clock that sets the device's pace ([`crate::device::Cycle::clock`]).
    pub clock: Option<ClockId>,
}

/// Missing frames of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hole {
    /// Range of frames.
    pub frames: Range<MediaTime>,
    /// Whether they come after the newest packet: missing if the stream continues, not counted if
    /// it ended there.
    pub is_tail: bool,
}

/// Result of pulling a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pulled {
    /// Position of the first frame; `None` if no stream plays.
    pub media: Option<MediaPoint>,
    /// Missing frames of the block.
    pub missing: Frames,
    /// Missing frames that were concealed.
    pub concealed: Frames,
    /// Reason, if the playout restarted for this block.
    pub resync: Option<Resync>,
}
