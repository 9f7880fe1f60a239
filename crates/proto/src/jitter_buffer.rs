//! The receiver machine of one stream: datagrams in, frames for the DAC out. Without I/O.
//!
//! Drive it from the device's thread, once per period: [`JitterBuffer::handle`] every datagram that
//! has arrived, then [`JitterBuffer::pull`] the period's frames. What an ordinary thread learns of the
//! sender's clock comes in as values ([`JitterBuffer::set_clock`], [`JitterBuffer::observe_report`]).

mod config;
mod format_proof;
mod handle;
mod need;
mod others;
mod outcome;
mod pull;
mod repair;
mod status;
mod step;
mod turns;

use crate::clock::{ClockId, ClockMapping, ReadingOutcome};
use crate::endpoint::Author;
use crate::frame_count::FrameCounter;
use crate::packet::Invalid;
use crate::placement::{Basis, Cards, Placement};
use crate::redundancy::Repairer;
use crate::redundancy::sizing::Tally;
use crate::renderer::Renderer;
use crate::source::Source;
use crate::stream::StreamFormat;
use crate::time::{Frames, LocalTime, Span, WallTime};
use crate::units::{Channels, Rate};
use crate::wire::rtcp::LossReport;

use crate::congestion::TransitMeter;
use crate::counters::Counters;
pub use config::JitterBufferConfig;
use format_proof::FormatProof;
use need::Measuring;
pub use others::OtherType;
use others::OtherTypes;
pub use outcome::{
    Accepted, Hole, Playable, PlayoutSound, PullTimes, Pulled, Received, Resync, Stranger,
};
pub use status::{ReceiveCommand, StreamStatus};
pub use step::LateRun;
use step::StepFinder;
use turns::Turns;

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
pub struct JitterBuffer {
    config: JitterBufferConfig,
    format: StreamFormat,
    /// Channels that packets hold: those of the format, or one that is played on all of them.
    carried: Channels,
    /// Bits per second of the newest packet, where they are chosen.
    bitrate: Option<u32>,
    source: Option<Source>,
    /// Of packets that count no frames.
    counter: FrameCounter,
    /// The last mapping heard of, and whose clock it maps.
    clock: Option<(Author, ClockMapping)>,
    /// The clock of this host by which packets are presented that say when.
    presentation_clock: Option<ClockMapping>,
    /// Capture to the presentation that packets tell, by their sender's word.
    presented_after: Option<Span>,
    /// What sets the pace of a sender's card, and whose: the last that was heard of.
    card: Option<(Author, ClockId)>,
    placement: Placement,
    renderer: Renderer,
    phase: Phase,
    /// Whether the block that is asked for is the first of the stream.
    begins: bool,
    /// Whether any block has been asked for.
    begun: bool,
    /// What was due before now was given up since the last block, as the device stood still.
    caught_up: bool,
    /// The clock by which packets are to be presented was set.
    stepped: bool,
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
    /// `None` while nobody lends one: see [`JitterBuffer::borrow_repairer`].
    repairer: Option<Box<Repairer>>,
    tally: Tally,
    /// Of a sender that wants feedback on its path.
    transit: Option<TransitMeter>,
    /// Of a sender that announces nothing.
    measuring: Option<Measuring>,
    proof: FormatProof,
    step: StepFinder,
    /// The late packets that proved the last one.
    stepped_by: Option<LateRun>,
    /// Frames that were due after the newest packet: missing if the stream goes on, nothing if it
    /// ended there.
    tail_missing: u64,
    tail_concealed: u64,
    counters: Counters,
    /// Of the invalid datagrams, how many for which reason, by [`Invalid::index`].
    invalid: [u64; Invalid::COUNT],
    stranger: Option<Stranger>,
    others: OtherTypes,
    muted: bool,
}

/// The longest latency for which there is so much room: half of it, less than what senders run ahead.
fn longest(room: Span) -> Span {
    (room - JitterBuffer::ROOM.divided(2)).divided(2)
}

/// The longest latency that there is room for in a receiver that is made for this one.
pub fn room_for(link_offset: Span, rate: Rate) -> Span {
    longest(rate.span_of(JitterBuffer::frames_for(link_offset, rate)))
}

impl JitterBuffer {
    /// Room for this much sound beyond the link offset: senders that run ahead, spare for a change
    /// of latency while playing.
    const ROOM: Span = Span::from_millis(250);

    /// A receiver with room for twice the link offset and a quarter second more. Allocates;
    /// nothing later does.
    pub fn new(config: JitterBufferConfig) -> Self {
        Self { repairer: Some(Box::default()), ..Self::without_repairer(config) }
    }

    fn frames_for(link_offset: Span, rate: Rate) -> Frames {
        rate.frames_within(link_offset.times(2) + Self::ROOM)
    }

    /// The same, but for a repairer, which is lent to it: most streams never need one.
    pub fn without_repairer(config: JitterBufferConfig) -> Self {
        let rate = config.format.rate;
        let frames = Self::frames_for(config.link_offset, rate);
        let mut renderer = Renderer::new(rate, config.format.channels, frames, config.resampler);
        let decoders = config.make_decoders();
        if !decoders.is_empty() {
            renderer.playout.decode_by(rate, decoders);
        }
        // In flight are at most those of the longest latency, and of what a sender runs ahead.
        let in_flight = longest(rate.span_of(renderer.playout.capacity())) + Self::ROOM.divided(8);
        let shortest = rate.frames_within(crate::stream::PTIME_RANGE.0).count().max(1);
        let packets = rate.frames_within(in_flight).count() / shortest + 64;
        let mut placement = match config.wire.presents() {
            true => Placement::of_presentations(rate, config.link_offset),
            false => Placement::new(rate, config.link_offset),
        };
        placement.set_captures_told(config.captures_told);
        Self {
            placement,
            renderer,
            phase: Phase::Waiting(None),
            begins: false,
            begun: false,
            caught_up: false,
            stepped: false,
            unlooked: (Frames::ZERO, LocalTime::ZERO),
            basis: None,
            cards: Cards::Apart,
            was_mapped: false,
            turns: Turns::new(packets.unsigned_abs() as usize),
            repairer: None,
            tally: Tally::default(),
            transit: None,
            measuring: None,
            proof: FormatProof::default(),
            step: StepFinder::default(),
            stepped_by: None,
            counters: Counters::default(),
            invalid: [0; Invalid::COUNT],
            stranger: None,
            others: OtherTypes::new(),
            muted: false,
            format: config.format,
            carried: config.format.channels,
            bitrate: None,
            source: None,
            counter: FrameCounter::new(config.presentation_tolerance),
            clock: None,
            presentation_clock: None,
            presented_after: None,
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
        let Counters { repaired, lost, late, .. } = self.counters;
        self.source.as_ref().map(|s| LossReport {
            ssrc: s.stream().ssrc(),
            tally: self.tally,
            repaired,
            lost,
            late,
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
        longest(self.format.rate.span_of(self.renderer.playout.capacity()))
    }

    /// Takes a newer mapping of the wall clock of the sender `author`, whether or not it is heard
    /// yet.
    pub fn set_clock(&mut self, author: Author, clock: ClockMapping) {
        self.clock = Some((author, clock));
        self.apply_clock();
    }

    /// Takes the clock of this host by which packets are presented that say when: it stands for that of any
    /// sender which does not tell its own.
    pub fn set_presentation_clock(&mut self, clock: ClockMapping) {
        self.presentation_clock = Some(clock);
        self.apply_clock();
    }

    /// Takes how long after its capture sound is to be presented, by its sender's word; `None` where that says
    /// nothing, and it is as when the stream was opened.
    pub(crate) fn set_presented_after(&mut self, presented_after: Option<Span>) {
        self.presented_after = presented_after;
        self.placement.set_captures_told(presented_after.is_some() || self.config.captures_told);
    }

    /// Goes by the mapping if it is that of the sender that is heard. That of packets which tell their presentation holds
    /// for the first of them, too, which is placed before anybody is heard.
    fn apply_clock(&mut self) {
        let source = self.source.as_ref();
        let heard = |author| source.is_some_and(|source| source.is_told_by(author));
        let told = self.clock.filter(|(author, _)| heard(*author));
        if let Some(clock) = told.map(|(_, clock)| clock).or(self.presentation_clock) {
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

    /// Changes the latency, up to [`JitterBuffer::longest_link_offset`].
    pub fn set_link_offset(&mut self, link_offset: Span) {
        let link_offset = link_offset.min(self.longest_link_offset());
        // What is due lies so much earlier in the stream.
        let moved = self.placement.link_offset() - link_offset;
        if moved != Span::ZERO && self.phase == Phase::Playing {
            self.renderer.retarget(moved);
        }
        self.placement.set_link_offset(link_offset);
    }

    /// Packets hold so many channels from now on; one is played on all.
    pub(crate) fn set_carried(&mut self, carried: Channels) {
        let fits = carried == Channels::MONO || carried == self.format.channels;
        if fits && carried != self.carried {
            self.carried = carried;
            self.renderer.playout.set_carried(carried);
            self.restart(Resync::Jump);
        }
    }

    /// By how many frames timestamps advance per packet, and the bytes per frame which that proves, if packets are read in
    /// another format.
    fn proven_frame(&self) -> Option<(Frames, usize)> {
        let source = self.source.as_ref().filter(|_| self.format.coder.is_none())?;
        let step = source.odd_step()?;
        let bytes = source.packet().as_len() * self.format.sample.bytes() * self.carried.count();
        bytes.is_multiple_of(step.as_len()).then(|| (step, bytes / step.as_len()))
    }

    /// Takes from the packets that they hold one channel, or all of them again. Returns whether that changed: the packet that
    /// proved it was read wrongly.
    fn follow_carried(&mut self) -> bool {
        let Some((step, bytes)) = self.proven_frame() else { return false };
        let carries = |channels: &Channels| bytes == self.format.sample.bytes() * channels.count();
        let Some(carried) = [Channels::MONO, self.format.channels].into_iter().find(carries) else {
            return false;
        };
        if let Some(source) = &mut self.source {
            source.follow_step(step);
        }
        self.set_carried(carried);
        true
    }

    /// The sender `author` left: another may follow at once.
    pub fn say_goodbye(&mut self, author: Author) {
        if let Some(source) = self.source.as_mut().filter(|source| source.is_told_by(author)) {
            source.say_goodbye();
            self.renderer.playout.end();
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
