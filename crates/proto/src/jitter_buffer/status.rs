//! How a receiver stands, and what it is told: the values that pass between the device's thread and the
//! ordinary one.

use std::sync::Arc;

use super::{JitterBuffer, LateRun, OtherType, Stranger};
use crate::clock::{ClockId, ClockMapping, ToldRate};
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

/// What the ordinary thread tells a receiver.
#[derive(Debug, Clone, Copy)]
pub enum ReceiveCommand {
    /// A newer mapping of the sender's clock.
    Clock(Author, ClockMapping),
    /// The clock of this host by which packets are presented that say when.
    Presentation(ClockMapping),
    /// How fast the sender's card runs against TAI, by the word of a clock that is followed.
    Pace(ToldRate),
    /// Capture to the presentation that packets tell, by their sender's word, if it says so.
    PresentedAfter(Option<Span>),
    /// What sets the pace of the sender's card.
    Card(Author, Option<ClockId>),
    /// The pair of a sender report.
    Captured(Author, u32, WallTime),
    /// Another latency.
    LinkOffset(Span),
    /// What the device takes, as it turned out.
    Ring(Span),
    /// The sender says what its stream is: nothing is derived from its packets. Whether it wants feedback on its path.
    Announced(u32, bool),
    /// Whether packets whose sender announces nothing raise the latency.
    Raises(bool),
    /// The sender left.
    Left(Author),
    /// Packets hold so many channels: all, or one that is played on all.
    Carried(Channels),
    /// The stream is of a kind that would be noise here, or is not any more.
    Mute(bool),
}

/// How one received stream stands: what its receiver knows, and below what its device does. Counts are
/// totals.
#[derive(Debug, Clone, Copy)]
pub struct StreamStatus {
    /// As of then.
    pub at: LocalTime,
    /// What was counted: by the receiver, and by whoever fills in what the device and its link count.
    pub counters: Counters,
    /// Of the invalid datagrams, how many for which reason, by [`Invalid::index`].
    pub invalid: [u64; Invalid::COUNT],
    /// For the reports.
    pub receiving: Option<Receiving>,
    /// What was measured of its path.
    pub feedback: Option<PathFeedback>,
    /// From where the stream heard comes.
    pub endpoints: SourceEndpoints,
    /// Who else sends here.
    pub stranger: Option<Stranger>,
    /// What its packets were last.
    pub format: StreamFormat,
    /// Bits per second of the last, where its sender chooses them.
    pub bitrate: Option<u32>,
    /// What the last block was placed by.
    pub basis: Option<Basis>,
    /// Whether its sender said goodbye and none followed.
    pub said_goodbye: bool,
    /// By how much the sender's card runs faster than our clock.
    pub card: Option<Ppm>,
    /// Packets that were sent, by the numbers of those that came.
    pub expected: u64,
    /// See [`JitterBuffer::repair_budget`].
    pub repair: (Span, u32),
    /// How much faster the card runs than the sender's, while frames are resampled.
    pub drift: Option<Ppm>,
    /// Whether it runs too far off the sender's to be followed.
    pub out_of_reach: bool,
    /// See [`JitterBuffer::need`].
    pub need: Option<Need>,
    /// See [`JitterBuffer::other_type`].
    pub other_type: Option<OtherType>,
    /// The last time that the sender paused without moving its timestamps on, or the path became longer.
    pub step: Option<LateRun>,
    /// Whether late packets may prove to be another such step.
    pub may_step: bool,
    /// What its packets prove against its format.
    pub contradiction: Option<Contradiction>,
    /// Whether its newest sound is sound in the format that it is read in.
    pub fits: bool,
    /// When packets were late or lost or the device starved since the last status.
    pub faults: Faults,
    /// Whether its sound is in a pause.
    pub quiet: bool,
    /// From a wake-up of the device to the DAC of the block it asks for, once that is known.
    pub lead: Option<Span>,
}

impl JitterBuffer {
    /// Does as it is told.
    pub fn apply(&mut self, command: ReceiveCommand) {
        match command {
            ReceiveCommand::Clock(author, clock) => self.set_clock(author, clock),
            ReceiveCommand::Presentation(clock) => self.set_presentation_clock(clock),
            ReceiveCommand::Pace(told) => self.placement.tell_rate(told),
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

    /// How its packets are read.
    pub const fn wire(&self) -> &Arc<dyn Unpack> {
        &self.config.wire
    }

    /// The stream that a datagram would belong to if it were a packet.
    pub fn stream_of(&self, datagram: &[u8]) -> Option<StreamId> {
        self.config.wire.stream(datagram)
    }

    /// The stream of a datagram that would be taken for a packet of one, as long as none is heard.
    pub fn recognises(&self, datagram: &[u8]) -> Option<StreamId> {
        let packet = self.config.wire.unpack(datagram).ok()?;
        self.measure(&packet).ok().map(|_| packet.head.stream)
    }

    /// Whether what it gives is not to be heard: its sender says that it is of another kind, or its packets show it.
    pub fn is_muted(&self) -> bool {
        let odd = |source: &Source| self.format.coder.is_none() && source.is_odd();
        self.muted || self.proof.has_wrong_samples() || self.source.as_ref().is_some_and(odd)
    }

    /// What packets prove against the format that they are read in.
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

    /// How the stream stands, as far as the receiver knows it: of the device nothing.
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
