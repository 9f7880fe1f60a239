//! Source that a receiver plays: one SSRC with unwrapped packet numbers, its timeline, its
//! addresses, and the confirmation that outlying packets need.

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

/// Consecutive packets whose timestamps advance by a different number of frames than they contain.
#[derive(Debug, Clone, Copy, Default)]
struct OddSteps {
    frames: i64,
    packets: u32,
    /// Number of the last one.
    last: i64,
    /// Whether any packet followed the previous one exactly.
    regular: bool,
}

/// One synchronisation source.
#[derive(Debug, Clone)]
pub struct Source {
    stream: StreamId,
    endpoints: SourceEndpoints,
    /// Previous addresses, if the source moved without a goodbye.
    before: Option<SourceEndpoints>,
    number: Unwrapper,
    /// Offset of our numbers from the numbers in packets, since the latter restarted.
    shift: i64,
    timeline: Unwrapper,
    first_sequence: i64,
    begin: MediaTime,
    /// Packet with the highest number.
    newest: Extent,
    /// End of the sound before its packets began to repeat, if they did.
    reached: Option<MediaTime>,
    /// Shortest and longest packet.
    lengths: (Frames, Frames),
    received: u64,
    heard: LocalTime,
    /// Stream id, sequence number and timestamp of the packet that would confirm the doubted
    /// packet.
    doubt: Option<(StreamId, Wrapped, Wrapped)>,
    stamped: bool,
    steps: OddSteps,
    /// Whether the last packet had the marker, and whether it begins a run of sound.
    marked: bool,
    restarts_at: bool,
    said_goodbye: bool,
    /// Arrival minus media time of the last packet, for the jitter.
    transit: Option<Span>,
    jitter: Span,
}

impl Source {
    /// Numbers this far ahead need confirmation, because they may be a restart: MAX_DROPOUT of RFC
    /// 3550 A.1.
    const MAX_DROPOUT: i64 = 3000;
    /// Numbers this far behind need confirmation too. RFC 3550 A.1 has 100, which is only 12 ms of
    /// reordering at 0.125 ms per packet. So the value equals that of the dropout.
    const MAX_MISORDER: i64 = 3000;
    /// Silence after which another source may follow at once: two packets of the maximum length.
    const SILENT: Span = Span::from_millis(40);
    /// Silence after which a source may continue from another address, as after a move. It is
    /// longer than the pauses of a busy host, and short enough to lose little.
    pub(crate) const MOVED: Span = Span::from_millis(50);
    /// Maximum difference of a timestamp and its position by number.
    const JUMP: Span = Span::from_millis(20);
    /// Number of consecutive packets that confirm another step. A card that drops frames now and
    /// then causes one.
    const ODD: u32 = 3;
    /// Maximum difference of an outage's timestamps and the elapsed time, plus a thousandth:
    /// queues, and rate differences of cards.
    const UNSURE: Span = Span::from_millis(250);

    /// Creates the source from its first packet.
    pub fn begin(packet: &PacketHead, frames: Frames, came: &Arrival) -> Self {
        let number = Unwrapper::starting_at(packet.number);
        let timeline = Unwrapper::starting_at(packet.media);
        let (sequence, media) = (number.highest(), MediaTime::from_frames(timeline.highest()));
        Self {
            stream: packet.stream,
            endpoints: SourceEndpoints::only(came.from),
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
            heard: came.at,
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

    /// Stream id of the source.
    pub const fn stream(&self) -> StreamId {
        self.stream
    }

    /// Source addresses of its packets.
    pub const fn endpoints(&self) -> &SourceEndpoints {
        &self.endpoints
    }

    /// Whether `author` is this source on one of its own hosts.
    pub(crate) fn is_reported_by(&self, author: Author) -> bool {
        author.ssrc == self.stream.ssrc() && self.endpoints.are_of(author.host)
    }

    /// Whether its packets carry capture times.
    pub const fn stamped(&self) -> bool {
        self.stamped
    }

    /// Whether the last admitted packet begins a run of sound: the first packet of a source, or a
    /// packet with the marker (RFC 3551 §4.1) after one without. Some senders mark every packet.
    pub(crate) const fn restarts_at(&self) -> bool {
        self.restarts_at
    }

    /// Frames by which timestamps advance per packet, if enough packets show that it differs from
    /// their length.
    pub(crate) fn odd_step(&self) -> Option<Frames> {
        let OddSteps { frames, packets, last, .. } = self.steps;
        let lasts = packets >= Self::ODD && last == self.newest.sequence;
        lasts.then(|| Frames::new(frames))
    }

    /// Uses the step of the timestamps as packet length, because the payload was misinterpreted.
    pub(crate) fn follow_step(&mut self, step: Frames) {
        self.newest.frames = step;
        self.steps = OddSteps::default();
    }

    /// Whether packet lengths contradict the timestamps, or no packet has confirmed the lengths
    /// yet.
    pub fn is_odd(&self) -> bool {
        let begins_odd = self.steps.packets > 0 && !self.steps.regular;
        begins_odd || self.odd_step().is_some()
    }

    /// Highest packet number.
    pub const fn highest(&self) -> i64 {
        self.newest.sequence
    }

    /// Highest number in packets, extended (RFC 3550 §6.4.1).
    pub(crate) const fn highest_carried(&self) -> u32 {
        (self.newest.sequence - self.shift) as u32
    }

    /// First frame of the source.
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

    /// Start of the packet with this number, if it has the newest length.
    pub(crate) fn media_of(&self, sequence: i64) -> MediaTime {
        let packets = sequence - self.newest.sequence;
        self.newest.media + Frames::new(packets * self.newest.frames.count())
    }

    /// Number in packets of the packet that begins at `media`, if packets have the newest length.
    fn number_at(&self, media: MediaTime) -> i64 {
        let packets = (media - self.newest.media).count() / self.newest.frames.count().max(1);
        self.newest.sequence - self.shift + packets
    }

    /// Frame with this timestamp that is nearest to the newest frame.
    pub(crate) fn media_near(&self, rtp_timestamp: u32) -> MediaTime {
        MediaTime::from_frames(self.timeline.peek(rtp_timestamp))
    }

    /// Packets expected so far (RFC 3550 A.3).
    pub const fn expected(&self) -> u64 {
        (self.newest.sequence - self.first_sequence + 1).unsigned_abs()
    }

    /// Packets admitted so far, including duplicates (RFC 3550 A.3).
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// Interarrival jitter (RFC 3550 §6.4.1, A.8), as a time and not in timestamp units.
    pub const fn jitter(&self) -> Span {
        self.jitter
    }

    /// Marks the source as ended by a goodbye. Another source may follow at once.
    pub fn say_goodbye(&mut self) {
        self.said_goodbye = true;
    }

    /// Whether the source said goodbye.
    pub const fn said_goodbye(&self) -> bool {
        self.said_goodbye
    }
}
