//! What a receiver counts and answers.

use core::ops::Range;

use tautline_dsp::format::SampleFormat;

use crate::clock::ClockId;
use crate::endpoint::Endpoint;
use crate::ledger::PacketTrace;
use crate::packet::Invalid;
use crate::renderer::Renderer;
use crate::time::{Frames, LocalTime, MediaPoint, MediaTime};

/// Why the playout was laid anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resync {
    /// Another sender, or the same one restarted.
    NewSource,
    /// The media time jumped, or the sender paused.
    Jump,
    /// The presentation times moved: the clocks were mapped, stepped, or drifted too far.
    Moved,
}

/// Who sent packets that are not heard, as another is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stranger {
    /// From where.
    pub from: Endpoint,
    /// Whether under the name of the source that is heard.
    pub poses: bool,
}

/// What became of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received<'a> {
    /// Its frames will be played.
    Placed(Accepted<'a>),
    /// Its first frames came too late, the others will be played.
    Partly(Accepted<'a>, PacketTrace),
    /// Its turn was over.
    Late(PacketTrace),
    /// It had come before, or had been rebuilt before it came.
    Duplicate,
    /// It does not fit the timeline yet; another like it will move the timeline.
    Doubted,
    /// Another sender's, or a stranger's, while this one is heard.
    Foreign,
    /// Too far in the future.
    Early,
    /// No packet of the stream.
    Invalid(Invalid),
}

impl Received<'_> {
    /// Its ledger, if it came too late, be it wholly or in part.
    pub const fn late(&self) -> Option<PacketTrace> {
        match self {
            Self::Late(passage) | Self::Partly(_, passage) => Some(*passage),
            _ => None,
        }
    }
}

/// A packet that was placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted<'a> {
    /// First frame.
    pub media: MediaTime,
    /// Its audio, as on the wire.
    pub payload: &'a [u8],
    /// The coding of its audio.
    pub sample: SampleFormat,
}

/// What of a packet will be played.
#[derive(Debug, Clone)]
pub struct Playable<'a> {
    /// Its frames.
    pub frames: Range<MediaTime>,
    /// Where they lie now.
    pub sound: PlayoutSound<'a>,
}

/// What lies in the playout.
#[derive(Debug, Clone, Copy)]
pub struct PlayoutSound<'a>(pub(super) &'a Renderer);

impl<'a> PlayoutSound<'a> {
    /// The interleaved samples of these frames, in two parts where the playout's ring begins anew: as
    /// packets brought them, for a quarter of the room there is after they were played.
    pub fn samples(self, frames: &Range<MediaTime>) -> [&'a [f32]; 2] {
        self.0.playout.samples(frames.start, frames.end - frames.start)
    }
}

/// When a block is asked for and when it will be heard.
#[derive(Debug, Clone, Copy)]
pub struct PullTimes {
    /// The device's thread asks.
    pub now: LocalTime,
    /// The block's first frame will meet the DAC.
    pub meets: LocalTime,
    /// Frames that the device played as silence of its own since the last block.
    pub skipped: Frames,
    /// What sets the device's pace ([`crate::device::Cycle::clock`]).
    pub clock: Option<ClockId>,
}

/// Frames of a block that had not come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hole {
    /// Which.
    pub frames: Range<MediaTime>,
    /// Whether they lie after the newest packet: they are missing if the stream goes on, and nothing if
    /// it ended there.
    pub is_tail: bool,
}

/// What a block turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pulled {
    /// What the block begins with; `None` where no stream plays.
    pub media: Option<MediaPoint>,
    /// Frames of the block that had not come.
    pub missing: Frames,
    /// In how many of these the sound before went on.
    pub concealed: Frames,
    /// The playout was laid anew for this block.
    pub resync: Option<Resync>,
}
