//! Receive policy of one stream: source, latency, playability, end, and notes.
//!
//! Run it on an ordinary thread. Pass peer messages to [`ReceivePolicy::handle`], device status to
//! [`ReceivePolicy::follow`], and each packet at its turn to [`ReceivePolicy::take`]. Call
//! [`ReceivePolicy::poll`] periodically.

mod capture;
mod contradiction;
mod hearsay;
mod interruptions;
mod need;
mod note;
mod promise;
pub mod recent;
mod succession;
#[cfg(test)]
mod tests;
mod wish;

use std::sync::Arc;

use crate::arrivals::{Arrivals, ArrivalsConfig};
use crate::clock::{ClockMapping, ClockSource, ReportedRate};
use crate::counters::Counters;
use crate::device::{CaptureFaults, Settings};
use crate::endpoint::{Author, Host};
use crate::jitter_buffer::{JitterBuffer, JitterBufferConfig, ReceiveCommand, StreamStatus};
use crate::latency::{LatencyMethod, LatencyRule, min_latency};
use crate::ledger::PacketTrace;
use crate::packet::Unpack;
use crate::policy::{Context, NoteQueue};
use crate::rtcp_session::{Event, Receiving};
use crate::stream::StreamFormat;
use crate::target_delay::LossTarget;
use crate::time::{Frames, LocalTime, Span};
use crate::wire::rtcp::{Announcement, Effective};
use capture::SenderDevice;
use contradiction::FormatWatch;
use interruptions::Interruptions;
use need::Needs;
use recent::Recent;

pub use hearsay::{Announcements, Believe};
pub use note::{ReceiveNote, Refusal, WrongType};
pub use wish::LatencyRefused;

/// Minimum duration of a real sender.
const SURE: Span = Span::from_millis(60);
/// Time of sending after which a sender is accepted.
const SETTLED: Span = Span::from_secs(1);
/// Invalid datagrams that count as a stream. Fewer are stray.
const STRAY: u64 = 8;

/// Configuration of a receive policy.
#[derive(Debug, Clone, Copy)]
pub struct ReceivePolicyConfig {
    /// Rule for the latency.
    pub latency: LatencyRule,
    /// Accepted share of late packets.
    pub loss_target: LossTarget,
    /// Whether the sender reduces its bit rate by itself, so that heavy loss needs no note.
    pub sender_adapts: bool,
}

impl ReceivePolicyConfig {
    /// Creates a default configuration.
    pub const fn new(latency: LatencyRule) -> Self {
        Self { latency, loss_target: LossTarget::DEFAULT, sender_adapts: false }
    }
}

/// Receive policy of one stream.
#[derive(Debug)]
pub struct ReceivePolicy {
    config: ReceivePolicyConfig,
    begins: Span,
    device: Settings,
    format: StreamFormat,
    longest: Span,
    wire: Arc<dyn Unpack>,
    rule: LatencyRule,
    link_offset: Span,
    arrivals: Arrivals,
    /// SSRC of the current source, and its start.
    received: Option<u32>,
    received_since: LocalTime,
    /// If packets stop, another sender may follow; its reports arrive first.
    recent: Recent,
    clock: Option<ClockMapping>,
    presentation_clock: Option<ClockMapping>,
    /// Last clock rate sent to the receiver.
    paced: Option<LocalTime>,
    announced: Option<Announcement>,
    /// Time from a wake-up until its block ends; at first the device buffer's duration.
    takes: Span,
    /// `takes` at the last note that the latency is too short.
    noted_takes: Span,
    needs: Needs,
    strangers: Vec<Host>,
    other_type_reported: Option<u8>,
    refusal: Option<Refusal>,
    watch: FormatWatch,
    played: bool,
    left: bool,
    repairable: Repairable,
    /// Restarts without announcement.
    jumps: Often,
    /// Announced restarts.
    restarts: Often,
    /// Last path feedback, on the receiver's clock.
    fed_back: u32,
    status: Option<StreamStatus>,
    interruptions: Interruptions,
    device_there: SenderDevice,
    notes: NoteQueue<ReceiveNote>,
}

type ReceiveContext<'a> = Context<'a, ReceiveCommand>;

/// Creates a jitter buffer for the maximum latency of the rule. The caller lends the repairer:
/// [`JitterBuffer::borrow_repairer`].
pub fn receiver_with_room(config: JitterBufferConfig, rule: LatencyRule) -> JitterBuffer {
    let link_offset = rule.room(config.link_offset);
    let wanted = config.link_offset;
    // A configured latency does not prove the capture times.
    let captures_reported = !config.wire.presents();
    let config = JitterBufferConfig { link_offset, captures_reported, ..config };
    let mut receiver = JitterBuffer::without_repairer(config);
    receiver.set_link_offset(wanted);
    receiver
}

impl ReceivePolicy {
    /// Maximum time between reading two host clocks.
    const READ: Span = Span::from_micros(2);

    /// Maximum latency that the buffer holds.
    pub const fn longest(&self) -> Span {
        self.longest
    }

    /// Creates a policy. `receiver` measures unannounced packets.
    pub fn new(
        config: ReceivePolicyConfig,
        link_offset: Span,
        device: Settings,
        receiver: &mut JitterBuffer,
    ) -> Self {
        let ring = min_latency(Span::ZERO, &device);
        let (format, longest) = (*receiver.format(), receiver.longest_link_offset());
        receiver.measure_unannounced(ring, config.latency == LatencyRule::Usual);
        let mut arrivals = Arrivals::new(ArrivalsConfig {
            loss_target: config.loss_target,
            device,
            packing_age: format.ptime(),
            start: link_offset,
            longest,
        });
        arrivals.set_max(config.latency.maximum());
        Self {
            format,
            longest,
            wire: Arc::clone(receiver.wire()),
            rule: config.latency,
            link_offset,
            begins: link_offset,
            device,
            arrivals,
            received: None,
            received_since: LocalTime::ZERO,
            recent: Recent::NONE,
            clock: None,
            presentation_clock: None,
            paced: None,
            announced: None,
            takes: ring,
            noted_takes: Span::ZERO,
            needs: Needs::of(ring, LocalTime::ZERO),
            strangers: Vec::new(),
            other_type_reported: None,
            refusal: None,
            watch: FormatWatch::default(),
            played: false,
            left: false,
            repairable: Repairable::default(),
            jumps: Often::default(),
            restarts: Often::default(),
            fed_back: 0,
            status: None,
            interruptions: Interruptions::new(),
            device_there: SenderDevice::default(),
            notes: NoteQueue::default(),
            config,
        }
    }

    /// Handles an RTCP event of `host`.
    pub fn handle(&mut self, host: Host, event: Event, context: &mut ReceiveContext<'_>) {
        let author = |ssrc| Author { ssrc, host };
        let command = match event {
            Event::Mapped(ssrc, mapping) => {
                if self.concerns(ssrc) {
                    self.clock = Some(mapping);
                }
                ReceiveCommand::Clock(author(ssrc), mapping)
            }
            Event::Captured(ssrc, rtp_timestamp, wall) => {
                ReceiveCommand::Captured(author(ssrc), rtp_timestamp, wall)
            }
            Event::Left(ssrc) => ReceiveCommand::Left(author(ssrc)),
            Event::Announced(ssrc, announcement) => {
                if self.concerns(ssrc) {
                    self.heed(author(ssrc), announcement, context);
                }
                return;
            }
            Event::Capture(ssrc, faults) => {
                if self.received == Some(ssrc) {
                    let note = self.device_there.handle(ssrc, faults, self.is_settled());
                    note.into_iter().for_each(|note| self.notes.note(note));
                }
                return;
            }
            Event::Reception(..)
            | Event::Effective(..)
            | Event::Losses(..)
            | Event::Feedback(..)
            | Event::Passed(..) => {
                return;
            }
        };
        // If the queue is full, the next report repeats it.
        (context.command)(command);
    }

    /// Handles a device status. `stalled` returns whether the host stalled between two times.
    pub fn follow(
        &mut self,
        status: &StreamStatus,
        stalled: impl Fn(LocalTime, LocalTime) -> bool,
        context: &mut ReceiveContext<'_>,
    ) {
        let reported = self.is_uncertain();
        self.status = Some(*status);
        let (budget, lost) = status.repair;
        self.arrivals.set_repair(budget, lost);
        self.arrivals.stand(status.into(), stalled);
        self.left = status.said_goodbye;
        self.feed_back(status, context);
        self.follow_source(status, context);
        self.follow_device(status, context);
        self.follow_need(status);
        self.follow_contradiction(status, context);
        let losses = status.receiving.and_then(|receiving| receiving.losses);
        let tally = losses.map(|losses| losses.tally).filter(|_| !self.config.sender_adapts);
        let silence = self.interruptions.silence(&self.recent, self.left, status.at);
        let loss = tally.and_then(|tally| self.interruptions.loss(tally, status.at));
        silence.into_iter().chain(loss).for_each(|note| self.notes.note(note));
        self.note_late(status);
        self.note_stranger(status);
        self.note_other_type(status);
        if self.presents() {
            self.follow_restarts(status);
        }
        if self.is_uncertain() && !reported {
            self.notes.note(ReceiveNote::Uncertain);
        }
        if self.interruptions.drift(&self.recent, status.out_of_reach, status.at) {
            self.notes.note(ReceiveNote::OutOfReach);
        }
    }

    fn feed_back(&mut self, status: &StreamStatus, context: &mut ReceiveContext<'_>) {
        let (Some(feedback), Some(session)) = (status.feedback, &mut context.session) else {
            return;
        };
        if feedback.at_us != self.fed_back {
            self.fed_back = feedback.at_us;
            session.send_feedback(feedback);
        }
    }

    fn follow_restarts(&mut self, status: &StreamStatus) {
        let Counters { resyncs, media_clock_restarts, .. } = status.counters;
        if let Some(resyncs) =
            self.jumps.follow(resyncs.saturating_sub(media_clock_restarts), status.at)
        {
            self.notes.note(ReceiveNote::Unsteady(resyncs));
        }
        if let Some(media_clock_restarts) = self.restarts.follow(media_clock_restarts, status.at) {
            self.notes.note(ReceiveNote::Restarting(media_clock_restarts));
        }
    }

    /// Handles a packet at or after its turn. Returns whether the stream plays.
    pub fn take(&mut self, passage: &PacketTrace) -> bool {
        // Unannounced packets may be noise.
        if self.refusal.is_some() || self.watch.is_contradicted() {
            return false;
        }
        let fits = self.received.is_some() && self.announced.is_some();
        self.played |= fits && !passage.is_late();
        self.arrivals.enter(passage);
        true
    }

    /// Applies the needed latency, and adds notes.
    pub fn poll(&mut self, context: &mut ReceiveContext<'_>) {
        let quiet = self.status.is_some_and(|status| status.quiet);
        let offset = self.arrivals.poll(context.now, quiet);
        let follows = self.rule.is_auto() && offset != self.link_offset;
        if follows && (context.command)(ReceiveCommand::LinkOffset(offset)) {
            self.link_offset = offset;
        }
        self.note_need(context.now);
        self.note_repair(context.now);
    }

    /// Ends the stream. Returns a due note on the needed latency.
    pub fn finish(
        &mut self,
        stalled: impl Fn(LocalTime, LocalTime) -> bool,
    ) -> Option<ReceiveNote> {
        self.arrivals.finish(stalled);
        self.unreported_need()
    }

    /// Reception data. `effective` is the recent latency, and how it is known.
    pub fn receiving(&self, effective: Option<(Span, LatencyMethod)>) -> Option<Receiving> {
        let mut receiving = self.status?.receiving?;
        let needed = self.arrivals.needed();
        let (effective, method) = effective.unzip();
        let played = self.clock.filter(|_| self.refusal.is_none());
        // If all packets are late, the needed latency matters more.
        let reported = played.filter(|_| effective.or(needed).is_some());
        receiving.effective = reported.map(|clock| Effective {
            ssrc: receiving.ssrc,
            configured: self.link_offset,
            effective: effective.unwrap_or(Span::ZERO),
            // Whole frames are found and scheduled.
            uncertainty: clock.uncertainty + self.format.rate.span_of(Frames::new(1)).half(),
            needed,
            method,
        });
        Some(receiving)
    }

    /// SSRC of the sender to answer.
    pub fn speaker(&self) -> Option<u32> {
        self.received.filter(|_| self.recent.is_lively() && !self.left)
    }

    /// SSRC of the current or last source.
    pub const fn received(&self) -> Option<u32> {
        self.received
    }

    /// Mapping of the source's clock.
    pub fn clock(&self) -> Option<ClockMapping> {
        self.clock.or(self.presentation_clock)
    }

    /// Whether a packet marked its clock as uncertain, so measurements have an unknown error.
    pub fn is_uncertain(&self) -> bool {
        self.status.is_some_and(|status| status.counters.uncertain_clock > 0)
    }

    /// Whether packets carry presentation times, which need TAI.
    pub fn presents(&self) -> bool {
        self.wire.presents()
    }

    /// Delay from capture to presentation, if packets carry presentation times.
    pub fn presented_after(&self) -> Option<Span> {
        let reported = self.announced.map(|announced| announced.link_offset);
        self.presents().then(|| reported.unwrap_or(self.begins))
    }

    /// Whether capture times are known.
    pub fn is_latency_reported(&self) -> bool {
        !self.presents() || self.announced.is_some()
    }

    /// Whether the latency is announced or configured.
    pub fn is_latency_configured(&self) -> bool {
        self.is_latency_reported() || matches!(self.config.latency, LatencyRule::Chosen(_))
    }

    /// Sets a changed TAI mapping. Ignores its absolute error: placement is as precise as the
    /// readings.
    pub fn present_by(&mut self, mut tai: ClockMapping, context: &mut ReceiveContext<'_>) {
        (tai.uncertainty, tai.precision) = (Self::READ, Self::READ);
        tai.source = ClockSource::Tai;
        let newer = self.presentation_clock != Some(tai);
        if newer && (context.command)(ReceiveCommand::Presentation(tai)) {
            self.presentation_clock = Some(tai);
        }
    }

    /// Sends the reported rate of the sender's card, once per second.
    pub fn keep_pace(&mut self, reported: ReportedRate, context: &mut ReceiveContext<'_>) {
        const EVERY: Span = Span::from_secs(1);
        let due = self.paced.is_none_or(|at| context.now - at >= EVERY);
        if due && (context.command)(ReceiveCommand::Pace(reported)) {
            self.paced = Some(context.now);
        }
    }

    /// Current latency.
    pub const fn link_offset(&self) -> Span {
        self.link_offset
    }

    /// Current latency rule.
    pub const fn rule(&self) -> LatencyRule {
        self.rule
    }

    /// Latency that follows the packets.
    pub fn auto(&self) -> Option<Span> {
        (self.rule.is_auto()).then_some(self.link_offset)
    }

    /// Evaluation of packet arrivals.
    pub const fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Newest announcement.
    pub const fn announced(&self) -> Option<Announcement> {
        self.announced
    }

    /// Faults of the sender's device while it was received, as it reported them.
    pub const fn sender_device(&self) -> CaptureFaults {
        self.device_there.total()
    }

    /// Time of the last packets.
    pub const fn recent(&self) -> &Recent {
        &self.recent
    }

    /// Format mismatch that prevents playing.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_ref().filter(|_| !self.played)
    }

    /// Unexpected payload type, if no other arrived.
    pub fn wrong_type(&self) -> Option<WrongType> {
        let nothing = |status: &StreamStatus| status.counters.received == 0;
        self.status.filter(nothing).and_then(|status| self.wrong_type_of(&status))
    }

    /// Returns new notes.
    pub fn notes(&mut self) -> Vec<ReceiveNote> {
        self.notes.take()
    }

    /// Whether the sender said goodbye.
    pub const fn has_left(&self) -> bool {
        self.left
    }

    /// Whether the sender said goodbye, or its goodbye was probably lost.
    pub fn is_over(&self, now: LocalTime) -> bool {
        self.left || self.recent.is_gone(now)
    }

    /// Announcement of a refused sender that still sends.
    pub fn refused(&self) -> Option<Announcement> {
        self.announced
            .filter(|_| self.refusal.is_some() && !self.left && self.is_received_for(SURE))
    }

    /// Whether a sender is established.
    pub fn is_settled(&self) -> bool {
        self.refusal.is_none() && self.is_received_for(SETTLED)
    }

    fn is_received_for(&self, long: Span) -> bool {
        self.received.is_some() && self.recent.last() - self.received_since >= long
    }

    /// Whether only invalid datagrams arrive.
    pub fn reads_nothing(&self) -> bool {
        let invalid = self.status.map_or(0, |status| status.counters.invalid);
        self.received.is_none() && invalid >= STRAY
    }
}

/// Counting interval.
pub const LATELY: Span = Span::from_secs(10);

#[derive(Debug, Clone, Copy, Default)]
struct Often {
    since: Option<(LocalTime, u64)>,
    reported: bool,
}

impl Often {
    /// Events that cause a report. Manual restarts and path changes cause fewer.
    const MANY: u64 = 8;

    /// Returns an excessive count, once.
    fn follow(&mut self, times: u64, at: LocalTime) -> Option<u64> {
        let (since, before) = *self.since.get_or_insert((at, times));
        let lately = times.saturating_sub(before);
        if lately >= Self::MANY && !self.reported {
            self.reported = true;
            return Some(lately);
        }
        if at - since >= LATELY {
            self.since = Some((at, times));
        }
        None
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Repairable {
    #[default]
    InTime,
    ShortSince(LocalTime),
    Reported,
}

impl Repairable {
    /// Timeout before a report: latency and redundancy change within two reports.
    const TIMEOUT: Span = Span::from_secs(1);

    /// Returns whether to report.
    fn turns_short(&mut self, now: LocalTime, short: bool) -> bool {
        let next = match *self {
            Self::Reported => Self::Reported,
            _ if !short => Self::InTime,
            Self::InTime => Self::ShortSince(now),
            Self::ShortSince(since) if now - since >= Self::TIMEOUT => Self::Reported,
            since => since,
        };
        let before = core::mem::replace(self, next);
        next == Self::Reported && before != Self::Reported
    }
}

#[cfg(test)]
mod often_tests {
    use super::*;

    #[test]
    fn eight_events_in_ten_seconds_are_reported_once() {
        let second = |second: i64| LocalTime::ZERO + Span::from_secs(second);
        let mut often = Often::default();
        let reported: Vec<_> =
            (0..100).filter_map(|at| often.follow(at, second(at as i64))).collect();
        assert_eq!(reported, [8]);
        let mut seldom = Often::default();
        let reported = (0..100).find_map(|at| seldom.follow(at, second(2 * at as i64)));
        assert_eq!(reported, None);
    }
}

#[cfg(test)]
mod repairable_tests {
    use super::*;

    #[test]
    fn latency_that_stays_too_short_is_reported_once() {
        let at = |millis| LocalTime::ZERO + Span::from_millis(millis);
        let mut repairable = Repairable::default();
        let mut reported = Vec::new();
        for millis in (0..5_000).step_by(20) {
            let short = (200..700).contains(&millis) || millis >= 2_000;
            if repairable.turns_short(at(millis), short) {
                reported.push(millis);
            }
        }
        assert_eq!(reported, [3_000]);
    }
}
