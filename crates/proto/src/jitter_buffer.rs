//! Jitter buffer of one stream: datagrams in, frames for the DAC out. Does no I/O.
//!
//! The device thread calls [`JitterBuffer::handle`] for every datagram, then [`JitterBuffer::pull`]
//! once per period. An ordinary thread passes the sender's clock ([`JitterBuffer::set_clock`],
//! [`JitterBuffer::observe_report`]).

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
use repair::WholeCopies;
pub use status::{ReceiveCommand, StreamStatus};
pub use step::LateRun;
use step::StepFinder;
use turns::Turns;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Before the first request of a frame.
    Waiting(Option<Resync>),
    Playing,
}

/// Jitter buffer of one stream.
#[derive(Debug)]
pub struct JitterBuffer {
    config: JitterBufferConfig,
    format: StreamFormat,
    /// All channels, or a single channel that is played on all.
    carried: Channels,
    /// Bits per second, if the sender chooses.
    bitrate: Option<u32>,
    source: Option<Source>,
    /// Counts frames of packets without media time.
    counter: FrameCounter,
    clock: Option<(Author, ClockMapping)>,
    /// This host's clock for presentation times.
    presentation_clock: Option<ClockMapping>,
    /// Announced delay from capture to presentation.
    presented_after: Option<Span>,
    card: Option<(Author, ClockId)>,
    placement: Placement,
    renderer: Renderer,
    phase: Phase,
    begins: bool,
    begun: bool,
    /// Overdue frames were skipped: the device stood still.
    caught_up: bool,
    stepped: bool,
    /// Frames until the next check, and the first one's predicted DAC time.
    unlooked: (Frames, LocalTime),
    basis: Option<Basis>,
    cards: Cards,
    was_mapped: bool,
    turns: Turns,
    /// See [`JitterBuffer::borrow_repairer`].
    repairer: Option<Box<Repairer>>,
    /// Rebuilt packets that were due before.
    late_repairs: u64,
    copies: WholeCopies,
    tally: Tally,
    /// Losses of earlier senders.
    earlier: LossReport,
    transit: Option<TransitMeter>,
    measuring: Option<Measuring>,
    proof: FormatProof,
    step: StepFinder,
    stepped_by: Option<LateRun>,
    /// Missing frames after the newest packet: they count only if the stream continues.
    tail_missing: u64,
    tail_concealed: u64,
    counters: Counters,
    /// Invalid datagrams, indexed by [`Invalid::index`].
    invalid: [u64; Invalid::COUNT],
    stranger: Option<Stranger>,
    others: OtherTypes,
    muted: bool,
}

/// Maximum latency: half the capacity, minus room for senders that run ahead.
fn longest(room: Span) -> Span {
    (room - JitterBuffer::ROOM.divided(2)).divided(2)
}

/// Maximum latency for this `link_offset`.
pub fn room_for(link_offset: Span, rate: Rate) -> Span {
    longest(rate.span_of(JitterBuffer::frames_for(link_offset, rate)))
}

impl JitterBuffer {
    /// Room for senders that run ahead and latency changes.
    const ROOM: Span = Span::from_millis(250);

    /// Creates a buffer for twice the link offset plus 250 ms. Only this and
    /// [`JitterBuffer::without_repairer`] allocate.
    pub fn new(config: JitterBufferConfig) -> Self {
        Self { repairer: Some(Box::default()), ..Self::without_repairer(config) }
    }

    fn frames_for(link_offset: Span, rate: Rate) -> Frames {
        rate.frames_within(link_offset.times(2) + Self::ROOM)
    }

    /// Creates a buffer without a repairer. The caller lends one.
    pub fn without_repairer(config: JitterBufferConfig) -> Self {
        let rate = config.format.rate;
        let frames = Self::frames_for(config.link_offset, rate);
        let mut renderer = Renderer::new(rate, config.format.channels, frames, config.resampler);
        let decoders = config.make_decoders();
        if !decoders.is_empty() {
            renderer.playout.decode_by(rate, decoders);
        }
        let in_flight = longest(rate.span_of(renderer.playout.capacity())) + Self::ROOM.divided(8);
        let shortest = rate.frames_within(crate::stream::PTIME_RANGE.0).count().max(1);
        let packets = rate.frames_within(in_flight).count() / shortest + 64;
        let mut placement = match config.wire.presents() {
            true => Placement::of_presentations(rate, config.link_offset),
            false => Placement::new(rate, config.link_offset),
        };
        placement.set_captures_reported(config.captures_reported);
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
            late_repairs: 0,
            copies: WholeCopies::default(),
            tally: Tally::default(),
            earlier: LossReport::default(),
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

    /// Counters since the start.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Newest other sender; a sender with the source's stream id takes precedence.
    pub fn stranger(&self) -> Option<Stranger> {
        // A moved sender counts as another source until it is followed.
        let own = |from| self.source.as_ref().is_some_and(|source| source.endpoints().has(from));
        self.stranger.filter(|stranger| !own(stranger.from))
    }

    /// Most frequent unexpected payload type.
    pub fn other_type(&self) -> Option<OtherType> {
        self.others.maximum()
    }

    /// Losses before any repair.
    pub const fn tally(&self) -> Tally {
        self.tally
    }

    /// Losses for receiver reports.
    pub fn losses(&self) -> Option<LossReport> {
        let Counters { repaired, lost, late, .. } = self.counters;
        self.source.as_ref().map(|s| LossReport {
            ssrc: s.stream().ssrc(),
            tally: self.tally.since(&self.earlier.tally),
            repaired: repaired - self.earlier.repaired,
            lost: lost - self.earlier.lost,
            late: late - self.earlier.late,
        })
    }

    /// Later losses are another sender's losses.
    fn begin_losses(&mut self) {
        let Counters { repaired, lost, late, .. } = self.counters;
        self.earlier = LossReport { ssrc: 0, tally: self.tally, repaired, lost, late };
    }

    /// Format according to the packets.
    pub const fn format(&self) -> &StreamFormat {
        &self.format
    }

    /// Current source.
    pub const fn source(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    /// Mapping of media time to presentation time.
    pub const fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Maximum latency.
    pub fn longest_link_offset(&self) -> Span {
        longest(self.format.rate.span_of(self.renderer.playout.capacity()))
    }

    /// Sets the clock mapping of `author`, even before it is the source.
    pub fn set_clock(&mut self, author: Author, clock: ClockMapping) {
        self.clock = Some((author, clock));
        self.apply_clock();
    }

    /// Sets this host's clock for presentation times.
    pub fn set_presentation_clock(&mut self, clock: ClockMapping) {
        self.presentation_clock = Some(clock);
        self.apply_clock();
    }

    /// Sets the announced delay from capture to presentation; `None` restores the default.
    pub(crate) fn set_presented_after(&mut self, presented_after: Option<Span>) {
        self.presented_after = presented_after;
        self.placement
            .set_captures_reported(presented_after.is_some() || self.config.captures_reported);
    }

    /// The presentation clock applies before the first packet.
    fn apply_clock(&mut self) {
        let source = self.source.as_ref();
        let received = |author| source.is_some_and(|source| source.is_reported_by(author));
        let reported = self.clock.filter(|(author, _)| received(*author));
        if let Some(clock) = reported.map(|(_, clock)| clock).or(self.presentation_clock) {
            self.placement.set_clock(clock);
        }
    }

    /// Sets the card clock of `author`, even before it is the source.
    pub fn set_card(&mut self, author: Author, card: Option<ClockId>) {
        self.card = card.map(|card| (author, card));
    }

    fn shares_clock(&self, clock: ClockId) -> bool {
        let reported = |source: &Source| {
            self.card.is_some_and(|(author, card)| card == clock && source.is_reported_by(author))
        };
        self.source.as_ref().is_some_and(reported)
    }

    /// Sets the latency, up to [`JitterBuffer::longest_link_offset`].
    pub fn set_link_offset(&mut self, link_offset: Span) {
        let link_offset = link_offset.min(self.longest_link_offset());
        // A shorter latency moves the due position forward.
        let moved = self.placement.link_offset() - link_offset;
        if moved != Span::ZERO && self.phase == Phase::Playing {
            self.renderer.retarget(moved);
        }
        self.placement.set_link_offset(link_offset);
    }

    pub(crate) fn set_carried(&mut self, carried: Channels) {
        let fits = carried == Channels::MONO || carried == self.format.channels;
        if fits && carried != self.carried {
            self.carried = carried;
            self.renderer.playout.set_carried(carried);
            self.restart(Resync::Jump);
        }
    }

    /// Proven frames and bytes per frame, if they contradict the format.
    fn proven_frame(&self) -> Option<(Frames, usize)> {
        let source = self.source.as_ref().filter(|_| self.format.codec.is_none())?;
        let step = source.odd_step()?;
        let bytes = source.packet().as_len() * self.format.sample.bytes() * self.carried.count();
        bytes.is_multiple_of(step.as_len()).then(|| (step, bytes / step.as_len()))
    }

    /// Changes to one channel or back if packets prove it. The packet was then read wrong.
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

    /// Ends the source `author`, so another may follow.
    pub fn say_goodbye(&mut self, author: Author) {
        if let Some(source) = self.source.as_mut().filter(|source| source.is_reported_by(author)) {
            source.say_goodbye();
            self.renderer.playout.end();
        }
    }

    /// Adds a sender report's timestamps, unless packets carry capture times.
    pub fn observe_report(&mut self, author: Author, rtp_timestamp: u32, wall: WallTime) {
        let reported = |source: &&Source| source.is_reported_by(author) && !source.stamped();
        let Some(source) = self.source.as_ref().filter(reported) else { return };
        let media = source.media_near(rtp_timestamp);
        match self.placement.observe_capture(media, wall) {
            ReadingOutcome::Agreed => {}
            ReadingOutcome::Doubted => self.counters.reports_on_probation += 1,
            ReadingOutcome::Jumped => self.restart(Resync::Jump),
        }
    }

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
