//! Source that a receiver plays: its numbers, timeline, addresses, and doubted packets.

mod admission;

use crate::endpoint::{Arrival, Author, SourceEndpoints};
use crate::packet::{PacketHead, StreamId};
use crate::time::{Frames, LocalTime, MediaTime, Span};
use crate::wrap::{Unwrapper, Wrapped};

pub(crate) use admission::Admission;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extent {
    sequence: i64,
    media: MediaTime,
    frames: Frames,
}

/// Consecutive packets whose timestamps contradict their lengths.
#[derive(Debug, Clone, Copy, Default)]
struct OddSteps {
    frames: i64,
    packets: u32,
    last: i64,
    regular: bool,
}

/// One SSRC.
#[derive(Debug, Clone)]
pub struct Source {
    stream: StreamId,
    endpoints: SourceEndpoints,
    /// Previous addresses after a move without a goodbye.
    before: Option<SourceEndpoints>,
    number: Unwrapper,
    /// Our numbers minus the numbers in packets.
    shift: i64,
    timeline: Unwrapper,
    first_sequence: i64,
    begin: MediaTime,
    newest: Extent,
    /// End of the sound before packets began to repeat.
    reached: Option<MediaTime>,
    lengths: (Frames, Frames),
    received: u64,
    last_arrival: LocalTime,
    /// Stream, number and timestamp that would confirm the doubted packet.
    doubt: Option<(StreamId, Wrapped, Wrapped)>,
    stamped: bool,
    steps: OddSteps,
    /// Whether the last packet had a marker, and whether it begins a run.
    marked: bool,
    restarts_at: bool,
    said_goodbye: bool,
    transit: Option<Span>,
    jitter: Span,
}

impl Source {
    /// Distance ahead that needs confirmation: MAX_DROPOUT of RFC 3550 A.1.
    const MAX_DROPOUT: i64 = 3000;
    /// Distance behind that needs confirmation. RFC 3550 A.1 has 100, only 12 ms at 0.125 ms.
    const MAX_MISORDER: i64 = 3000;
    /// Silence before another source: two packets of the maximum length.
    const SILENT: Span = Span::from_millis(40);
    /// Silence before another address of the source; exceeds pauses of a busy host.
    pub(crate) const MOVED: Span = Span::from_millis(50);
    /// Maximum difference of timestamp and position by number.
    const JUMP: Span = Span::from_millis(20);
    /// Consecutive packets that confirm another step. A card that drops frames causes a step.
    const ODD: u32 = 3;
    /// Maximum difference in an outage, due to queues. A thousandth is added for card rates.
    const UNSURE: Span = Span::from_millis(250);

    /// Creates a source from its first packet.
    pub fn begin(packet: &PacketHead, frames: Frames, arrived: &Arrival) -> Self {
        let number = Unwrapper::starting_at(packet.number);
        let timeline = Unwrapper::starting_at(packet.media);
        let (sequence, media) = (number.highest(), MediaTime::from_frames(timeline.highest()));
        Self {
            stream: packet.stream,
            endpoints: SourceEndpoints::only(arrived.from),
            before: None,
            first_sequence: sequence,
            begin: media,
            newest: Extent { sequence, media, frames },
            reached: None,
            lengths: (frames, frames),
            number,
            shift: 0,
            timeline,
            received: 0,
            last_arrival: arrived.at,
            doubt: None,
            stamped: packet.capture.is_some(),
            steps: OddSteps::default(),
            marked: packet.begins,
            restarts_at: true,
            said_goodbye: false,
            transit: None,
            jitter: Span::ZERO,
        }
    }

    /// Stream id.
    pub const fn stream(&self) -> StreamId {
        self.stream
    }

    /// Source addresses.
    pub const fn endpoints(&self) -> &SourceEndpoints {
        &self.endpoints
    }

    /// Whether `author` is this source on its own host.
    pub(crate) fn is_reported_by(&self, author: Author) -> bool {
        author.ssrc == self.stream.ssrc() && self.endpoints.are_of(author.host)
    }

    /// Whether packets carry capture times.
    pub const fn stamped(&self) -> bool {
        self.stamped
    }

    /// Whether the last packet begins a run: the first one, or a marker
    /// after a packet without (RFC 3551 §4.1).
    pub(crate) const fn restarts_at(&self) -> bool {
        self.restarts_at
    }

    /// Timestamp step per packet, if proven to differ from the length.
    pub(crate) fn odd_step(&self) -> Option<Frames> {
        let OddSteps { frames, packets, last, .. } = self.steps;
        let lasts = packets >= Self::ODD && last == self.newest.sequence;
        lasts.then(|| Frames::new(frames))
    }

    /// The payload was misinterpreted: use the timestamp step as packet length.
    pub(crate) fn follow_step(&mut self, step: Frames) {
        self.newest.frames = step;
        self.steps = OddSteps::default();
    }

    /// Whether packet lengths are contradicted or not yet confirmed.
    pub fn is_odd(&self) -> bool {
        let begins_odd = self.steps.packets > 0 && !self.steps.regular;
        begins_odd || self.odd_step().is_some()
    }

    /// Highest packet number.
    pub const fn highest(&self) -> i64 {
        self.newest.sequence
    }

    /// Extended as in RFC 3550 §6.4.1.
    pub(crate) const fn highest_carried(&self) -> u32 {
        (self.newest.sequence - self.shift) as u32
    }

    /// First frame.
    pub const fn begin_media(&self) -> MediaTime {
        self.begin
    }

    /// First frame after the newest packet.
    pub fn end(&self) -> MediaTime {
        self.newest.media + self.newest.frames
    }

    pub(crate) const fn packet(&self) -> Frames {
        self.newest.frames
    }

    pub(crate) fn media_of(&self, sequence: i64) -> MediaTime {
        let packets = sequence - self.newest.sequence;
        self.newest.media + Frames::new(packets * self.newest.frames.count())
    }

    fn number_at(&self, media: MediaTime) -> i64 {
        let packets = (media - self.newest.media).count() / self.newest.frames.count().max(1);
        self.newest.sequence - self.shift + packets
    }

    pub(crate) fn media_near(&self, rtp_timestamp: u32) -> MediaTime {
        MediaTime::from_frames(self.timeline.peek(rtp_timestamp))
    }

    /// Packets expected (RFC 3550 A.3).
    pub const fn expected(&self) -> u64 {
        (self.newest.sequence - self.first_sequence + 1).unsigned_abs()
    }

    /// Packets received, including duplicates (RFC 3550 A.3).
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// Interarrival jitter as a time (RFC 3550 §6.4.1, A.8).
    pub const fn jitter(&self) -> Span {
        self.jitter
    }

    /// Ends the source. Another may follow immediately.
    pub fn say_goodbye(&mut self) {
        self.said_goodbye = true;
    }

    /// Whether the source said goodbye.
    pub const fn said_goodbye(&self) -> bool {
        self.said_goodbye
    }
}
