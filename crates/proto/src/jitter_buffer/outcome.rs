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
    /// Another sender began, or the same sender restarted.
    NewSource,
    /// The media time jumped, or the sender paused.
    Jump,
    /// Presentation times moved: the clocks were mapped or stepped, or they drifted too far.
    Moved,
}

/// Sender whose packets are ignored because another source is current.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stranger {
    /// Its address.
    pub from: Endpoint,
    /// Whether it uses the stream id of the current source.
    pub poses: bool,
}

/// Outcome of handling a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received<'a> {
    /// All frames will be played.
    Placed(Accepted<'a>),
    /// The first frames were late. The others will be played.
    Partly(Accepted<'a>, PacketTrace),
    /// The packet arrived after its turn.
    Late(PacketTrace),
    /// The packet was already received or restored.
    Duplicate,
    /// The packet does not match the timeline. A second such packet moves the timeline.
    Doubted,
    /// Another sender than the current source sent the packet.
    Foreign,
    /// The packet is too far in the future.
    Early,
    /// The datagram is not a packet of the stream.
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
    /// Returns the interleaved samples of these frames as received, in two parts if the ring of the
    /// playout wraps. They are available until a quarter of the capacity was played after them.
    pub fn samples(self, frames: &Range<MediaTime>) -> [&'a [f32]; 2] {
        self.0.playout.samples(frames.start, frames.end - frames.start)
    }
}

/// Times of a block: the request, and the DAC.
#[derive(Debug, Clone, Copy)]
pub struct PullTimes {
    /// Time at which the device thread requested the block.
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
    /// Whether they are after the newest packet. They are missing if the stream continues, and do
    /// not count if it ended there.
    pub is_tail: bool,
}

/// Outcome of pulling a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pulled {
    /// Position of the first frame. `None` if no stream plays.
    pub media: Option<MediaPoint>,
    /// Number of missing frames in the block.
    pub missing: Frames,
    /// Number of missing frames that were concealed.
    pub concealed: Frames,
    /// Reason for a restart of the playout at this block, if there was one.
    pub resync: Option<Resync>,
}
