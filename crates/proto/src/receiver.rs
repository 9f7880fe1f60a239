//! The receiver machine of one stream: datagrams in, frames for the DAC out. Without I/O.
//!
//! Drive it from the device's thread, once per period: [`Receiver::handle`] every datagram that
//! has arrived, then [`Receiver::pull`] the period's frames. What an ordinary thread learns of the
//! sender's clock comes in as values ([`Receiver::set_clock`], [`Receiver::observe_report`]).

mod config;
mod outcome;
mod repair;
mod turns;

use core::ops::Range;

use crate::clock::{ClockMapping, Reading, WallTime};
use crate::ledger::Passage;
use crate::placement::{Basis, Due, Placement};
use crate::playout::Placed;
use crate::redundancy::Repairer;
use crate::redundancy::sizing::Tally;
use crate::renderer::{Rendered, Renderer};
use crate::source::{Admission, Source};
use crate::stream::StreamFormat;
use crate::time::{Frames, LocalTime, MediaPoint, MediaTime, Span};
use crate::units::Ppm;
use crate::wire::rtcp::LossReport;
use crate::wire::rtp::{Invalid, Packet};

pub use config::{PayloadTypes, ReceiverConfig};
pub use outcome::{Accepted, Counters, PullTimes, Pulled, Received, Resync};
use turns::{Slot, Turns};

/// Whether frames are being given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing was pulled since the stream began.
    Waiting(Option<Resync>),
    /// The cursor of the playout is the truth.
    Playing,
}

/// Receives one stream.
#[derive(Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    format: StreamFormat,
    source: Option<Source>,
    /// The last mapping heard of, and whose clock it maps.
    clock: Option<(u32, ClockMapping)>,
    placement: Placement,
    renderer: Renderer,
    phase: Phase,
    /// What was due before now was given up since the last block, as the device stood still.
    caught_up: bool,
    /// What the last block was placed by.
    basis: Option<Basis>,
    /// Whether the sender's clock has been known while this stream played.
    was_mapped: bool,
    turns: Turns,
    repairer: Repairer,
    tally: Tally,
    /// Frames that were due after the newest packet: missing if the stream goes on, nothing if it
    /// ended there.
    tail_missing: u64,
    /// Those of them in whose place the sound before went on.
    tail_concealed: u64,
    counters: Counters,
}

impl Receiver {
    /// Room for this much sound beyond the link offset: senders that run ahead, spare for a change
    /// of latency while playing.
    const ROOM: Span = Span::from_millis(250);

    /// A receiver with room for four times the link offset and a quarter second more. Allocates;
    /// nothing later does.
    pub fn new(config: ReceiverConfig) -> Self {
        let rate = config.format.rate;
        let frames = rate.frames_within(config.link_offset.times(4) + Self::ROOM);
        let shortest = rate.frames_within(crate::stream::PTIME_RANGE.0).count().max(1);
        let packets = (frames.count() / shortest + 64).unsigned_abs() as usize;
        Self {
            placement: Placement::new(rate, config.link_offset),
            renderer: Renderer::new(rate, config.format.channels, frames, config.resampler),
            phase: Phase::Waiting(None),
            caught_up: false,
            basis: None,
            was_mapped: false,
            turns: Turns::new(packets),
            repairer: Repairer::new(),
            tally: Tally::default(),
            counters: Counters::default(),
            format: config.format,
            source: None,
            clock: None,
            tail_missing: 0,
            tail_concealed: 0,
            config,
        }
    }

    /// What was counted.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What did not come, before any repair.
    pub const fn tally(&self) -> Tally {
        self.tally
    }

    /// What its reports tell of losses, if anything is heard.
    pub fn losses(&self) -> Option<LossReport> {
        let Counters { repaired, lost, .. } = self.counters;
        self.source.as_ref().map(|s| LossReport {
            ssrc: s.ssrc(),
            tally: self.tally,
            repaired,
            lost,
        })
    }

    /// The stream as its packets say it is.
    pub const fn format(&self) -> &StreamFormat {
        &self.format
    }

    /// Whom it hears, if anyone.
    pub const fn source(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    /// When frames play.
    pub const fn placement(&self) -> &Placement {
        &self.placement
    }

    /// The longest latency there is room for.
    pub fn longest_link_offset(&self) -> Span {
        self.format.rate.span_of(self.renderer.capacity()).divided(4)
    }

    /// Takes a newer mapping of the wall clock of the sender `ssrc`, whether or not it is heard
    /// yet.
    pub fn set_clock(&mut self, ssrc: u32, clock: ClockMapping) {
        self.clock = Some((ssrc, clock));
        if let Some(source) = &self.source {
            self.apply_clock(source.ssrc());
        }
    }

    fn apply_clock(&mut self, heard: u32) {
        if let Some((_, clock)) = self.clock.filter(|(ssrc, _)| *ssrc == heard) {
            self.placement.set_clock(clock);
        }
    }

    /// Changes the latency, up to [`Receiver::longest_link_offset`].
    pub fn set_link_offset(&mut self, link_offset: Span) {
        let link_offset = link_offset.min(self.longest_link_offset());
        // What is due lies so much earlier in the stream.
        let moved = self.placement.link_offset() - link_offset;
        if moved != Span::ZERO && self.phase == Phase::Playing {
            self.renderer.retarget(moved);
        }
        self.placement.set_link_offset(link_offset);
    }

    /// The sender `ssrc` left: another may follow at once.
    pub fn say_goodbye(&mut self, ssrc: u32) {
        if let Some(source) = self.source.as_mut().filter(|source| source.ssrc() == ssrc) {
            source.say_goodbye();
            self.renderer.end();
        }
    }

    /// Takes the pair of a sender report. Of use only where packets carry no capture time: theirs
    /// is finer.
    pub fn observe_report(&mut self, ssrc: u32, rtp_timestamp: u32, wall: WallTime) {
        let Some(source) = self.source.as_mut().filter(|s| s.ssrc() == ssrc && !s.stamped()) else {
            return;
        };
        let media = source.media_near(rtp_timestamp);
        match self.placement.observe_capture(media, wall) {
            Reading::Agreed => {}
            Reading::Doubted => self.counters.doubted_reports += 1,
            Reading::Jumped => self.restart(Resync::Jump),
        }
    }

    /// Takes one datagram that arrived at `arrival` (the kernel's stamp) and was read at `read`.
    pub fn handle<'a>(
        &mut self,
        datagram: &'a [u8],
        arrival: LocalTime,
        read: LocalTime,
    ) -> Received<'a> {
        self.handle_telling(datagram, (arrival, read), &mut |_| {})
    }

    /// The same; tells `rebuilt` of every packet that it brought back, and that will be played.
    pub fn handle_telling<'a>(
        &mut self,
        datagram: &'a [u8],
        (arrival, read): (LocalTime, LocalTime),
        rebuilt: &mut dyn FnMut(Accepted<'_>),
    ) -> Received<'a> {
        match Packet::parse_with(datagram, self.config.extensions)
            .and_then(|packet| self.measure(&packet).map(|measure| (packet, measure)))
        {
            Ok((packet, measure)) => self.admit(packet, measure, (arrival, read), rebuilt),
            Err(reason) => {
                self.counters.invalid[reason.index()] += 1;
                Received::Invalid(reason)
            }
        }
    }

    /// Checks the packet against the stream's format. Its payload type may give it another coding:
    /// another source's, which holds once that one is heard, and that of the source heard where
    /// each payload type says its own, so that a sender may change it (RFC 3550 §5.1).
    fn measure(&self, packet: &Packet<'_>) -> Result<(Frames, StreamFormat), Invalid> {
        let mut format = self.format;
        let unsettled = self.source.as_ref().is_none_or(|s| s.ssrc() != packet.ssrc);
        let changes = unsettled || self.config.payload_types == PayloadTypes::ByConvention;
        if changes && packet.payload_type != format.payload_type {
            let sample = self.config.payload_types.coding(packet.payload_type, &self.config.format);
            if let Some(sample) = sample {
                format.sample = sample;
                format.payload_type = packet.payload_type;
            }
        }
        let frames = packet.frames(&format, Frames::new(self.renderer.capacity().count() / 2))?;
        Ok((frames, format))
    }

    fn admit<'a>(
        &mut self,
        packet: Packet<'a>,
        (frames, format): (Frames, StreamFormat),
        (arrival, read): (LocalTime, LocalTime),
        rebuilt: &mut dyn FnMut(Accepted<'_>),
    ) -> Received<'a> {
        if self.source.is_none() {
            self.source = Some(Source::begin(&packet, frames, arrival));
            self.format = format;
            self.apply_clock(packet.ssrc);
        }
        let Some(source) = &mut self.source else { return Received::Doubted };
        let mut newest = (source.received() > 0).then(|| source.highest());
        let end = source.end();
        let (sequence, media) = match source.admit(&packet, frames, arrival, self.format.rate) {
            Admission::Regular { sequence, media } => (sequence, media),
            Admission::Renumbered { sequence, media } => {
                // What packets carry of others goes by the numbers.
                self.repairer.reset();
                (sequence, media)
            }
            Admission::Restarted { sequence, media, missed } => {
                self.counters.lost += missed;
                self.was_mapped &= missed > 0;
                self.format = format;
                self.placement.forget_all();
                self.restart(Resync::NewSource);
                self.apply_clock(packet.ssrc);
                newest = None;
                (sequence, media)
            }
            Admission::Doubted => {
                self.counters.doubted += 1;
                return Received::Doubted;
            }
            Admission::Foreign => {
                self.counters.foreign += 1;
                return Received::Foreign;
            }
        };
        self.counters.received += 1;
        if let Some(before) = self.turns.came(sequence).copied() {
            if before.repaired {
                // It may still bring others back.
                self.counters.reordered += 1;
                self.tally.came(newest.map(|newest| sequence - newest));
                self.repair(&packet, &Slot { media, frames, ..before }, &format, rebuilt);
            } else {
                self.counters.duplicate += 1;
            }
            return Received::Duplicate;
        }
        self.tally.came(newest.map(|newest| sequence - newest));
        let follows = newest.is_some_and(|newest| sequence == newest + 1);
        self.settle_tail(if follows { media - end } else { Frames::ZERO });
        let capture =
            packet.sender.map(|stamps| WallTime::from_unix_nanos(stamps.capture.to_unix_nanos()));
        self.place_in_time(media, frames, arrival, capture);
        self.order(sequence);
        if self.source.as_ref().is_some_and(|s| sequence == s.highest()) {
            self.format = StreamFormat { packet: frames, ..format };
        }
        let mut placed = self.renderer.place_packet(media, format.sample, packet.payload);
        if matches!(placed, Placed::Beyond { .. }) && self.catch_up(read) {
            placed = self.renderer.place_packet(media, format.sample, packet.payload);
        }
        let slot = Slot {
            sequence,
            media,
            frames,
            capture,
            instants: packet.sender.and_then(|stamps| stamps.instants),
            arrival,
            read,
            whole: placed == Placed::Whole,
            repaired: false,
        };
        let given_up = self.turns.make_room(sequence);
        self.counters.lost += given_up.lost;
        self.counters.unheard += given_up.unheard;
        self.counters.lost -= u64::from(self.turns.keep(slot));
        self.repair(&packet, &slot, &format, rebuilt);
        let accepted = Accepted { media, payload: packet.payload, sample: format.sample };
        self.settle(placed, accepted, &slot)
    }

    /// Finds the packet's place among the turns.
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

    /// Where no block was asked for in so long that packets do not fit any more: gives up what was
    /// due before `now`, which nobody will ask for. Tells whether there was any.
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

    fn settle<'a>(&mut self, placed: Placed, accepted: Accepted<'a>, slot: &Slot) -> Received<'a> {
        match placed {
            Placed::Whole => Received::Placed(accepted),
            Placed::Partly { .. } => {
                self.counters.late += 1;
                Received::Partly(accepted, self.late(slot))
            }
            Placed::Late => {
                self.counters.late += 1;
                Received::Late(self.late(slot))
            }
            Placed::Beyond { .. } => {
                self.counters.early += 1;
                Received::Early
            }
        }
    }

    /// The ledger of a packet that came after its turn had begun.
    fn late(&self, slot: &Slot) -> Passage {
        let dac = self.placement.presentation(slot.media).unwrap_or(slot.read);
        slot.passage(&self.placement, slot.read, dac)
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
        if self.placement.observe_capture(media, wall) == Reading::Jumped {
            self.restart(Resync::Jump);
        }
    }

    fn is_first(&self) -> bool {
        matches!(self.phase, Phase::Waiting(_)) && self.renderer.place().is_none()
    }

    /// Lays the playout anew: what was placed is forgotten, the sound fades and comes back.
    fn restart(&mut self, reason: Resync) {
        if self.phase == Phase::Playing {
            self.counters.resyncs += 1;
        }
        self.phase = Phase::Waiting(Some(reason));
        self.renderer.clear();
        self.turns.clear();
        self.repairer.reset();
    }

    /// Fills `out` with what is due to meet the DAC at `times.meets`, and tells `passage` of every
    /// packet whose first frame was taken for it.
    pub fn pull(
        &mut self,
        out: &mut [f32],
        times: PullTimes,
        passage: impl FnMut(Passage),
    ) -> Pulled {
        let frames = self.format.channels.frames_in(out.len());
        let due = self.placement.due(times.meets);
        let resync = match (due, self.renderer.place()) {
            (Some(due), Some(_)) => self.steer(&due, times.skipped, frames),
            _ => None,
        };
        let Some(rendered) = self.renderer.pull(out) else {
            return Pulled { media: None, missing: frames, resync };
        };
        self.take_turns(&rendered, times, passage);
        self.counters.resampled_frames +=
            if rendered.resampled { frames.as_len() as u64 } else { 0 };
        self.count_missing(rendered.read, (rendered.missing, rendered.concealed));
        Pulled { media: Some(rendered.start), missing: rendered.missing, resync }
    }

    /// Brings the place to what is due, or close enough, and chooses the step for `frames` from there.
    fn steer(&mut self, due: &Due, skipped: Frames, frames: Frames) -> Option<Resync> {
        let resync = self.approach(due, skipped);
        self.renderer.steer(due, skipped, frames);
        resync
    }

    fn approach(&mut self, due: &Due, skipped: Frames) -> Option<Resync> {
        let before = self.basis.replace(due.basis);
        let caught_up = core::mem::take(&mut self.caught_up);
        if let Phase::Waiting(reason) = self.phase {
            self.renderer.begin(due.point);
            self.phase = Phase::Playing;
            return reason;
        }
        if caught_up {
            // Where the device said that it stood still, nothing else moved.
            return self.jump(due, skipped == Frames::ZERO);
        }
        self.renderer.skip(skipped);
        if self.renderer.has_moved() {
            return self.jump(due, true);
        }
        // However unsure a mapping is, it is better than arrivals: the path's own delay was in them.
        let mapped = (before, due.basis) == (Some(Basis::Arrival), Basis::Clock);
        if self.renderer.is_far(due, !mapped) {
            return self.jump(due, true);
        }
        // Who played by the sender's clock before, and by arrivals after an outage, goes back to it.
        if mapped && self.was_mapped {
            self.renderer.follow();
        }
        self.was_mapped |= due.basis == Basis::Clock;
        None
    }

    /// Brings the place to what is due with a fade.
    fn jump(&mut self, due: &Due, counts: bool) -> Option<Resync> {
        // Before the first frame of the stream was due nothing was heard that could jump.
        let begun = self.source.as_ref().map(Source::begin_media);
        let counts = counts && self.renderer.place().map(|place| place.frame) > begun;
        self.renderer.jump_to(due.point);
        self.counters.resyncs += u64::from(counts);
        counts.then_some(Resync::Moved)
    }

    /// How much faster the card runs than the sender's, by what is resampled; `None` while frames are
    /// played as they came.
    pub fn drift(&self) -> Option<Ppm> {
        self.renderer.drift()
    }

    /// Whether the card runs too far off the sender's to be followed ([`crate::servo::Servo::reach`]):
    /// the sound jumps now and then.
    pub fn is_out_of_reach(&self) -> bool {
        self.renderer.is_out_of_reach()
    }

    /// Ends the turn of every packet that begins in the frames that were read.
    fn take_turns(
        &mut self,
        rendered: &Rendered,
        times: PullTimes,
        mut passage: impl FnMut(Passage),
    ) {
        let Some(source) = &self.source else { return };
        let (placement, rate) = (&self.placement, self.format.rate);
        let start = rendered.start;
        // What is read first is heard so much later, as the resampler reads ahead.
        let resample = rate.span_of_fine(MediaPoint::from(rendered.read.start) - start);
        let read = rendered.read.start;
        let mut unheard = 0;
        let taken = self.turns.take(&rendered.read, source, |slot| {
            if slot.media < read {
                unheard += u64::from(slot.media + times.skipped >= read);
                return;
            }
            let dac = times.meets + rate.span_of_fine(MediaPoint::from(slot.media) - start);
            passage(Passage { resample, ..slot.passage(placement, times.now, dac) });
        });
        self.counters.lost += taken.lost;
        self.counters.skipped_frames += taken.skipped;
        self.counters.unheard += unheard;
    }

    /// Counts the missing frames of a block that lie between the first and the newest packet;
    /// those after the newest are counted when another comes.
    fn count_missing(&mut self, frames: Range<MediaTime>, (missing, concealed): (Frames, Frames)) {
        let Some(source) = &self.source else { return };
        let before = (source.begin_media().min(frames.end) - frames.start).as_len();
        let after = (frames.end - source.end().max(frames.start)).as_len();
        let inside = missing.as_len().saturating_sub(before + after);
        let concealed_inside = concealed.as_len().min(inside);
        self.counters.missing_frames += inside as u64;
        self.counters.concealed_frames += concealed_inside as u64;
        self.tail_missing += after as u64;
        self.tail_concealed += (concealed.as_len() - concealed_inside) as u64;
    }

    /// A packet came: what was missing before it was missing from a running stream, unless the
    /// packet begins a new run of sound. So many frames lie between it and the packet whose number
    /// it follows.
    fn settle_tail(&mut self, between: Frames) {
        let tail = core::mem::take(&mut self.tail_missing);
        let concealed = core::mem::take(&mut self.tail_concealed);
        if !self.source.as_ref().is_some_and(Source::begins_anew) {
            self.counters.missing_frames += tail;
            self.counters.skipped_frames += tail.min(between.max(Frames::ZERO).as_len() as u64);
            self.counters.concealed_frames += concealed;
        }
    }
}
