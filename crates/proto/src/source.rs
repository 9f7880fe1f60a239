//! Whom a receiver hears: one synchronisation source, its packet count and its timeline without
//! wrap-around, the places it sends from, and the doubt that a packet which does not fit must overcome.

use crate::endpoint::{Arrived, Author, Endpoint, SourceEndpoints};
use crate::packet::{PacketHead, StreamId};
use crate::time::{Frames, LocalTime, MediaTime, Span};
use crate::units::Rate;
use crate::wrap::{Unwrapper, Wrapped};

/// Whether a packet belongs to the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It does.
    Regular {
        /// Its number, without wrap-around.
        sequence: i64,
        /// Its first frame.
        media: MediaTime,
    },
    /// It does, and its numbers begin anew while its timestamps go on: so does the sound.
    Renumbered {
        /// Its number, as if those before had gone on.
        sequence: i64,
        /// Its first frame.
        media: MediaTime,
    },
    /// It is the first of a source that restarted, or of another that took its place.
    Restarted {
        /// Its number, from a new start.
        sequence: i64,
        /// Its first frame, from a new start.
        media: MediaTime,
        /// Packets of the same source that went missing before it: an outage, and no restart.
        missed: u64,
    },
    /// It does not fit; the next will tell.
    Doubted,
    /// It was sent long before the newest and comes while that source is heard: once more, it must be.
    Repeated,
    /// Another source, or its name from another place, while this one is heard.
    Foreign,
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
    /// The earliest frame seen.
    begin: MediaTime,
    /// The packet with the highest number: number, first frame, length.
    newest: (i64, MediaTime, Frames),
    /// Where its sound ended when its packets began to come once more, if they did.
    reached: Option<MediaTime>,
    /// The shortest and the longest packet seen.
    lengths: (Frames, Frames),
    received: u64,
    heard: LocalTime,
    /// Sequence number and timestamp that would confirm the doubted packet.
    doubt: Option<(StreamId, Wrapped, Wrapped)>,
    stamped: bool,
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
    /// How far the timestamps of an outage may be from the time that passed, beside a thousandth of
    /// it: what queues hold, and cards that run apart.
    const UNSURE: Span = Span::from_millis(250);

    /// Begins with its first packet.
    pub fn begin(
        packet: &PacketHead,
        frames: Frames,
        (from, arrival): (Endpoint, LocalTime),
    ) -> Self {
        let number = Unwrapper::starting_at(packet.number);
        let timeline = Unwrapper::starting_at(packet.media);
        let newest = (number.highest(), MediaTime::from_frames(timeline.highest()), frames);
        Self {
            stream: packet.stream,
            endpoints: SourceEndpoints::only(from),
            before: None,
            first_sequence: newest.0,
            begin: newest.1,
            newest,
            reached: None,
            lengths: (frames, frames),
            number,
            shift: 0,
            timeline,
            received: 0,
            heard: arrival,
            doubt: None,
            stamped: packet.capture.is_some(),
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
    pub fn is_told_by(&self, author: Author) -> bool {
        StreamId::from(author.ssrc) == self.stream && self.endpoints.are_of(author.host)
    }

    /// Whether its packets carry the capture time.
    pub const fn stamped(&self) -> bool {
        self.stamped
    }

    /// Whether the last packet admitted begins a run of sound: the first of a source, or one with
    /// the marker (RFC 3551 §4.1) after one without. Some senders mark every packet.
    pub const fn begins_anew(&self) -> bool {
        self.begins_anew
    }

    /// The highest packet number so far.
    pub const fn highest(&self) -> i64 {
        self.newest.0
    }

    /// The highest number that a packet carried, with its wrap-arounds (RFC 3550 §6.4.1).
    pub const fn highest_carried(&self) -> u32 {
        (self.newest.0 - self.shift) as u32
    }

    /// The earliest frame seen.
    pub const fn begin_media(&self) -> MediaTime {
        self.begin
    }

    /// The first frame after the newest packet.
    pub fn end(&self) -> MediaTime {
        self.newest.1 + self.newest.2
    }

    /// The length of the newest packet.
    pub(crate) const fn packet(&self) -> Frames {
        self.newest.2
    }

    /// Where the packet with this number begins, if all are as long as the newest.
    pub fn media_of(&self, sequence: i64) -> MediaTime {
        let packets = sequence - self.newest.0;
        self.newest.1 + Frames::new(packets * self.newest.2.count())
    }

    /// The number, as packets carry it, of one that begins there, if all are as long as the newest.
    fn number_at(&self, media: MediaTime) -> i64 {
        let packets = (media - self.newest.1).count() / self.newest.2.count().max(1);
        self.newest.0 - self.shift + packets
    }

    /// A frame of this timestamp, nearest to the newest.
    pub fn media_near(&self, rtp_timestamp: u32) -> MediaTime {
        MediaTime::from_frames(self.timeline.peek(rtp_timestamp))
    }

    /// Packets expected so far (RFC 3550 A.3).
    pub const fn expected(&self) -> u64 {
        (self.newest.0 - self.first_sequence + 1).unsigned_abs()
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

    /// Judges a packet. Restarts itself where the packet says so.
    pub fn admit(
        &mut self,
        packet: &PacketHead,
        frames: Frames,
        &Arrived { ref from, at: arrival, .. }: &Arrived,
        rate: Rate,
    ) -> Admission {
        if packet.stream == self.stream
            && let Some(next) = self.admit_next(packet, frames, (from, arrival), rate)
        {
            return next;
        }
        self.admit_other(packet, frames, (*from, arrival), rate)
    }

    #[inline(never)]
    fn admit_other(
        &mut self,
        packet: &PacketHead,
        frames: Frames,
        (from, arrival): (Endpoint, LocalTime),
        rate: Rate,
    ) -> Admission {
        if packet.stream != self.stream {
            return if self.is_silent(arrival) {
                self.restart(packet, frames, (from, arrival), 0)
            } else {
                Admission::Foreign
            };
        }
        let Some((endpoints, before)) = self.endpoints_from(packet, (from, arrival), rate) else {
            return Admission::Foreign;
        };
        let admission = self.admit_own(packet, frames, (from, arrival), rate);
        if admission != Admission::Doubted {
            (self.endpoints, self.before) = (endpoints, before);
        }
        admission
    }

    /// Admits what nearly every packet is: the next, as long as the one before, from the first place.
    fn admit_next(
        &mut self,
        packet: &PacketHead,
        frames: Frames,
        (from, arrival): (&Endpoint, LocalTime),
        rate: Rate,
    ) -> Option<Admission> {
        let (sequence, media) = (self.newest.0 + 1, self.end());
        let next = frames == self.newest.2
            && self.endpoints.begin_at(from)
            && packet.number.bits >= 16
            && self.read(packet) == (sequence, media);
        next.then(|| {
            self.doubt = None;
            self.number = self.number.going_on_from(sequence - self.shift);
            self.timeline = self.timeline.going_on_from(media.as_frames());
            self.newest = (sequence, media, frames);
            self.hear(packet, media, arrival, rate);
            Admission::Regular { sequence, media }
        })
    }

    /// Whether another may follow it at once.
    fn is_silent(&self, now: LocalTime) -> bool {
        self.said_goodbye || now - self.heard > Self::SILENT
    }

    /// From where packets come, and from where they came before another took over, if this one that
    /// came from `from` is a packet of this source; `None` if a stranger sent it.
    fn endpoints_from(
        &self,
        packet: &PacketHead,
        (from, arrival): (Endpoint, LocalTime),
        rate: Rate,
    ) -> Option<(SourceEndpoints, Option<SourceEndpoints>)> {
        if self.endpoints.has(from) {
            return Some((self.endpoints, self.before));
        }
        // Who moved does not send from the old place any more: it was a stranger that took over.
        if let Some(before) = self.before.filter(|before| before.has(from)) {
            return Some((before, None));
        }
        if self.said_goodbye {
            return Some((SourceEndpoints::only(from), None));
        }
        if arrival - self.heard > Self::MOVED {
            return Some((SourceEndpoints::only(from), self.before.or(Some(self.endpoints))));
        }
        // By a second network come the same packets, hence the same numbers and times.
        let endpoints = self.endpoints.with(from).filter(|_| self.is_in_step(packet, rate));
        endpoints.map(|endpoints| (endpoints, self.before))
    }

    /// Whether the packet's timestamp is where its number puts it.
    fn is_in_step(&self, packet: &PacketHead, rate: Rate) -> bool {
        let (sequence, media) = self.read(packet);
        let near = (sequence - self.newest.0).abs() <= Self::MAX_DROPOUT;
        let astray = media - self.media_of(sequence);
        near && astray.max(-astray) <= rate.frames_within(Self::JUMP)
    }

    /// The number and the time of its packet, without end.
    fn read(&self, packet: &PacketHead) -> (i64, MediaTime) {
        let media = MediaTime::from_frames(self.timeline.peek(packet.media.value));
        let near = match packet.number.bits {
            16.. => self.number,
            // So few come round within a short outage: the time tells which of them it is.
            _ => self.number.going_on_from(self.number_at(media)),
        };
        (near.peek(packet.number.value) + self.shift, media)
    }

    /// Judges a packet of its own.
    fn admit_own(
        &mut self,
        packet: &PacketHead,
        frames: Frames,
        (from, arrival): (Endpoint, LocalTime),
        rate: Rate,
    ) -> Admission {
        let (sequence, media) = self.read(packet);
        let ahead = sequence - self.newest.0;
        let renumbered = !(-Self::MAX_MISORDER..=Self::MAX_DROPOUT).contains(&ahead);
        let jumped = self.strayed(ahead, media) > rate.frames_within(Self::JUMP);
        if (renumbered || jumped || ahead <= 0)
            && let Some(between) = self.follows(media, frames, rate)
        {
            return self.renumber(packet, (media, frames), between, arrival, rate);
        }
        let passed = (renumbered || jumped) && self.passed(packet, media);
        if passed && !self.is_silent(arrival) {
            return Admission::Repeated;
        }
        let missed =
            if renumbered { self.missed(packet, (media, frames), arrival, rate) } else { 0 };
        if (renumbered && missed == 0 || jumped && !renumbered) && !self.confirmed(packet, frames) {
            return Admission::Doubted;
        }
        if renumbered {
            let missed = missed.saturating_sub(self.repeats());
            let reached = passed.then(|| self.reached.unwrap_or(self.end()).max(self.end()));
            let restarted = self.restart(packet, frames, (from, arrival), missed);
            self.reached =
                reached.map(|frame| self.media_near(Wrapped::of(frame.as_frames(), 32).value));
            return restarted;
        }
        self.doubt = None;
        self.accept(packet, (sequence, media, frames), arrival, rate);
        Admission::Regular { sequence, media }
    }

    /// How many packets are missing between the newest and one that goes on where it ended, by its
    /// timestamp to the frame; `None` if it does not.
    fn follows(&self, media: MediaTime, frames: Frames, rate: Rate) -> Option<i64> {
        let (between, length) = (media - self.end(), self.newest.2.count());
        let near = between >= Frames::ZERO && between <= rate.frames_within(Self::JUMP);
        let fits = frames == self.newest.2 && length > 0 && between.count() % length == 0;
        (near && fits).then(|| between.count() / length)
    }

    /// Goes on counting from another number. No second packet need confirm it: a timestamp that is
    /// right to the frame is no chance.
    fn renumber(
        &mut self,
        packet: &PacketHead,
        (media, frames): (MediaTime, Frames),
        between: i64,
        arrival: LocalTime,
        rate: Rate,
    ) -> Admission {
        let sequence = self.newest.0 + 1 + between;
        self.number = Unwrapper::starting_at(packet.number);
        self.shift = sequence - self.number.highest();
        self.doubt = None;
        self.accept(packet, (sequence, media, frames), arrival, rate);
        Admission::Renumbered { sequence, media }
    }

    /// How many packets as long as the newest lie between that and this one, if its number and its
    /// timestamp both say so: after an outage of minutes the source goes on as if it had been heard.
    /// Where the sender's card dropped some frames meanwhile, fewer packets than the timestamp tells
    /// were numbered, and the time that passed must bear it out.
    fn missed(
        &self,
        packet: &PacketHead,
        (media, frames): (MediaTime, Frames),
        arrival: LocalTime,
        rate: Rate,
    ) -> u64 {
        let (between, length) = (media - self.end(), self.newest.2.count());
        if between <= Frames::ZERO || frames != self.newest.2 || length == 0 {
            return 0;
        }
        let most = between.count() / length;
        let last = self.number.going_on_from(self.newest.0 - self.shift + most);
        let missed = last.peek(packet.number.value) - 1 + self.shift - self.newest.0;
        let skipped = between - Frames::new(missed * length);
        let (told, passed) = (rate.span_of(between), arrival - self.heard);
        let borne_out = (told - passed).abs() <= Self::UNSURE + passed.abs().divided(1000)
            && rate.span_of(skipped) <= Self::JUMP + told.divided(16);
        let fits = skipped == Frames::ZERO || skipped > Frames::ZERO && borne_out;
        if missed > 0 && fits { missed.unsigned_abs() } else { 0 }
    }

    /// Whether a packet was sent before the newest, if its number and its timestamp both say so: as
    /// many packets lie between as are as long as those seen. Where the sender's card dropped some
    /// frames, they are fewer. Where that leaves too many numbers open, they say nothing.
    fn passed(&self, packet: &PacketHead, media: MediaTime) -> bool {
        let (back, (shortest, longest)) = ((self.newest.1 - media).count(), self.lengths);
        if back <= 0 || shortest <= Frames::ZERO {
            return false;
        }
        let (most, least) = (back / shortest.count() + 1, back / longest.count());
        let least = least - (least / 16).min(Self::MAX_MISORDER);
        let newest = self.newest.0 - self.shift;
        let middle = self.number.going_on_from(newest - (most + least) / 2);
        let packets = newest - middle.peek(packet.number.value);
        most - least <= 2 * Self::MAX_MISORDER && (least..=most).contains(&packets)
    }

    /// How many packets lie between the newest and where its sound had ended before they began to
    /// come once more.
    fn repeats(&self) -> u64 {
        let again = self.reached.map_or(Frames::ZERO, |reached| reached - self.end());
        (again.count().max(0) / self.newest.2.count().max(1)).unsigned_abs()
    }

    /// How far `media` is from where a packet that is `ahead` of the newest can begin, the packets
    /// between being as long as those seen. Only what is newer than the newest is held against
    /// its number.
    fn strayed(&self, ahead: i64, media: MediaTime) -> Frames {
        if ahead <= 0 {
            return Frames::ZERO;
        }
        let between = |length: Frames| Frames::new((ahead - 1).saturating_mul(length.count()));
        let earliest = self.end() + between(self.lengths.0);
        let latest = self.end() + between(self.lengths.1);
        (earliest - media).max(media - latest).max(Frames::ZERO)
    }

    fn accept(
        &mut self,
        packet: &PacketHead,
        (sequence, media, frames): (i64, MediaTime, Frames),
        arrival: LocalTime,
        rate: Rate,
    ) {
        let carried = sequence - self.shift;
        self.number = self.number.going_on_from(self.number.highest().max(carried));
        self.timeline = self.timeline.going_on_from(self.timeline.highest().max(media.as_frames()));
        self.begin = self.begin.min(media);
        self.lengths = (self.lengths.0.min(frames), self.lengths.1.max(frames));
        if sequence > self.newest.0 {
            self.newest = (sequence, media, frames);
        }
        self.hear(packet, media, arrival, rate);
    }

    /// What a packet tells, wherever among the others it lies.
    #[inline]
    fn hear(&mut self, packet: &PacketHead, media: MediaTime, arrival: LocalTime, rate: Rate) {
        self.stamped |= packet.capture.is_some();
        self.begins_anew = packet.begins && !self.marked;
        self.marked = packet.begins;
        self.received += 1;
        // Whoever sends again after a silence is back: a sender may leave one receiver for a while.
        self.said_goodbye &= arrival - self.heard <= Self::SILENT;
        self.heard = arrival;
        let transit = arrival - (LocalTime::ZERO + rate.span_of(media - MediaTime::ZERO));
        if let Some(before) = self.transit.replace(transit) {
            let change = (transit - before).abs();
            self.jitter = self.jitter + (change - self.jitter).divided(16);
        }
    }

    /// A packet that begins a run of sound needs no second to confirm it.
    fn confirmed(&mut self, packet: &PacketHead, frames: Frames) -> bool {
        let this = (packet.stream, packet.number, packet.media);
        let next = packet.media.plus(frames.count());
        let follower = (packet.stream, packet.number.plus(1), next);
        self.doubt.replace(follower) == Some(this) || (packet.begins && !self.marked)
    }

    fn restart(
        &mut self,
        packet: &PacketHead,
        frames: Frames,
        arrived: (Endpoint, LocalTime),
        missed: u64,
    ) -> Admission {
        // An outage is no new beginning of what was expected.
        let (expected, received) = match missed {
            0 => (0, 0),
            missed => (self.expected() + missed, self.received),
        };
        *self = Self::begin(packet, frames, arrived);
        self.received = received + 1;
        self.first_sequence -= expected as i64;
        Admission::Restarted { sequence: self.newest.0, media: self.newest.1, missed }
    }
}
