//! Results that a jitter buffer returns.

use core::ops::Range;

use tautline_dsp::format::SampleFormat;

use crate::clock::ClockId;
use crate::endpoint::Endpoint;
use crate::ledger::PacketTrace;
use crate::packet::Invalid;
use crate::renderer::Renderer;
use crate::time::{Frames, LocalTime, MediaPoint, MediaTime};

/// Why the playout restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resync {
    /// Another sender, or a restart.
    NewSource,
    /// Media time jump, or a pause.
    Jump,
    /// Presentation times moved: clock step, new mapping, or drift.
    Moved,
}

/// Ignored sender: another is current.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stranger {
    /// Address of the sender.
    pub from: Endpoint,
    /// Whether the sender uses the source's stream id.
    pub poses: bool,
}

/// Outcome of handling a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received<'a> {
    /// All frames will be played.
    Placed(Accepted<'a>),
    /// The first frames were late.
    Partly(Accepted<'a>, PacketTrace),
    /// The packet arrived after its turn.
    Late(PacketTrace),
    /// Already received or restored.
    Duplicate,
    /// Off the timeline; a second such packet moves the timeline.
    Doubted,
    /// From another sender.
    Foreign,
    /// Too far in the future.
    Early,
    /// Not a packet of the stream.
    Invalid(Invalid),
}

impl Received<'_> {
    /// Trace of a packet late in part or whole.
    pub const fn late(&self) -> Option<PacketTrace> {
        match self {
            Self::Late(passage) | Self::Partly(_, passage) => Some(*passage),
            _ => None,
        }
    }
}

/// Placed packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted<'a> {
    /// Media time of the first frame.
    pub media: MediaTime,
    /// Audio as in the packet.
    pub payload: &'a [u8],
    /// Sample format of the audio.
    pub sample: SampleFormat,
}

/// Frames that will be played.
#[derive(Debug, Clone)]
pub struct Playable<'a> {
    /// Range of frames.
    pub frames: Range<MediaTime>,
    /// Location of the frames in the playout.
    pub sound: PlayoutSound<'a>,
}

/// Access to the samples in the playout.
#[derive(Debug, Clone, Copy)]
pub struct PlayoutSound<'a>(pub(super) &'a Renderer);

impl<'a> PlayoutSound<'a> {
    /// Interleaved samples, in two parts if the ring wraps. Available until another quarter of the
    /// capacity was played.
    pub fn samples(self, frames: &Range<MediaTime>) -> [&'a [f32]; 2] {
        self.0.playout.samples(frames.start, frames.end - frames.start)
    }
}

/// Times of a block.
#[derive(Debug, Clone, Copy)]
pub struct PullTimes {
    /// Request by the device thread.
    pub now: LocalTime,
    /// First frame at the DAC.
    pub meets: LocalTime,
    /// Inserted silence since the last block.
    pub skipped: Frames,
    /// Clock of the device ([`crate::device::Cycle::clock`]).
    pub clock: Option<ClockId>,
}

/// Missing frames of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hole {
    /// Range of frames.
    pub frames: Range<MediaTime>,
    /// Whether the frames are after the newest packet: missing only if the stream continues.
    pub is_tail: bool,
}

/// Outcome of pulling a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pulled {
    /// First frame; `None` if no stream plays.
    pub media: Option<MediaPoint>,
    /// Frames taken from the stream. With resampling, this differs from the frames of the block.
    pub taken: Frames,
    /// Missing frames: at most `taken`, or the whole block if no stream plays.
    pub missing: Frames,
    /// Missing frames that were concealed.
    pub concealed: Frames,
    /// Restart at this block.
    pub resync: Option<Resync>,
}
