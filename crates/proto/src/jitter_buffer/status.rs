//! Status and commands between device thread and ordinary thread.

use std::sync::Arc;

use super::{JitterBuffer, LateRun, OtherType, Stranger};
use crate::clock::{ClockId, ClockMapping, ReportedRate};
use crate::congestion::{PathFeedback, TransitMeter};
use crate::counters::Counters;
use crate::endpoint::{Author, SourceEndpoints};
use crate::evidence::Contradiction;
use crate::faults::Faults;
use crate::packet::{Invalid, StreamId, Unpack};
use crate::placement::Basis;
use crate::rtcp_session::Receiving;
use crate::source::Source;
use crate::stream::StreamFormat;
use crate::time::{LocalTime, Span, WallTime};
use crate::unannounced::Need;
use crate::units::{Channels, Ppm};

/// Command to a jitter buffer.
#[derive(Debug, Clone, Copy)]
pub enum ReceiveCommand {
    /// Mapping of the sender's clock.
    Clock(Author, ClockMapping),
    /// This host's clock for presentation times.
    Presentation(ClockMapping),
    /// Rate of the sender's card against TAI.
    Pace(ReportedRate),
    /// Announced delay from capture to presentation.
    PresentedAfter(Option<Span>),
    /// Clock of the sender's card.
    Card(Author, Option<ClockId>),
    /// Timestamps of a sender report.
    Captured(Author, u32, WallTime),
    /// New latency.
    LinkOffset(Span),
    /// Measured device time.
    Ring(Span),
    /// Announced SSRC, and whether it requests path feedback. Its packets are not measured.
    Announced(u32, bool),
    /// Whether unannounced packets raise the latency.
    Raises(bool),
    /// The sender left.
    Left(Author),
    /// All channels, or a single channel that is played on all.
    Carried(Channels),
    /// Whether to mute.
    Mute(bool),
}

/// Status of a stream; the device adds its part. Counts are totals.
#[derive(Debug, Clone, Copy)]
pub struct StreamStatus {
    /// Time of this status.
    pub at: LocalTime,
    /// Counters, without device and link.
    pub counters: Counters,
    /// Invalid datagrams, indexed by [`Invalid::index`].
    pub invalid: [u64; Invalid::COUNT],
    /// Data for receiver reports.
    pub receiving: Option<Receiving>,
    /// Measurements of the path.
    pub feedback: Option<PathFeedback>,
    /// Addresses of the current source.
    pub endpoints: SourceEndpoints,
    /// Another sender.
    pub stranger: Option<Stranger>,
    /// Format of the newest packet.
    pub format: StreamFormat,
    /// Bits per second of the stream, if the sender chooses.
    pub bitrate: Option<u32>,
    /// Placement of the last block.
    pub basis: Option<Basis>,
    /// Whether the sender said goodbye.
    pub said_goodbye: bool,
    /// Drift of the sender's card against our clock, positive if the card is faster.
    pub card: Option<ReportedRate>,
    /// Packets sent, by sequence number.
    pub expected: u64,
    /// See [`JitterBuffer::repair_budget`].
    pub repair: (Span, u32),
    /// Rebuilt packets that were due before.
    pub late_repairs: u64,
    /// See [`JitterBuffer::drift`].
    pub drift: Option<Ppm>,
    /// Drift too large to follow.
    pub out_of_reach: bool,
    /// See [`JitterBuffer::need`].
    pub need: Option<Need>,
    /// See [`JitterBuffer::other_type`].
    pub other_type: Option<OtherType>,
    /// Last step.
    pub step: Option<LateRun>,
    /// Whether late packets may prove another step.
    pub may_step: bool,
    /// Contradiction of packets and format.
    pub contradiction: Option<Contradiction>,
    /// Whether the newest samples are plausible.
    pub fits: bool,
    /// Late or lost packets and underruns since the last status.
    pub faults: Faults,
    /// Whether the sound is paused.
    pub quiet: bool,
    /// Time from a wake-up until its block meets the DAC.
    pub lead: Option<Span>,
}

impl JitterBuffer {
    /// Applies a command.
    pub fn apply(&mut self, command: ReceiveCommand) {
        match command {
            ReceiveCommand::Clock(author, clock) => self.set_clock(author, clock),
            ReceiveCommand::Presentation(clock) => self.set_presentation_clock(clock),
            ReceiveCommand::Pace(reported) => self.placement.handle_rate(reported),
            ReceiveCommand::PresentedAfter(after) => self.set_presented_after(after),
            ReceiveCommand::Card(author, card) => self.set_card(author, card),
            ReceiveCommand::Captured(author, timestamp, wall) => {
                self.observe_report(author, timestamp, wall);
            }
            ReceiveCommand::Ring(ring) => self.set_ring(ring),
            ReceiveCommand::LinkOffset(link_offset) => self.set_link_offset(link_offset),
            ReceiveCommand::Announced(ssrc, wants_feedback) => {
                self.hear_announcement(ssrc);
                self.measure_path(wants_feedback);
            }
            ReceiveCommand::Raises(raises) => self.set_raises(raises),
            ReceiveCommand::Left(author) => self.say_goodbye(author),
            ReceiveCommand::Carried(carried) => self.set_carried(carried),
            ReceiveCommand::Mute(muted) => self.muted = muted,
        }
    }

    fn measure_path(&mut self, wanted: bool) {
        match wanted {
            true => _ = self.transit.get_or_insert_default(),
            false => self.transit = None,
        }
    }

    /// Wire format of its packets.
    pub const fn wire(&self) -> &Arc<dyn Unpack> {
        &self.config.wire
    }

    /// Stream id of a packet.
    pub fn stream_of(&self, datagram: &[u8]) -> Option<StreamId> {
        self.config.wire.stream(datagram)
    }

    /// Stream id of a datagram that would be accepted without a current source.
    pub fn recognises(&self, datagram: &[u8]) -> Option<StreamId> {
        let packet = self.config.wire.unpack(datagram).ok()?;
        self.measure(&packet).ok().map(|_| packet.head.stream)
    }

    /// Whether the output must be silent.
    pub fn is_muted(&self) -> bool {
        let odd = |source: &Source| self.format.codec.is_none() && source.is_odd();
        self.muted || self.proof.has_wrong_samples() || self.source.as_ref().is_some_and(odd)
    }

    fn contradiction(&self) -> Option<Contradiction> {
        if let Some((_, bytes)) = self.proven_frame() {
            return Some(Contradiction::FrameBytes(bytes));
        }
        if self.proof.is_sure_of_samples() {
            return Some(Contradiction::Samples);
        }
        if self.proof.has_wrong_samples() {
            return None;
        }
        self.proof.other_rate().map(Contradiction::Rate)
    }

    /// Status without the device's part.
    pub fn status(&self, at: LocalTime) -> StreamStatus {
        let rate = self.format.rate;
        let source = self.source.as_ref();
        let receiving = source.map(|source| Receiving {
            ssrc: source.stream().ssrc(),
            expected: source.expected(),
            received: source.received(),
            highest_sequence: source.highest_carried(),
            jitter: rate.frames_nearest(source.jitter()).count() as u32,
            effective: None,
            losses: self.losses(),
        });
        StreamStatus {
            at,
            counters: self.counters,
            invalid: self.invalid,
            receiving,
            feedback: self.transit.as_ref().and_then(TransitMeter::feedback),
            endpoints: source.map(|source| *source.endpoints()).unwrap_or_default(),
            stranger: self.stranger(),
            format: self.format,
            bitrate: self.bitrate,
            basis: self.placement.due(at).map(|due| due.basis),
            said_goodbye: source.is_some_and(|source| source.said_goodbye()),
            card: self.placement.card_rate(),
            expected: self.tally.expected,
            repair: self.repair_budget(),
            late_repairs: self.late_repairs,
            drift: self.drift(),
            out_of_reach: self.is_out_of_reach(),
            need: self.need(),
            other_type: self.other_type(),
            step: self.stepped_by,
            may_step: self.step.is_suspicious(),
            contradiction: self.contradiction(),
            fits: self.proof.fits(),
            faults: Faults::NONE,
            quiet: false,
            lead: None,
        }
    }
}
