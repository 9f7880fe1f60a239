//! Whom a receiver hears: one synchronisation source, its packet count and its timeline without
//! wrap-around, the places it sends from, and the doubt that a packet which does not fit must overcome.

mod admission;

use crate::endpoint::{Arrival, Author, SourceEndpoints};
use crate::packet::{PacketHead, StreamId};
use crate::time::{Frames, LocalTime, MediaTime, Span};
use crate::wrap::{Unwrapper, Wrapped};

pub(crate) use admission::Admission;

/// Where a packet lies in its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extent {
    /// Its number, without end.
    sequence: i64,
    media: MediaTime,
    frames: Frames,
}

/// Packets in a row whose timestamps advance by another number of frames than the packet before holds.
#[derive(Debug, Clone, Copy, Default)]
struct OddSteps {
    frames: i64,
    packets: u32,
    /// The number of the last.
    last: i64,
    /// Whether any packet followed the one before to the frame.
    regular: bool,
}

/// One synchronisation source.
#[derive(Debug, Clone)]
pub struct Source {
    stream: StreamId,
    endpoints: SourceEndpoints,
    /// The places that another took over from without a goodbye.
    before: Option<SourceEndpoints>,
    number: Unwrapper,
    /// What numbers are ahead of those that packets carry, since these began anew.
    shift: i64,
    timeline: Unwrapper,
    first_sequence: i64,
    begin: MediaTime,
    /// The packet with the highest number: number, first frame, length.
    newest: Extent,
    /// Where its sound ended when its packets began to come once more, if they did.
    reached: Option<MediaTime>,
    /// The shortest and the longest packet seen.
    lengths: (Frames, Frames),
    received: u64,
    heard: LocalTime,
    /// Sequence number and timestamp that would confirm the doubted packet.
    doubt: Option<(StreamId, Wrapped, Wrapped)>,
    stamped: bool,
    steps: OddSteps,
    /// Whether the last packet had the marker, and whether it alone did.
    marked: bool,
    begins_anew: bool,
    said_goodbye: bool,
    /// Last arrival − media, for the jitter.
    transit: Option<Span>,
    jitter: Span,
}

impl Source {
    /// Numbers this far ahead are a restart unless confirmed: MAX_DROPOUT of RFC 3550 A.1.
    const MAX_DROPOUT: i64 = 3000;
    /// Numbers this far behind likewise. RFC 3550 A.1 has 100; at 0.125 ms a packet that is 12 ms
    /// of reordering, so it is as wide as the dropout here.
    const MAX_MISORDER: i64 = 3000;
    /// A source silent for so long, two of the longest packets, may be followed by another at once.
    const SILENT: Span = Span::from_millis(40);
    /// A source that was silent this long may go on from another place, as one does that moved: longer
    /// than the pauses of a busy host, and little enough to miss.
    pub(crate) const MOVED: Span = Span::from_millis(50);
    /// A timestamp this far from where the packet's number puts it is doubted.
    const JUMP: Span = Span::from_millis(20);
    /// Packets in a row that must agree on another step: a card that drops frames now and then makes one.
    const ODD: u32 = 3;
    /// How far the timestamps of an outage may be from the time that passed, beside a thousandth of
    /// it: what queues hold, and cards that run apart.
    const UNSURE: Span = Span::from_millis(250);

    /// Begins with its first packet.
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
            begins_anew: true,
            said_goodbye: false,
            transit: None,
            jitter: Span::ZERO,
        }
    }

    /// Its identity.
    pub const fn stream(&self) -> StreamId {
        self.stream
    }

    /// From where its packets come.
    pub const fn endpoints(&self) -> &SourceEndpoints {
        &self.endpoints
    }

    /// Whether this is what its own host says of it.
    pub(crate) fn is_told_by(&self, author: Author) -> bool {
        author.ssrc == self.stream.ssrc() && self.endpoints.are_of(author.host)
    }

    /// Whether its packets carry the capture time.
    pub const fn stamped(&self) -> bool {
        self.stamped
    }

    /// Whether the last packet admitted begins a run of sound: the first of a source, or one with
    /// the marker (RFC 3551 §4.1) after one without. Some senders mark every packet.
    pub(crate) const fn begins_anew(&self) -> bool {
        self.begins_anew
    }

    /// By how many frames its timestamps advance per packet, once a few packets agree that it is not by as many as they
    /// hold.
    pub(crate) fn odd_step(&self) -> Option<Frames> {
        let OddSteps { frames, packets, last, .. } = self.steps;
        let lasts = packets >= Self::ODD && last == self.newest.sequence;
        lasts.then(|| Frames::new(frames))
    }

    /// Its packets hold as many frames as its timestamps say: they were read wrongly.
    pub(crate) fn follow_step(&mut self, step: Frames) {
        self.newest.frames = step;
        self.steps = OddSteps::default();
    }

    /// Whether its packets do not hold what its timestamps say, or no packet showed yet that they do.
    pub fn is_odd(&self) -> bool {
        let begins_odd = self.steps.packets > 0 && !self.steps.regular;
        begins_odd || self.odd_step().is_some()
    }

    /// The highest packet number so far.
    pub const fn highest(&self) -> i64 {
        self.newest.sequence
    }

    /// The highest number that a packet carried, with its wrap-arounds (RFC 3550 §6.4.1).
    pub(crate) const fn highest_carried(&self) -> u32 {
        (self.newest.sequence - self.shift) as u32
    }

    /// The earliest frame seen.
    pub const fn begin_media(&self) -> MediaTime {
        self.begin
    }

    /// The first frame after the newest packet.
    pub fn end(&self) -> MediaTime {
        self.newest.media + self.newest.frames
    }

    pub(crate) const fn packet(&self) -> Frames {
        self.newest.frames
    }

    /// Where the packet with this number begins, if all are as long as the newest.
    pub(crate) fn media_of(&self, sequence: i64) -> MediaTime {
        let packets = sequence - self.newest.sequence;
        self.newest.media + Frames::new(packets * self.newest.frames.count())
    }

    /// The number, as packets carry it, of one that begins there, if all are as long as the newest.
    fn number_at(&self, media: MediaTime) -> i64 {
        let packets = (media - self.newest.media).count() / self.newest.frames.count().max(1);
        self.newest.sequence - self.shift + packets
    }

    /// A frame of this timestamp, nearest to the newest.
    pub(crate) fn media_near(&self, rtp_timestamp: u32) -> MediaTime {
        MediaTime::from_frames(self.timeline.peek(rtp_timestamp))
    }

    /// Packets expected so far (RFC 3550 A.3).
    pub const fn expected(&self) -> u64 {
        (self.newest.sequence - self.first_sequence + 1).unsigned_abs()
    }

    /// Packets admitted so far, duplicates included (RFC 3550 A.3).
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// Interarrival jitter (RFC 3550 §6.4.1, A.8), as time instead of timestamp units.
    pub const fn jitter(&self) -> Span {
        self.jitter
    }

    /// It said goodbye: any other source may follow at once.
    pub fn say_goodbye(&mut self) {
        self.said_goodbye = true;
    }

    /// Whether it said goodbye.
    pub const fn said_goodbye(&self) -> bool {
        self.said_goodbye
    }
}
