//! The receiver machine of one stream: datagrams in, frames for the DAC out. Without I/O.
//!
//! Drive it from the device's thread, once per period: [`Receiver::handle`] every datagram that
//! has arrived, then [`Receiver::pull`] the period's frames. What an ordinary thread learns of the
//! sender's clock comes in as values ([`Receiver::set_clock`], [`Receiver::observe_report`]).

mod config;
mod need;
mod others;
mod outcome;
mod pull;
mod repair;
mod status;
mod turns;

use crate::clock::{ClockId, ClockMapping, ReadingOutcome, WallTime};
use crate::endpoint::{Arrived, Author, Endpoint};
use crate::ledger::Passage;
use crate::packet::{Codings, MediaPacket};
use crate::placement::{Basis, Cards, Placement};
use crate::playout::Placed;
use crate::redundancy::Repairer;
use crate::redundancy::sizing::Tally;
use crate::renderer::Renderer;
use crate::source::{Admission, Source};
use crate::stream::StreamFormat;
use crate::time::{Frames, LocalTime, MediaTime, Span};
use crate::units::Rate;
use crate::wire::Invalid;
use crate::wire::rtcp::LossReport;

pub use crate::counters::Counters;
pub use config::ReceiverConfig;
use need::Measuring;
pub use others::OtherType;
use others::OtherTypes;
pub use outcome::{
    Accepted, Playable, PlayoutSound, PullTimes, Pulled, Received, Resync, Stranger,
};
pub use status::{ReceiveCommand, StreamStatus};
use turns::{PackedSlot, Slot, Turns};

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
    clock: Option<(Author, ClockMapping)>,
    /// What sets the pace of a sender's card, and whose: the last that was heard of.
    card: Option<(Author, ClockId)>,
    placement: Placement,
    renderer: Renderer,
    phase: Phase,
    /// What was due before now was given up since the last block, as the device stood still.
    caught_up: bool,
    /// Frames that may be given out before it is looked again at what is due, and when the next of them
    /// meets the DAC, if the device goes on as it does.
    unlooked: (Frames, LocalTime),
    /// What the last block was placed by.
    basis: Option<Basis>,
    /// How the cards stood to each other then.
    cards: Cards,
    /// Whether the sender's clock has been known while this stream played.
    was_mapped: bool,
    turns: Turns,
    /// `None` while nobody lends one: see [`Receiver::borrow_repairer`].
    repairer: Option<Box<Repairer>>,
    tally: Tally,
    /// Of a sender that announces nothing.
    measuring: Option<Measuring>,
    /// Frames that were due after the newest packet: missing if the stream goes on, nothing if it
    /// ended there.
    tail_missing: u64,
    /// Those of them in whose place the sound before went on.
    tail_concealed: u64,
    counters: Counters,
    /// Of the invalid datagrams, how many for which reason, by [`Invalid::index`].
    invalid: [u64; Invalid::COUNT],
    stranger: Option<Stranger>,
    others: OtherTypes,
    /// See [`Self::is_muted`].
    muted: bool,
}

/// How long a packet is, and in what format: the stream's, or another coding of it.
#[derive(Debug, Clone, Copy)]
struct PacketMeasure {
    frames: Frames,
    format: StreamFormat,
}

/// The longest latency that a renderer has room for.
fn longest(rate: Rate, renderer: &Renderer) -> Span {
    rate.span_of(renderer.capacity()).divided(4)
}

impl Receiver {
    /// Room for this much sound beyond the link offset: senders that run ahead, spare for a change
    /// of latency while playing.
    const ROOM: Span = Span::from_millis(250);

    /// A receiver with room for four times the link offset and a quarter second more. Allocates;
    /// nothing later does.
    pub fn new(config: ReceiverConfig) -> Self {
        Self { repairer: Some(Box::default()), ..Self::without_repairer(config) }
    }

    /// The same, but for a repairer, which is lent to it: most streams never need one.
    pub fn without_repairer(config: ReceiverConfig) -> Self {
        let rate = config.format.rate;
        let frames = rate.frames_within(config.link_offset.times(4) + Self::ROOM);
        let renderer = Renderer::new(rate, config.format.channels, frames, config.resampler);
        // In flight are at most those of the longest latency, and of what a sender runs ahead.
        let in_flight = longest(rate, &renderer) + Self::ROOM.divided(4);
        let shortest = rate.frames_within(crate::stream::PTIME_RANGE.0).count().max(1);
        let packets = rate.frames_within(in_flight).count() / shortest + 64;
        Self {
            placement: Placement::new(rate, config.link_offset),
            renderer,
            phase: Phase::Waiting(None),
            caught_up: false,
            unlooked: (Frames::ZERO, LocalTime::ZERO),
            basis: None,
            cards: Cards::Apart,
            was_mapped: false,
            turns: Turns::new(packets.unsigned_abs() as usize),
            repairer: None,
            tally: Tally::default(),
            measuring: None,
            counters: Counters::default(),
            invalid: [0; Invalid::COUNT],
            stranger: None,
            others: OtherTypes::new(),
            muted: false,
            format: config.format,
            source: None,
            clock: None,
            card: None,
            tail_missing: 0,
            tail_concealed: 0,
            config,
        }
    }

    /// What was counted.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Who sent the newest packet that was foreign; one that takes the source's name stays before one
    /// that does not.
    pub fn stranger(&self) -> Option<Stranger> {
        // A sender that moved was one until it was followed.
        let own = |from| self.source.as_ref().is_some_and(|source| source.endpoints().has(from));
        self.stranger.filter(|stranger| !own(stranger.from))
    }

    /// The payload type that most of the packets had which were not taken for theirs.
    pub fn other_type(&self) -> Option<OtherType> {
        self.others.most()
    }

    /// What did not come, before any repair.
    pub const fn tally(&self) -> Tally {
        self.tally
    }

    /// What its reports tell of losses, if anything is heard.
    pub fn losses(&self) -> Option<LossReport> {
        let Counters { repaired, lost, .. } = self.counters;
        self.source.as_ref().map(|s| LossReport {
            ssrc: s.stream().ssrc(),
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
        longest(self.format.rate, &self.renderer)
    }

    /// Takes a newer mapping of the wall clock of the sender `author`, whether or not it is heard
    /// yet.
    pub fn set_clock(&mut self, author: Author, clock: ClockMapping) {
        self.clock = Some((author, clock));
        self.apply_clock();
    }

    /// Goes by the mapping if it is that of the sender that is heard.
    fn apply_clock(&mut self) {
        let Some(source) = &self.source else { return };
        if let Some((_, clock)) = self.clock.filter(|(author, _)| source.is_told_by(*author)) {
            self.placement.set_clock(clock);
        }
    }

    /// Takes what sets the pace of the card of the sender `author`, whether or not it is heard yet.
    pub fn set_card(&mut self, author: Author, card: Option<ClockId>) {
        self.card = card.map(|card| (author, card));
    }

    /// Whether the card of the sender that is heard goes by this clock, by its own word.
    fn shares_clock(&self, clock: ClockId) -> bool {
        let told = |source: &Source| {
            self.card.is_some_and(|(author, card)| card == clock && source.is_told_by(author))
        };
        self.source.as_ref().is_some_and(told)
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

    /// The sender `author` left: another may follow at once.
    pub fn say_goodbye(&mut self, author: Author) {
        if let Some(source) = self.source.as_mut().filter(|source| source.is_told_by(author)) {
            source.say_goodbye();
            self.renderer.end();
        }
    }

    /// Takes the pair of a sender report. Used only when packets carry no capture time, which
    /// is more precise.
    pub fn observe_report(&mut self, author: Author, rtp_timestamp: u32, wall: WallTime) {
        let told = |source: &&Source| source.is_told_by(author) && !source.stamped();
        let Some(source) = self.source.as_ref().filter(told) else { return };
        let media = source.media_near(rtp_timestamp);
        match self.placement.observe_capture(media, wall) {
            ReadingOutcome::Agreed => {}
            ReadingOutcome::Doubted => self.counters.doubted_reports += 1,
            ReadingOutcome::Jumped => self.restart(Resync::Jump),
        }
    }

    /// Takes one datagram that arrived at `arrival` (the kernel's stamp) and was read at `read`, where
    /// nobody says from where.
    pub fn handle<'a>(
        &mut self,
        datagram: &'a [u8],
        arrival: LocalTime,
        read: LocalTime,
    ) -> Received<'a> {
        let arrived = Arrived { from: Endpoint::UNKNOWN, at: arrival, read };
        self.handle_telling(datagram, &arrived, &mut |_| {})
    }

    /// Takes one datagram; tells `brought` of what will be played of it, and of every packet that it
    /// brought back.
    pub fn handle_telling<'a>(
        &mut self,
        datagram: &'a [u8],
        arrived: &Arrived,
        brought: &mut dyn FnMut(Playable<'_>),
    ) -> Received<'a> {
        match &self.config.wire.unpack(datagram) {
            Ok(packet) => match self.measure(packet) {
                Ok(measured) => self.admit(packet, measured, arrived, brought),
                Err(reason) => self.refuse(reason),
            },
            Err(reason) => self.refuse(*reason),
        }
    }

    #[cold]
    fn refuse<'a>(&mut self, reason: Invalid) -> Received<'a> {
        self.counters.invalid += 1;
        self.invalid[reason.index()] += 1;
        if let Invalid::PayloadType { got } = reason {
            self.others.count(got);
        }
        Received::Invalid(reason)
    }

    /// Checks the packet against the stream's format. It may be of another coding: another
    /// source's, which holds once that one is heard, and that of the source heard where each packet
    /// says its own, so that a sender may change it (as RFC 3550 §5.1 lets it).
    fn measure(&self, packet: &MediaPacket<'_>) -> Result<PacketMeasure, Invalid> {
        let mut format = self.format;
        let (wire, coding) = (&self.config.wire, packet.head.coding);
        let unsettled = || self.source.as_ref().is_none_or(|s| s.stream() != packet.head.stream);
        if coding != format.payload_type
            && (wire.codings() == Codings::ByConvention || unsettled())
            && let Some(sample) = wire.sample(coding, &self.config.format)
        {
            format.sample = sample;
            format.payload_type = coding;
        }
        let frames = packet.frames(&format, Frames::new(self.renderer.capacity().count() / 2))?;
        Ok(PacketMeasure { frames, format })
    }

    fn admit<'a>(
        &mut self,
        packet: &MediaPacket<'a>,
        PacketMeasure { frames, format }: PacketMeasure,
        came: &Arrived,
        brought: &mut dyn FnMut(Playable<'_>),
    ) -> Received<'a> {
        let &Arrived { at: arrival, read, .. } = came;
        if self.source.is_none() {
            self.source = Some(Source::begin(&packet.head, frames, came));
            self.format = format;
            self.apply_clock();
        }
        let Some(source) = &mut self.source else { return Received::Doubted };
        let mut newest = (source.received() > 0).then(|| source.highest());
        let end = source.end();
        let (sequence, media) = match source.admit(&packet.head, frames, came, self.format.rate) {
            Admission::Regular { sequence, media } => (sequence, media),
            Admission::Renumbered { sequence, media } => {
                // What packets carry of others goes by the numbers.
                self.reset_repairer();
                (sequence, media)
            }
            Admission::Restarted { sequence, media, missed } => {
                self.counters.lost += missed;
                self.tally.outage(missed);
                self.was_mapped &= missed > 0;
                self.format = format;
                self.placement.forget_all();
                self.restart(Resync::NewSource);
                self.forget_need();
                self.apply_clock();
                newest = None;
                (sequence, media)
            }
            Admission::Doubted => {
                self.counters.doubted += 1;
                return Received::Doubted;
            }
            Admission::Repeated => {
                self.counters.received += 1;
                self.counters.duplicate += 1;
                return Received::Duplicate;
            }
            Admission::Foreign => {
                self.counters.foreign += 1;
                let poses = packet.head.stream == source.stream();
                if poses || self.stranger.is_none_or(|before| !before.poses) {
                    self.stranger = Some(Stranger { from: came.from, poses });
                }
                return Received::Foreign;
            }
        };
        self.counters.received += 1;
        if let Some(before) = self.turns.came(sequence) {
            if before.repaired {
                // It may still bring others back.
                self.counters.reordered += 1;
                self.tally.came(newest.map(|newest| sequence - newest));
                let came = PackedSlot::from(&Slot { media, frames, ..before });
                self.repair(packet, &came, &format, brought);
            } else {
                self.counters.duplicate += 1;
            }
            return Received::Duplicate;
        }
        self.tally.came(newest.map(|newest| sequence - newest));
        let follows = newest.is_some_and(|newest| sequence == newest + 1);
        self.settle_tail(if follows { media - end } else { Frames::ZERO });
        let capture = packet.head.capture;
        self.place_in_time(media, frames, arrival, capture);
        self.measure_length(frames);
        self.order(sequence);
        if self.source.as_ref().is_some_and(|s| sequence == s.highest()) {
            self.format = StreamFormat { packet: frames, ..format };
        }
        let mut placed = self.renderer.place_packet(media, format.sample, packet.payload);
        if matches!(placed, Placed::Beyond { .. }) && self.catch_up(read) {
            placed = self.renderer.place_packet(media, format.sample, packet.payload);
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
        let given_up = self.turns.make_room(sequence);
        self.counters.lost += given_up.lost;
        self.counters.unheard += given_up.unheard;
        self.counters.lost -= u64::from(self.turns.keep(kept));
        self.repair(packet, &kept, &format, brought);
        let accepted = Accepted { media, payload: packet.payload, sample: format.sample };
        self.tell_playable(placed, &kept, brought);
        self.answer(placed, accepted, &kept, read)
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

    /// Tells what will be played of a packet.
    fn tell_playable(
        &self,
        placed: Placed,
        kept: &PackedSlot,
        brought: &mut dyn FnMut(Playable<'_>),
    ) {
        let late = match placed {
            Placed::Whole => Some(Frames::ZERO),
            Placed::Partly { late } => Some(late),
            Placed::Late | Placed::Beyond { .. } => None,
        };
        if let Some(late) = late {
            let frames = kept.media + late..kept.end();
            brought(Playable { frames, sound: self.sound() });
        }
    }

    /// What became of a packet; counts it if it came out of time.
    fn answer<'a>(
        &mut self,
        placed: Placed,
        accepted: Accepted<'a>,
        kept: &PackedSlot,
        read: LocalTime,
    ) -> Received<'a> {
        match placed {
            Placed::Whole => Received::Placed(accepted),
            Placed::Partly { .. } => Received::Partly(accepted, self.late(kept, read)),
            Placed::Late => Received::Late(self.late(kept, read)),
            Placed::Beyond { .. } => {
                self.counters.early += 1;
                Received::Early
            }
        }
    }

    /// Counts a packet that came after its turn had begun; its ledger.
    #[cold]
    fn late(&mut self, kept: &PackedSlot, read: LocalTime) -> Passage {
        let dac = self.placement.presentation(kept.media).unwrap_or(read);
        let passage = kept.passage(&self.placement, read, dac, Span::ZERO);
        self.counters.late += 1;
        self.measure_late(&passage);
        passage
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
        self.reset_repairer();
    }
}
