//! Input of the jitter buffer.

use super::format_proof::FormatProof;
use super::turns::{PackedSlot, Slot};
use super::{Accepted, JitterBuffer, Phase, Playable, Received, Resync, Stranger};
use crate::clock::ReadingOutcome;
use crate::codec::Coding;
use crate::congestion::TransitMeter;
use crate::endpoint::{Arrival, Endpoint};
use crate::frame_count::Sequel;
use crate::ledger::PacketTrace;
use crate::packet::{Codings, Invalid, MediaPacket, PacketHead};
use crate::playout::Placed;
use crate::renderer::Renderer;
use crate::source::{Admission, Source};
use crate::stream::{MAX_DATAGRAM_BYTES, StreamFormat};
use crate::time::{Frames, LocalTime, MediaTime, Span, WallTime};

static SILENCE: [u8; MAX_DATAGRAM_BYTES] = [0; MAX_DATAGRAM_BYTES];

/// Length, format, and relation to the previous packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct PacketMeasure {
    frames: Frames,
    format: StreamFormat,
    sequel: Sequel,
}

impl JitterBuffer {
    /// Takes a datagram. `arrival` is the kernel's timestamp, `read` the program's.
    pub fn handle<'a>(
        &mut self,
        datagram: &'a [u8],
        arrival: LocalTime,
        read: LocalTime,
    ) -> Received<'a> {
        let arrived = Arrival::exact(Endpoint::UNKNOWN, arrival, read);
        self.handle_with(datagram, &arrived, &mut |_| {})
    }

    /// Like [`Self::handle`], and reports playable frames to `brought`, including restored ones.
    pub fn handle_with<'a>(
        &mut self,
        datagram: &'a [u8],
        arrived: &Arrival,
        brought: &mut dyn FnMut(Playable<'_>),
    ) -> Received<'a> {
        match &self.config.wire.unpack(datagram) {
            Ok(packet) => match self.measure(packet) {
                Ok(measured) if packet.presented.is_some() => {
                    self.count(packet, measured, arrived, brought)
                }
                Ok(measured) => self.admit(packet, measured, arrived, brought),
                Err(reason) => self.refuse(reason),
            },
            Err(reason) => self.refuse(*reason),
        }
    }

    /// The capture time is the presentation time minus the announced or configured delay, whatever
    /// the latency.
    #[inline(never)]
    fn count<'a>(
        &mut self,
        packet: &MediaPacket<'a>,
        measured: PacketMeasure,
        arrived: &Arrival,
        brought: &mut dyn FnMut(Playable<'_>),
    ) -> Received<'a> {
        let Some(presented) = &packet.presented else {
            return self.admit(packet, measured, arrived, brought);
        };
        let rate = measured.format.rate;
        let counted =
            self.counter.count(&packet.head, presented, measured.frames, rate, arrived.at);
        let now = self.placement.wall(arrived.at);
        let presentation = presented.time.zip(now).map(|(time, now)| time.nearest(now));
        let after = self.presented_after.unwrap_or(self.config.presented_after);
        let head = PacketHead {
            number: counted.number(),
            media: counted.media(),
            begins: counted.sequel() == Sequel::SaidAnew,
            capture: presentation.map(|at| at + -after),
            ..packet.head
        };
        let measured = PacketMeasure { sequel: counted.sequel(), ..measured };
        let received = self.admit(&MediaPacket { head, ..*packet }, measured, arrived, brought);
        if !matches!(received, Received::Foreign | Received::Doubted | Received::Invalid(_)) {
            self.counter.follow(counted);
            self.counters.uncertain_clock += u64::from(presented.uncertain);
        }
        received
    }

    #[cold]
    fn refuse<'a>(&mut self, reason: Invalid) -> Received<'a> {
        self.counters.invalid += 1;
        self.invalid[reason.index()] += 1;
        if let Invalid::PayloadType(got) = reason {
            self.others.count(got);
        }
        Received::Invalid(reason)
    }

    /// The coding may change with a new source, or with packets that carry it (RFC 3550 §5.1).
    pub(super) fn measure(&self, packet: &MediaPacket<'_>) -> Result<PacketMeasure, Invalid> {
        let mut format = self.format;
        let (wire, coding) = (&self.config.wire, packet.head.coding);
        let unsettled = || self.source.as_ref().is_none_or(|s| s.stream() != packet.head.stream);
        if coding != format.payload_type
            && (wire.codings() == Codings::ByConvention || unsettled())
            && let Some(Coding { sample, codec }) = wire.coding(coding, &self.config.format)
        {
            format = StreamFormat { sample, codec, payload_type: coding, ..format };
        }
        if let Some(codec) = format.codec
            && !self.renderer.playout.coded().is_some_and(|coded| coded.reads(codec))
        {
            return Err(Invalid::PayloadType(coding));
        }
        let carried = match format.codec {
            None => StreamFormat { channels: self.carried, ..format },
            Some(_) => format,
        };
        let longest = Frames::new(self.renderer.playout.capacity().count() / 2);
        let frames = packet.frames(&carried, longest)?;
        Ok(PacketMeasure { frames, format, sequel: Sequel::GoesOn })
    }

    fn admit<'a>(
        &mut self,
        packet: &MediaPacket<'a>,
        PacketMeasure { frames, format, sequel }: PacketMeasure,
        arrived: &Arrival,
        brought: &mut dyn FnMut(Playable<'_>),
    ) -> Received<'a> {
        let &Arrival { at: arrival, read, .. } = arrived;
        if self.source.is_none() {
            self.begin_losses();
            self.source = Some(Source::begin(&packet.head, frames, arrived));
            self.format = format;
            self.apply_clock();
        }
        let Some(source) = &mut self.source else { return Received::Doubted };
        let stream = source.stream();
        let mut newest = (source.received() > 0).then(|| source.highest());
        let end = source.end();
        let admission = match sequel {
            Sequel::GoesOn => source.admit(&packet.head, frames, arrived, self.format.rate),
            _ => source.readmit(&packet.head, frames, arrived, self.format.rate),
        };
        let (sequence, media) = match admission {
            Admission::Regular { sequence, media } => (sequence, media),
            Admission::Renumbered { sequence, media } => {
                // Redundant data refers to sequence numbers.
                self.reset_repairer();
                (sequence, media)
            }
            Admission::Resumed { sequence, media } => {
                // Earlier frames play to the end. Later ones get their own clock line: the card
                // drifts in silence.
                let playing = self.phase == Phase::Playing;
                let received =
                    playing && self.renderer.place().is_some_and(|place| place.frame < end);
                self.placement.begin_run(media, end, received);
                self.proof.restart_pace();
                self.stepped |= playing && !received;
                self.reset_repairer();
                (sequence, media)
            }
            Admission::Jumped { sequence, media } => {
                // Timestamps now map to other times.
                self.placement.begin_run(media, end, false);
                self.proof.restart_pace();
                self.restart(Resync::Jump);
                (sequence, media)
            }
            Admission::Restarted { sequence, media, missed } => {
                self.counters.lost += missed;
                self.tally.outage(missed);
                if stream != packet.head.stream {
                    self.begin_losses();
                }
                self.was_mapped &= missed > 0;
                self.format = format;
                self.placement.forget_all();
                self.transit = self.transit.as_ref().map(|_| TransitMeter::default());
                self.proof = FormatProof::default();
                self.restart(Resync::NewSource);
                self.forget_need();
                self.apply_clock();
                newest = None;
                (sequence, media)
            }
            Admission::Doubted => {
                self.counters.on_probation += 1;
                return Received::Doubted;
            }
            Admission::Repeated => {
                self.counters.received += 1;
                self.counters.duplicate += 1;
                return Received::Duplicate;
            }
            Admission::Foreign => {
                self.counters.other_source += 1;
                let poses = packet.head.stream == source.stream();
                if poses || self.stranger.is_none_or(|before| !before.poses) {
                    self.stranger = Some(Stranger { from: arrived.from, poses });
                }
                return Received::Foreign;
            }
        };
        self.counters.received += 1;
        if self.follow_carried() {
            self.counters.on_probation += 1;
            return Received::Doubted;
        }
        self.counters.media_clock_restarts += u64::from(sequel == Sequel::SaidAnew);
        if let Some(before) = self.turns.arrived(sequence) {
            if before.repaired {
                // This packet may still restore others.
                self.counters.reordered += 1;
                self.counters.repaired_arrived += 1;
                self.tally.arrived(newest.map(|newest| sequence - newest));
                let arrived = PackedSlot::from(&Slot { media, frames, ..before });
                self.repair(packet, &arrived, &format, brought);
            } else {
                self.counters.duplicate += 1;
                if let Some(newest) = newest {
                    self.copies.observe(newest - sequence, newest);
                }
            }
            return Received::Duplicate;
        }
        self.tally.arrived(newest.map(|newest| sequence - newest));
        let follows = newest.is_some_and(|newest| sequence == newest + 1);
        // Our senders send silence too: they skip frames only if their device delivered none.
        let can_pause = newest.is_none() || packet.head.instants.is_none();
        self.settle_tail(if follows { media - end } else { Frames::ZERO }, can_pause);
        let capture = packet.head.capture;
        self.observe_transit(packet, arrival);
        self.place_in_time(media, frames, arrival, capture);
        self.measure_length(frames);
        let is_unannounced = self.is_unannounced();
        if is_unannounced {
            self.proof.observe_arrival(media, arrival, format.rate);
        }
        if is_unannounced && format.codec.is_none() {
            let frame_bytes = self.carried.count() * format.sample.bytes();
            self.proof.observe_samples(format.sample, frame_bytes, packet.payload);
        } else {
            self.proof.trust();
        }
        self.order(sequence);
        if self.source.as_ref().is_some_and(|s| sequence == s.highest()) {
            self.format = StreamFormat { packet: frames, ..format };
            let bytes = packet.payload.len();
            self.bitrate = format.codec.and_then(|codec| codec.bitrate_of(bytes, frames));
        }
        // Muting only fades, and a wrong float may be 10³⁸.
        let payload = match self.proof.is_silenced() {
            true => &SILENCE[..packet.payload.len().min(SILENCE.len())],
            false => packet.payload,
        };
        let place = |renderer: &mut Renderer| match format.codec {
            None => renderer.playout.place(media, format.sample, payload),
            Some(codec) => renderer.playout.place_coded(media, frames, codec, packet.payload),
        };
        let mut placed = place(&mut self.renderer);
        if matches!(placed, Placed::Beyond(..)) && self.catch_up(read) {
            placed = place(&mut self.renderer);
        }
        let kept = PackedSlot::from(&Slot {
            sequence,
            media,
            frames,
            capture,
            instants: packet.head.instants,
            arrival,
            read,
            whole: placed == Placed::Whole,
            repaired: false,
        });
        let given_up = self.turns.make_room(sequence, || {
            // A device that stands still will not request the overdue frames.
            let (place, due) = (self.renderer.place()?, self.placement.due(read)?);
            Some(place.frame.max(due.point.frame))
        });
        self.counters.lost += given_up.lost;
        self.counters.underrun_discarded += given_up.not_received;
        self.counters.trace_overflow += given_up.unfollowed;
        self.counters.lost -= u64::from(self.turns.keep(kept));
        if let Some(newest) = newest.filter(|newest| sequence < *newest && placed == Placed::Whole)
        {
            self.count_copy(newest - sequence, newest);
        }
        self.repair(packet, &kept, &format, brought);
        let accepted = Accepted { media, payload: packet.payload, sample: format.sample };
        // Compressed frames are reported via [`Self::take_decoded`].
        if format.codec.is_none() {
            self.report_playable(placed, &kept, brought);
        }
        self.answer(placed, accepted, &kept, read)
    }

    fn order(&mut self, sequence: i64) {
        if self.is_first() {
            self.turns.begin(sequence);
        } else if self.source.as_ref().is_some_and(|s| sequence < s.highest()) {
            self.counters.reordered += 1;
            if self.phase != Phase::Playing {
                self.turns.begin_no_later(sequence);
            }
        }
    }

    /// Skips frames due before `now` if packets do not fit.
    fn catch_up(&mut self, now: LocalTime) -> bool {
        let (Some(due), Some(place)) = (self.placement.due(now), self.renderer.place()) else {
            return false;
        };
        if place >= due.point {
            return false;
        }
        self.renderer.catch_up(due.point);
        self.caught_up = true;
        true
    }

    fn report_playable(
        &self,
        placed: Placed,
        kept: &PackedSlot,
        brought: &mut dyn FnMut(Playable<'_>),
    ) {
        let late = match placed {
            Placed::Whole => Some(Frames::ZERO),
            Placed::Partly(late) => Some(late),
            Placed::Late | Placed::Beyond(..) => None,
        };
        if let Some(late) = late {
            let frames = kept.media + late..kept.end();
            brought(Playable { frames, sound: self.sound() });
        }
    }

    fn answer<'a>(
        &mut self,
        placed: Placed,
        accepted: Accepted<'a>,
        kept: &PackedSlot,
        read: LocalTime,
    ) -> Received<'a> {
        match placed {
            Placed::Whole => {
                // Any packet fits before playback begins.
                if self.phase == Phase::Playing {
                    self.step.reset();
                }
                Received::Placed(accepted)
            }
            Placed::Partly(..) => Received::Partly(accepted, self.late(kept, read)),
            Placed::Late => Received::Late(self.late(kept, read)),
            Placed::Beyond(..) => {
                self.counters.too_early += 1;
                Received::Early
            }
        }
    }

    #[cold]
    fn late(&mut self, kept: &PackedSlot, read: LocalTime) -> PacketTrace {
        let dac = self.placement.presentation(kept.media).unwrap_or(read);
        let passage = kept.passage(&self.placement, read, dac, Span::ZERO);
        self.counters.late += 1;
        if !self.follow_step(kept.media, kept.frames(), kept.arrival()) {
            self.measure_late(&passage);
        }
        passage
    }

    fn observe_transit(&mut self, packet: &MediaPacket<'_>, arrival: LocalTime) {
        let Some(meter) = &mut self.transit else { return };
        let (Some(source), Some(capture)) = (&self.source, packet.head.capture) else { return };
        let Some(instants) = packet.head.instants else { return };
        let left = capture + instants.handed.max(instants.packed) + instants.held;
        let transit = arrival.as_nanos().wrapping_sub(left.as_unix_nanos());
        let of = (source.stream().ssrc(), source.highest_carried());
        meter.observe(of, packet.payload.len(), transit, arrival);
    }

    fn place_in_time(
        &mut self,
        media: MediaTime,
        frames: Frames,
        arrival: LocalTime,
        capture: Option<WallTime>,
    ) {
        self.placement.observe_arrival(media, frames, arrival);
        let Some(wall) = capture else { return };
        if self.placement.observe_capture(media, wall) == ReadingOutcome::Jumped {
            match self.config.wire.presents() {
                true => self.stepped = true,
                false => self.restart(Resync::Jump),
            }
        }
    }

    fn is_first(&self) -> bool {
        matches!(self.phase, Phase::Waiting(_)) && self.renderer.place().is_none()
    }
}
