//! Whom a receiver hears: one synchronisation source, its packet count and its timeline without
//! wrap-around, and the doubt that a packet which does not fit must overcome.

use crate::time::{Frames, LocalTime, MediaTime, Span};
use crate::units::Rate;
use crate::wire::rtp::Packet;
use crate::wrap::{SequenceUnwrapper, TimestampUnwrapper};

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
    /// Another source, while this one is heard.
    Foreign,
}

/// One synchronisation source.
#[derive(Debug, Clone)]
pub struct Source {
    ssrc: u32,
    sequence: SequenceUnwrapper,
    /// What numbers are ahead of those that packets carry, since these began anew.
    shift: i64,
    timestamp: TimestampUnwrapper,
    first_sequence: i64,
    /// The earliest frame seen.
    begin: MediaTime,
    /// The packet with the highest number: number, first frame, length.
    newest: (i64, MediaTime, Frames),
    /// The shortest and the longest packet seen.
    lengths: (Frames, Frames),
    received: u64,
    heard: LocalTime,
    /// Sequence number and timestamp that would confirm the doubted packet.
    doubt: Option<(u32, u16, u32)>,
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
    /// A source that was silent this long may be followed by another at once: two of the longest
    /// packets.
    const SILENT: Span = Span::from_millis(40);
    /// A timestamp this far from where the packet's number puts it is doubted.
    const JUMP: Span = Span::from_millis(20);
    /// How far the timestamps of an outage may be from the time that passed, beside a thousandth of
    /// it: what queues hold, and cards that run apart.
    const UNSURE: Span = Span::from_millis(250);

    /// Begins with its first packet.
    pub fn begin(packet: &Packet<'_>, frames: Frames, arrival: LocalTime) -> Self {
        let sequence = SequenceUnwrapper::starting_at(u32::from(packet.sequence));
        let timestamp = TimestampUnwrapper::starting_at(packet.timestamp);
        let newest = (sequence.highest(), MediaTime::from_frames(timestamp.highest()), frames);
        Self {
            ssrc: packet.ssrc,
            first_sequence: newest.0,
            begin: newest.1,
            newest,
            lengths: (frames, frames),
            sequence,
            shift: 0,
            timestamp,
            received: 0,
            heard: arrival,
            doubt: None,
            stamped: packet.sender.is_some(),
            marked: packet.marker,
            begins_anew: true,
            said_goodbye: false,
            transit: None,
            jitter: Span::ZERO,
        }
    }

    /// Its identity.
    pub const fn ssrc(&self) -> u32 {
        self.ssrc
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

    /// A frame of this timestamp, nearest to the newest.
    pub fn media_near(&self, rtp_timestamp: u32) -> MediaTime {
        MediaTime::from_frames(self.timestamp.peek(rtp_timestamp))
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
        packet: &Packet<'_>,
        frames: Frames,
        arrival: LocalTime,
        rate: Rate,
    ) -> Admission {
        let silent = self.said_goodbye || arrival - self.heard > Self::SILENT;
        if packet.ssrc != self.ssrc {
            return if silent {
                self.restart(packet, frames, arrival, 0)
            } else {
                Admission::Foreign
            };
        }
        let sequence = self.sequence.peek(u32::from(packet.sequence)) + self.shift;
        let media = MediaTime::from_frames(self.timestamp.peek(packet.timestamp));
        let ahead = sequence - self.newest.0;
        let renumbered = !(-Self::MAX_MISORDER..=Self::MAX_DROPOUT).contains(&ahead);
        let jumped = self.strayed(ahead, media) > rate.frames_within(Self::JUMP);
        if (renumbered || jumped || ahead <= 0)
            && let Some(between) = self.follows(media, frames, rate)
        {
            return self.renumber(packet, (media, frames), between, arrival, rate);
        }
        let missed =
            if renumbered { self.missed(packet, (media, frames), arrival, rate) } else { 0 };
        if (renumbered && missed == 0 || jumped && !renumbered) && !self.confirmed(packet, frames) {
            return Admission::Doubted;
        }
        if renumbered {
            return self.restart(packet, frames, arrival, missed);
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
        packet: &Packet<'_>,
        (media, frames): (MediaTime, Frames),
        between: i64,
        arrival: LocalTime,
        rate: Rate,
    ) -> Admission {
        let sequence = self.newest.0 + 1 + between;
        self.sequence = SequenceUnwrapper::starting_at(u32::from(packet.sequence));
        self.shift = sequence - self.sequence.highest();
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
        packet: &Packet<'_>,
        (media, frames): (MediaTime, Frames),
        arrival: LocalTime,
        rate: Rate,
    ) -> u64 {
        let (between, length) = (media - self.end(), self.newest.2.count());
        if between <= Frames::ZERO || frames != self.newest.2 || length == 0 {
            return 0;
        }
        let most = between.count() / length;
        let last = SequenceUnwrapper::going_on_from(self.newest.0 - self.shift + most);
        let missed = last.peek(u32::from(packet.sequence)) - 1 + self.shift - self.newest.0;
        let skipped = between - Frames::new(missed * length);
        let (told, passed) = (rate.span_of(between), arrival - self.heard);
        let borne_out = (told - passed).abs() <= Self::UNSURE + passed.abs().divided(1000)
            && rate.span_of(skipped) <= Self::JUMP + told.divided(16);
        let fits = skipped == Frames::ZERO || skipped > Frames::ZERO && borne_out;
        if missed > 0 && fits { missed.unsigned_abs() } else { 0 }
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
        packet: &Packet<'_>,
        (sequence, media, frames): (i64, MediaTime, Frames),
        arrival: LocalTime,
        rate: Rate,
    ) {
        self.sequence.extend(u32::from(packet.sequence));
        self.timestamp.extend(packet.timestamp);
        self.stamped |= packet.sender.is_some();
        self.begins_anew = packet.marker && !self.marked;
        self.marked = packet.marker;
        self.received += 1;
        self.begin = self.begin.min(media);
        self.lengths = (self.lengths.0.min(frames), self.lengths.1.max(frames));
        // Whoever sends again after a silence is back: a sender may leave one receiver for a while.
        self.said_goodbye &= arrival - self.heard <= Self::SILENT;
        self.heard = arrival;
        if sequence > self.newest.0 {
            self.newest = (sequence, media, frames);
        }
        let transit = arrival - (LocalTime::ZERO + rate.span_of(media - MediaTime::ZERO));
        if let Some(before) = self.transit.replace(transit) {
            let change = (transit - before).abs();
            self.jitter = self.jitter + (change - self.jitter).divided(16);
        }
    }

    /// A packet that begins a run of sound needs no second to confirm it.
    fn confirmed(&mut self, packet: &Packet<'_>, frames: Frames) -> bool {
        let this = (packet.ssrc, packet.sequence, packet.timestamp);
        let next = packet.timestamp.wrapping_add(frames.count() as u32);
        let follower = (packet.ssrc, packet.sequence.wrapping_add(1), next);
        self.doubt.replace(follower) == Some(this) || (packet.marker && !self.marked)
    }

    fn restart(
        &mut self,
        packet: &Packet<'_>,
        frames: Frames,
        arrival: LocalTime,
        missed: u64,
    ) -> Admission {
        *self = Self::begin(packet, frames, arrival);
        self.received = 1;
        Admission::Restarted { sequence: self.newest.0, media: self.newest.1, missed }
    }
}
