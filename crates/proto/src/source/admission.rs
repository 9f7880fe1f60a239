//! Admission of packets to a source.

use super::{Extent, OddSteps, Source};
use crate::endpoint::{Arrival, SourceEndpoints};
use crate::packet::PacketHead;
use crate::time::{Frames, LocalTime, MediaTime};
use crate::units::Rate;
use crate::wrap::{Unwrapper, Wrapped};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Numbers and timestamps continue.
    Regular { sequence: i64, media: MediaTime },
    /// Numbers restart; timestamps and sound continue.
    Renumbered { sequence: i64, media: MediaTime },
    /// After a pause or restart; nothing is missing.
    Resumed { sequence: i64, media: MediaTime },
    /// Timestamps jump, numbers continue.
    Jumped { sequence: i64, media: MediaTime },
    /// First packet of a restarted or new source.
    Restarted {
        sequence: i64,
        media: MediaTime,
        /// Packets lost in an outage before this packet.
        missed: u64,
    },
    /// Outlier; the next packet decides.
    Doubted,
    /// Duplicate, sent long before the newest packet.
    Repeated,
    /// From another source or address while the source plays.
    Foreign,
}

impl Source {
    pub(crate) fn admit(
        &mut self,
        packet: &PacketHead,
        frames: Frames,
        arrived: &Arrival,
        rate: Rate,
    ) -> Admission {
        if packet.stream == self.stream
            && let Some(next) = self.admit_next(packet, frames, arrived, rate)
        {
            return next;
        }
        self.admit_other(packet, frames, arrived, rate)
    }

    #[inline(never)]
    fn admit_other(
        &mut self,
        packet: &PacketHead,
        frames: Frames,
        arrived: &Arrival,
        rate: Rate,
    ) -> Admission {
        if packet.stream != self.stream {
            return if self.is_silent(arrived.at) {
                self.restart(packet, frames, arrived, 0)
            } else {
                Admission::Foreign
            };
        }
        self.admit_from(packet, arrived, rate, |own| own.admit_own(packet, frames, arrived, rate))
    }

    /// Admits a packet that breaks the count ([`crate::frame_count::Sequel`]) by its media time.
    pub(crate) fn readmit(
        &mut self,
        packet: &PacketHead,
        frames: Frames,
        arrived: &Arrival,
        rate: Rate,
    ) -> Admission {
        if packet.stream != self.stream {
            return self.admit_other(packet, frames, arrived, rate);
        }
        self.admit_from(packet, arrived, rate, |own| own.resume(packet, frames, arrived, rate))
    }

    fn admit_from(
        &mut self,
        packet: &PacketHead,
        arrived: &Arrival,
        rate: Rate,
        judge: impl FnOnce(&mut Self) -> Admission,
    ) -> Admission {
        let Some((endpoints, before)) = self.endpoints_from(packet, arrived, rate) else {
            return Admission::Foreign;
        };
        let admission = judge(self);
        if admission != Admission::Doubted {
            (self.endpoints, self.before) = (endpoints, before);
        }
        admission
    }

    /// Fast path: next packet, equal length, first address.
    fn admit_next(
        &mut self,
        packet: &PacketHead,
        frames: Frames,
        arrived: &Arrival,
        rate: Rate,
    ) -> Option<Admission> {
        let (sequence, media) = (self.newest.sequence + 1, self.end());
        let next = frames == self.newest.frames
            && self.endpoints.begin_at(&arrived.from)
            && packet.number.bits >= 16
            && self.read(packet) == (sequence, media);
        next.then(|| {
            self.doubt = None;
            self.steps.regular = true;
            self.number = self.number.going_on_from(sequence - self.shift);
            self.timeline = self.timeline.going_on_from(media.as_frames());
            self.newest = Extent { sequence, media, frames };
            self.handle(packet, media, arrived.at, rate);
            Admission::Regular { sequence, media }
        })
    }

    /// Whether another source may follow.
    pub fn is_silent(&self, now: LocalTime) -> bool {
        self.said_goodbye || now - self.last_arrival > Self::SILENT
    }

    /// Current and previous addresses of the source. `None` if another host sent the packet.
    fn endpoints_from(
        &self,
        packet: &PacketHead,
        arrived: &Arrival,
        rate: Rate,
    ) -> Option<(SourceEndpoints, Option<SourceEndpoints>)> {
        let &Arrival { from, at: arrival, .. } = arrived;
        if self.endpoints.has(from) {
            return Some((self.endpoints, self.before));
        }
        // The source moved, so another host had taken the name.
        if let Some(before) = self.before.filter(|before| before.has(from)) {
            return Some((before, None));
        }
        if self.said_goodbye {
            return Some((SourceEndpoints::only(from), None));
        }
        if arrival - self.last_arrival > Self::MOVED {
            return Some((SourceEndpoints::only(from), self.before.or(Some(self.endpoints))));
        }
        // A second network carries the same packets.
        let endpoints = self.endpoints.with(from).filter(|_| self.is_in_step(packet, rate));
        endpoints.map(|endpoints| (endpoints, self.before))
    }

    fn is_in_step(&self, packet: &PacketHead, rate: Rate) -> bool {
        let (sequence, media) = self.read(packet);
        let near = (sequence - self.newest.sequence).abs() <= Self::MAX_DROPOUT;
        let astray = media - self.media_of(sequence);
        near && astray.max(-astray) <= rate.frames_within(Self::JUMP)
    }

    fn read(&self, packet: &PacketHead) -> (i64, MediaTime) {
        let media = MediaTime::from_frames(self.timeline.peek(packet.media.value));
        let near = match packet.number.bits {
            16.. => self.number,
            // Short numbers wrap in a brief outage; use the time.
            _ => self.number.going_on_from(self.number_at(media)),
        };
        (near.peek(packet.number.value) + self.shift, media)
    }

    fn admit_own(
        &mut self,
        packet: &PacketHead,
        frames: Frames,
        arrived: &Arrival,
        rate: Rate,
    ) -> Admission {
        let (sequence, media) = self.read(packet);
        let ahead = sequence - self.newest.sequence;
        self.observe_step(sequence, media, rate);
        let renumbered = !(-Self::MAX_MISORDER..=Self::MAX_DROPOUT).contains(&ahead);
        let jumped = self.strayed(ahead, media) > rate.frames_within(Self::JUMP);
        if (renumbered || jumped || ahead <= 0)
            && let Some(between) = self.follows(media, frames, rate)
        {
            let sequence = self.newest.sequence + 1 + between;
            return self.renumber(packet, Extent { sequence, media, frames }, arrived.at, rate);
        }
        let passed = (renumbered || jumped) && self.passed(packet, media);
        if passed && !self.is_silent(arrived.at) {
            return Admission::Repeated;
        }
        let this = Extent { sequence, media, frames };
        let missed = if renumbered { self.missed(packet, this, arrived.at, rate) } else { 0 };
        if (renumbered && missed == 0 || jumped && !renumbered) && !self.confirmed(packet, frames) {
            return Admission::Doubted;
        }
        if renumbered {
            let missed = missed.saturating_sub(self.repeats());
            let reached = passed.then(|| self.reached.unwrap_or(self.end()).max(self.end()));
            let restarted = self.restart(packet, frames, arrived, missed);
            self.reached =
                reached.map(|frame| self.media_near(Wrapped::of(frame.as_frames(), 32).value));
            return restarted;
        }
        // Timestamps of a silent sender may advance.
        let reported = rate.span_of(media - self.end());
        let in_time = (reported - (arrived.at - self.last_arrival)).abs() <= Self::JUMP;
        self.doubt = None;
        self.accept(packet, this, arrived.at, rate);
        match jumped && !in_time {
            true => Admission::Jumped { sequence, media },
            false => Admission::Regular { sequence, media },
        }
    }

    fn observe_step(&mut self, sequence: i64, media: MediaTime, rate: Rate) {
        let frames = (media - self.newest.media).count();
        let longest = rate.frames_within(Self::JUMP).count();
        let odd = frames != self.newest.frames.count() && (1..=longest).contains(&frames);
        if sequence != self.newest.sequence + 1 || !odd {
            return;
        }
        let again = self.steps.frames == frames && self.steps.last == self.newest.sequence;
        let packets = if again { self.steps.packets + 1 } else { 1 };
        self.steps = OddSteps { frames, packets, last: sequence, ..self.steps };
    }

    /// Continues with a confirmed run. Restarts if it begins before the end of the sound.
    fn resume(
        &mut self,
        packet: &PacketHead,
        frames: Frames,
        arrived: &Arrival,
        rate: Rate,
    ) -> Admission {
        if !self.confirmed(packet, frames) {
            return Admission::Doubted;
        }
        let media = self.media_near(packet.media.value);
        if media < self.end() {
            return self.restart(packet, frames, arrived, 0);
        }
        let (sequence, begins) = (self.newest.sequence + 1, PacketHead { begins: true, ..*packet });
        self.marked = false;
        self.renumber(&begins, Extent { sequence, media, frames }, arrived.at, rate);
        self.marked = packet.begins;
        Admission::Resumed { sequence, media }
    }

    /// Packets missing before one whose timestamp continues exactly.
    fn follows(&self, media: MediaTime, frames: Frames, rate: Rate) -> Option<i64> {
        let (between, length) = (media - self.end(), self.newest.frames.count());
        let near = between >= Frames::ZERO && between <= rate.frames_within(Self::JUMP);
        let fits = frames == self.newest.frames && length > 0 && between.count() % length == 0;
        (near && fits).then(|| between.count() / length)
    }

    /// Continues from another number. An exact timestamp needs no confirmation.
    fn renumber(
        &mut self,
        packet: &PacketHead,
        this: Extent,
        arrival: LocalTime,
        rate: Rate,
    ) -> Admission {
        let Extent { sequence, media, .. } = this;
        self.number = Unwrapper::starting_at(packet.number);
        self.shift = sequence - self.number.highest();
        self.doubt = None;
        self.accept(packet, this, arrival, rate);
        Admission::Renumbered { sequence, media }
    }

    /// Packets missing in an outage, if number and timestamp agree. A card may drop frames, so the
    /// elapsed time must agree too.
    fn missed(&self, packet: &PacketHead, this: Extent, arrival: LocalTime, rate: Rate) -> u64 {
        let Extent { media, frames, .. } = this;
        let (between, length) = (media - self.end(), self.newest.frames.count());
        if between <= Frames::ZERO || frames != self.newest.frames || length == 0 {
            return 0;
        }
        let maximum = between.count() / length;
        let last = self.number.going_on_from(self.newest.sequence - self.shift + maximum);
        let missed = last.peek(packet.number.value) - 1 + self.shift - self.newest.sequence;
        let skipped = between - Frames::new(missed * length);
        let (reported, passed) = (rate.span_of(between), arrival - self.last_arrival);
        let borne_out = (reported - passed).abs() <= Self::UNSURE + passed.abs().divided(1000)
            && rate.span_of(skipped) <= Self::JUMP + reported.divided(16);
        let fits = skipped == Frames::ZERO || skipped > Frames::ZERO && borne_out;
        if missed > 0 && fits { missed.unsigned_abs() } else { 0 }
    }

    /// Whether the packet precedes the newest by number and timestamp, with plausible packet
    /// lengths.
    fn passed(&self, packet: &PacketHead, media: MediaTime) -> bool {
        let (back, (shortest, longest)) = ((self.newest.media - media).count(), self.lengths);
        if back <= 0 || shortest <= Frames::ZERO {
            return false;
        }
        let (maximum, minimum) = (back / shortest.count() + 1, back / longest.count());
        let minimum = minimum - (minimum / 16).min(Self::MAX_MISORDER);
        let newest = self.newest.sequence - self.shift;
        let middle = self.number.going_on_from(newest - (maximum + minimum) / 2);
        let packets = newest - middle.peek(packet.number.value);
        maximum - minimum <= 2 * Self::MAX_MISORDER && (minimum..=maximum).contains(&packets)
    }

    /// Packets from the newest to the end of the earlier sound.
    fn repeats(&self) -> u64 {
        let again = self.reached.map_or(Frames::ZERO, |reached| reached - self.end());
        (again.count().max(0) / self.newest.frames.count().max(1)).unsigned_abs()
    }

    /// Distance of `media` from the possible starts of a newer packet.
    fn strayed(&self, ahead: i64, media: MediaTime) -> Frames {
        if ahead <= 0 {
            return Frames::ZERO;
        }
        let between = |length: Frames| Frames::new((ahead - 1).saturating_mul(length.count()));
        let earliest = self.end() + between(self.lengths.0);
        let latest = self.end() + between(self.lengths.1);
        (earliest - media).max(media - latest).max(Frames::ZERO)
    }

    fn accept(&mut self, packet: &PacketHead, this: Extent, arrival: LocalTime, rate: Rate) {
        let Extent { sequence, media, frames } = this;
        let carried = sequence - self.shift;
        self.number = self.number.going_on_from(self.number.highest().max(carried));
        self.timeline = self.timeline.going_on_from(self.timeline.highest().max(media.as_frames()));
        self.begin = self.begin.min(media);
        self.lengths = (self.lengths.0.min(frames), self.lengths.1.max(frames));
        if sequence > self.newest.sequence {
            self.newest = this;
        }
        self.handle(packet, media, arrival, rate);
    }

    // Inlined: two callers, otherwise 15 more instructions.
    #[inline(always)]
    fn handle(&mut self, packet: &PacketHead, media: MediaTime, arrival: LocalTime, rate: Rate) {
        self.stamped |= packet.capture.is_some();
        self.restarts_at = packet.begins && !self.marked;
        self.marked = packet.begins;
        self.received += 1;
        self.said_goodbye &= arrival - self.last_arrival <= Self::SILENT;
        self.last_arrival = arrival;
        let transit = arrival - (LocalTime::ZERO + rate.span_of(media - MediaTime::ZERO));
        if let Some(before) = self.transit.replace(transit) {
            let change = (transit - before).abs();
            self.jitter = self.jitter + (change - self.jitter).divided(16);
        }
    }

    /// Whether the packet is confirmed by the previous packet, or begins a run.
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
        arrived: &Arrival,
        missed: u64,
    ) -> Admission {
        // An outage keeps the number of expected packets.
        let (expected, received) = match missed {
            0 => (0, 0),
            missed => (self.expected() + missed, self.received),
        };
        *self = Self::begin(packet, frames, arrived);
        self.received = received + 1;
        self.first_sequence -= expected as i64;
        Admission::Restarted { sequence: self.newest.sequence, media: self.newest.media, missed }
    }
}
