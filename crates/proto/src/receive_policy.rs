//! Receive policy of one stream: its source, its latency, whether it can be played, when it ends,
//! and notes for the user.
//!
//! Run it on an ordinary thread. Pass messages from the peer to [`ReceivePolicy::hear`], the device
//! thread's status to [`ReceivePolicy::follow`], and each packet at its turn to
//! [`ReceivePolicy::take`]. Call [`ReceivePolicy::poll`] periodically. The policy sends
//! [`ReceiveCommand`]s to the device thread.

mod contradiction;
mod hearsay;
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
use crate::device::Settings;
use crate::endpoint::{Author, Host};
use crate::jitter_buffer::{JitterBuffer, JitterBufferConfig, ReceiveCommand, StreamStatus};
use crate::latency::{LatencyRule, min_latency};
use crate::ledger::PacketTrace;
use crate::packet::Unpack;
use crate::policy::{Context, NoteQueue};
use crate::rtcp_session::{Event, Receiving};
use crate::stream::StreamFormat;
use crate::target_delay::LossTarget;
use crate::time::{LocalTime, Span};
use crate::wire::rtcp::{Announcement, Effective};
use contradiction::FormatWatch;
use need::Needs;
use recent::Recent;

pub use hearsay::{Announcements, Believe};
pub use note::{ReceiveNote, Refusal, WrongType};
pub use wish::LatencyRefused;

/// Minimum duration of packets from a real sender. Stray packets are shorter.
const SURE: Span = Span::from_millis(60);
/// A sender that sends for this long is accepted as the intended one.
const SETTLED: Span = Span::from_secs(1);
/// Minimum number of invalid datagrams. Fewer are stray.
const STRAY: u64 = 8;

/// Configuration of a receive policy.
#[derive(Debug, Clone, Copy)]
pub struct ReceivePolicyConfig {
    /// Rule for the latency.
    pub latency: LatencyRule,
    /// Accepted share of late packets, for the advised latency and for a latency that follows
    /// arrivals.
    pub loss_target: LossTarget,
}

impl ReceivePolicyConfig {
    /// Creates a configuration with this rule and default values.
    pub const fn new(latency: LatencyRule) -> Self {
        Self { latency, loss_target: LossTarget::DEFAULT }
    }
}

/// Receive policy of one stream.
#[derive(Debug)]
pub struct ReceivePolicy {
    config: ReceivePolicyConfig,
    begins: Span,
    device: Settings,
    format: StreamFormat,
    /// Maximum latency that the receiver has room for.
    longest: Span,
    wire: Arc<dyn Unpack>,
    rule: LatencyRule,
    link_offset: Span,
    arrivals: Arrivals,
    /// SSRC of the current source, and the time at which it became current.
    heard: Option<u32>,
    received_since: LocalTime,
    /// Time of the last packets. If packets stop, another sender may follow; its reports arrive
    /// first.
    recent: Recent,
    clock: Option<ClockMapping>,
    presentation_clock: Option<ClockMapping>,
    /// Time at which the clock rate was last sent to the receiver.
    paced: Option<LocalTime>,
    announced: Option<Announcement>,
    /// Time from a wake-up of the device until the end of its block plays. Until it is measured,
    /// the duration of the device buffer.
    takes: Span,
    /// Latency that packets need if the sender announces none.
    needs: Needs,
    /// Other hosts that use the source's SSRC, already reported.
    strangers: Vec<Host>,
    /// Unexpected payload type that was last reported.
    other_type_reported: Option<u8>,
    refusal: Option<Refusal>,
    watch: FormatWatch,
    played: bool,
    /// Whether the sender said goodbye and no other followed.
    left: bool,
    repairable: Repairable,
    /// Restarts of the playout that the talker did not announce.
    jumps: Often,
    /// Restarts announced by the talker.
    restarts: Often,
    /// Time of the last path feedback, on the receiver's clock.
    fed_back: u32,
    status: Option<StreamStatus>,
    notes: NoteQueue<ReceiveNote>,
}

type ReceiveContext<'a> = Context<'a, ReceiveCommand>;

/// Creates a jitter buffer with room for the maximum latency of the rule. The caller lends the
/// repairer: [`JitterBuffer::borrow_repairer`].
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
    /// Maximum time between reading two clocks of a host, without interruption.
    const READ: Span = Span::from_micros(2);

    /// Maximum latency that the buffer has room for.
    pub const fn longest(&self) -> Span {
        self.longest
    }

    /// Creates a policy with an initial latency and the settings of the playing device. `receiver`
    /// measures packets of senders without announcement.
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
        arrivals.set_max(config.latency.most());
        Self {
            format,
            longest,
            wire: Arc::clone(receiver.wire()),
            rule: config.latency,
            link_offset,
            begins: link_offset,
            device,
            arrivals,
            heard: None,
            received_since: LocalTime::ZERO,
            recent: Recent::NONE,
            clock: None,
            presentation_clock: None,
            paced: None,
            announced: None,
            takes: ring,
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
            notes: NoteQueue::default(),
            config,
        }
    }

    /// Handles an event of the RTCP session with `host`.
    pub fn hear(&mut self, host: Host, event: Event, context: &mut ReceiveContext<'_>) {
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
            Event::Reception(..)
            | Event::Effective(..)
            | Event::Losses(..)
            | Event::Feedback(..)
            | Event::Passed(..) => {
                return;
            }
        };
        // If the queue is full, the next report repeats the message.
        (context.command)(command);
    }

    /// Handles a status from the device thread. `stalled` returns whether the whole host stalled
    /// between two times.
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
        self.note_stranger(status);
        self.note_other_type(status);
        if self.presents() {
            self.follow_restarts(status);
        }
        if self.is_uncertain() && !reported {
            self.notes.note(ReceiveNote::Uncertain);
        }
        if status.out_of_reach {
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

    /// Adds notes on frequent restarts, both announced by the talker and not announced.
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

    /// Handles a packet at or after its turn. Returns `false` if the stream is not played and the
    /// packet is not evaluated.
    pub fn take(&mut self, passage: &PacketTrace) -> bool {
        // Packets before an announcement do not count as played, because they may be noise. The
        // same holds for an announcement before the first packet.
        if self.refusal.is_some() || self.watch.is_contradicted() {
            return false;
        }
        let fits = self.heard.is_some() && self.announced.is_some();
        self.played |= fits && !passage.late;
        self.arrivals.enter(passage);
        true
    }

    /// Applies the latency that arrivals need, if the latency follows them, and adds notes.
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

    /// Ends the stream and evaluates the packets that wait for stall information. Returns the note
    /// on the needed latency, if it is still due.
    pub fn finish(
        &mut self,
        stalled: impl Fn(LocalTime, LocalTime) -> bool,
    ) -> Option<ReceiveNote> {
        self.arrivals.finish(stalled);
        self.unreported_need()
    }

    /// Reception data for reports. `effective` is the latency measured recently.
    pub fn receiving(&self, effective: Option<Span>) -> Option<Receiving> {
        let mut receiving = self.status?.receiving?;
        let needed = self.arrivals.needed();
        let played = self.clock.filter(|_| self.refusal.is_none());
        // If all packets are late, nothing is played, and the needed latency is even more
        // important.
        let reported = played.filter(|_| effective.or(needed).is_some());
        receiving.effective = reported.map(|clock| Effective {
            ssrc: receiving.ssrc,
            configured: self.link_offset,
            effective: effective.unwrap_or(Span::ZERO),
            uncertainty: clock.uncertainty,
            needed,
        });
        Some(receiving)
    }

    /// SSRC of the sender to answer: the source of the current packets.
    pub fn speaker(&self) -> Option<u32> {
        self.heard.filter(|_| self.recent.is_lively() && !self.left)
    }

    /// SSRC of the current or last source.
    pub const fn heard(&self) -> Option<u32> {
        self.heard
    }

    /// Mapping of the source's clock.
    pub fn clock(&self) -> Option<ClockMapping> {
        self.clock.or(self.presentation_clock)
    }

    /// Whether any packet marked the clock of its presentation time as uncertain. Measurements with
    /// that clock then have an unknown error.
    pub fn is_uncertain(&self) -> bool {
        self.status.is_some_and(|status| status.counters.uncertain_clock > 0)
    }

    /// Whether packets carry presentation times. The TAI clock of this host is then needed.
    pub fn presents(&self) -> bool {
        self.wire.presents()
    }

    /// Announced or configured delay from capture to presentation, if packets carry presentation
    /// times.
    pub fn presented_after(&self) -> Option<Span> {
        let reported = self.announced.map(|announced| announced.link_offset);
        self.presents().then(|| reported.unwrap_or(self.begins))
    }

    /// Whether capture times are known. Presentation times are sufficient only if the sender
    /// announces the latency.
    pub fn is_latency_reported(&self) -> bool {
        !self.presents() || self.announced.is_some()
    }

    /// Whether the latency is announced or configured.
    pub fn is_latency_configured(&self) -> bool {
        self.is_latency_reported() || matches!(self.config.latency, LatencyRule::Chosen(_))
    }

    /// Sets the mapping of TAI if it changed. The absolute error of the mapping is ignored, because
    /// presentation depends on nothing else: placement is as precise as the readings.
    pub fn present_by(&mut self, mut tai: ClockMapping, context: &mut ReceiveContext<'_>) {
        (tai.uncertainty, tai.precision) = (Self::READ, Self::READ);
        tai.source = ClockSource::Tai;
        let newer = self.presentation_clock != Some(tai);
        if newer && (context.command)(ReceiveCommand::Presentation(tai)) {
            self.presentation_clock = Some(tai);
        }
    }

    /// Sends the rate of the sender's card, as reported by a followed clock. At most once per
    /// second, because repeated values would count twice.
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

    /// Current latency, if it follows the packets.
    pub fn auto(&self) -> Option<Span> {
        (self.rule.is_auto()).then_some(self.link_offset)
    }

    /// Evaluation of packet arrivals.
    pub const fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Newest announcement of the sender.
    pub const fn announced(&self) -> Option<Announcement> {
        self.announced
    }

    /// Time of the last packets.
    pub const fn recent(&self) -> &Recent {
        &self.recent
    }

    /// Reason for not playing anything: a format mismatch.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_ref().filter(|_| !self.played)
    }

    /// Unexpected payload type, if no other packets were received.
    pub fn wrong_type(&self) -> Option<WrongType> {
        let nothing = |status: &StreamStatus| status.counters.received == 0;
        self.status.filter(nothing).and_then(|status| self.wrong_type_of(&status))
    }

    /// Returns the notes since the last call.
    pub fn notes(&mut self) -> Vec<ReceiveNote> {
        self.notes.take()
    }

    /// Whether the sender said goodbye and no other followed.
    pub const fn has_left(&self) -> bool {
        self.left
    }

    /// Whether the stream is over: the sender said goodbye, or was silent for so long that its
    /// goodbye was probably lost.
    pub fn is_over(&self, now: LocalTime) -> bool {
        self.left || self.recent.is_gone(now)
    }

    /// Announcement of a sender that still sends but is refused because of its format.
    pub fn refused(&self) -> Option<Announcement> {
        self.announced
            .filter(|_| self.refusal.is_some() && !self.left && self.is_received_for(SURE))
    }

    /// Whether a sender is established. Other senders are then no longer accepted.
    pub fn is_settled(&self) -> bool {
        self.refusal.is_none() && self.is_received_for(SETTLED)
    }

    fn is_received_for(&self, long: Span) -> bool {
        self.heard.is_some() && self.recent.last() - self.received_since >= long
    }

    /// Whether only invalid datagrams arrive.
    pub fn reads_nothing(&self) -> bool {
        let invalid = self.status.map_or(0, |status| status.counters.invalid);
        self.heard.is_none() && invalid >= STRAY
    }
}

/// Interval in which events are counted.
pub const LATELY: Span = Span::from_secs(10);

/// Reports once if an event occurs too often.
#[derive(Debug, Clone, Copy, Default)]
struct Often {
    /// Start of the counting interval, and the count at the start.
    since: Option<(LocalTime, u64)>,
    reported: bool,
}

impl Often {
    /// Maximum count in an interval. It exceeds manual restarts of a talker, clock changes, and
    /// path changes.
    const MANY: u64 = 8;

    /// Updates the count as of `at`. Returns the recent count if it is too high, once.
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
    /// Sufficient at the last check.
    #[default]
    InTime,
    /// Too short since this time.
    ShortSince(LocalTime),
    /// Already reported.
    Told,
}

impl Repairable {
    /// The announced latency and the redundancy of packets change one after the other, within two
    /// reports.
    const TIMEOUT: Span = Span::from_secs(1);

    /// Updates the state at `now` and returns whether to report.
    fn turns_short(&mut self, now: LocalTime, short: bool) -> bool {
        let next = match *self {
            Self::Told => Self::Told,
            _ if !short => Self::InTime,
            Self::InTime => Self::ShortSince(now),
            Self::ShortSince(since) if now - since >= Self::TIMEOUT => Self::Told,
            since => since,
        };
        let before = core::mem::replace(self, next);
        next == Self::Told && before != Self::Told
    }
}

#[cfg(test)]
mod often_tests {
    use super::*;

    #[test]
    fn what_happens_eight_times_in_ten_seconds_is_told_once_and_what_is_now_and_then_is_not() {
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
    fn a_latency_that_stays_too_short_is_told_of_once() {
        let at = |millis| LocalTime::ZERO + Span::from_millis(millis);
        let mut repairable = Repairable::default();
        let mut reported = Vec::new();
        for millis in (0..5_000).step_by(20) {
            // Half a second may be a change in progress.
            let short = (200..700).contains(&millis) || millis >= 2_000;
            if repairable.turns_short(at(millis), short) {
                reported.push(millis);
            }
        }
        assert_eq!(reported, [3_000]);
    }
}
