//! What a receiver counts and answers.

use tautline_dsp::format::SampleFormat;

use crate::clock::ClockId;
use crate::endpoint::Endpoint;
use crate::ledger::Passage;
use crate::time::{Frames, LocalTime, MediaPoint, MediaTime};
use crate::wire::Invalid;

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

/// What a receiver counted since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Datagrams that were packets of the stream, duplicates and late ones included.
    pub received: u64,
    /// Packets that had not come when their turn came. A late one is taken off again.
    pub lost: u64,
    /// Packets that came after their turn, wholly or in part.
    pub late: u64,
    /// Packets that were here in time and were not heard, as the device played silence of its own at
    /// their turn.
    pub unheard: u64,
    /// Packets that came after a later one.
    pub reordered: u64,
    /// Packets that had come before, or that were sent so long before the newest that nobody knows any
    /// more whether they had.
    pub duplicate: u64,
    /// Packets that were rebuilt from what others carried, in time to be played. One that comes in
    /// person afterwards is counted as reordered.
    pub repaired: u64,
    /// Packets whose sound was good and what they carried of others was not.
    pub damaged: u64,
    /// Packets further in the future than there is room for.
    pub early: u64,
    /// Packets that did not fit the timeline and that no other confirmed yet.
    pub doubted: u64,
    /// Reports of the sender that did not fit the timeline and that no other confirmed yet.
    pub doubted_reports: u64,
    /// Packets of another sender, or with this one's name from another place, while this one is heard.
    pub foreign: u64,
    /// Datagrams that were no packet, by [`Invalid::index`].
    pub invalid: [u64; Invalid::COUNT],
    /// Frames that were due and had not come, while the stream ran.
    pub missing_frames: u64,
    /// Of those, frames in whose place the sound before went on; the others were silent.
    pub concealed_frames: u64,
    /// Of the missing ones, frames between two packets whose numbers follow each other: nothing was
    /// lost on the way, the sender's card did not deliver them.
    pub skipped_frames: u64,
    /// Times the playout was laid anew.
    pub resyncs: u64,
    /// Frames played that were resampled, to stay in time with a card of another rate; all others
    /// were played as they came.
    pub resampled_frames: u64,
}

impl Counters {
    /// Datagrams that were no packet, whatever the reason.
    pub fn invalid_total(&self) -> u64 {
        self.invalid.iter().sum()
    }
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
    Partly(Accepted<'a>, Passage),
    /// Its turn was over.
    Late(Passage),
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
    pub const fn late(&self) -> Option<Passage> {
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
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Brought<'a> {
    /// Its first frame.
    pub media: MediaTime,
    /// Its interleaved samples, in two parts where the playout's ring begins anew.
    pub parts: [&'a [f32]; 2],
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

/// What a block turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pulled {
    /// What the block begins with; `None` where no stream plays.
    pub media: Option<MediaPoint>,
    /// Frames of the block that had not come.
    pub missing: Frames,
    /// The playout was laid anew for this block.
    pub resync: Option<Resync>,
}
