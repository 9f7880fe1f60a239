//! What is decided about one stream that is received: whom it is heard from, at what latency, whether it
//! can be played here, when it is over, and what people are to know of it.
//!
//! For an ordinary thread: [`ReceivePolicy::hear`] what the other end said, [`ReceivePolicy::follow`]
//! what the device's thread saw, [`ReceivePolicy::take`] each packet whose turn came, and
//! [`ReceivePolicy::poll`] once a beat. It tells the device's thread by [`ReceiveCommand`]s.

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
use crate::clock::{ClockMapping, ClockSource, ToldRate};
use crate::counters::Counters;
use crate::device::Settings;
use crate::endpoint::{Author, Host};
use crate::jitter_buffer::{JitterBuffer, JitterBufferConfig, ReceiveCommand, StreamStatus};
use crate::latency::{LatencyRule, least_latency};
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

/// A sender whose packets come for so long is no stray packet;
const SURE: Span = Span::from_millis(60);
/// for so long it is the one that is meant.
const SETTLED: Span = Span::from_secs(1);
/// So many datagrams that are no packets are no stray ones.
const STRAY: u64 = 8;

/// What is settled before a stream is heard.
#[derive(Debug, Clone, Copy)]
pub struct ReceivePolicyConfig {
    /// Who says what its latency is.
    pub latency: LatencyRule,
    /// The share of packets that may come too late for the latency that is advised, or kept where
    /// arrivals say it.
    pub loss_target: LossTarget,
}

impl ReceivePolicyConfig {
    /// By such a rule, and as usual otherwise.
    pub const fn new(latency: LatencyRule) -> Self {
        Self { latency, loss_target: LossTarget::DEFAULT }
    }
}

/// The decisions about one stream that is received.
#[derive(Debug)]
pub struct ReceivePolicy {
    config: ReceivePolicyConfig,
    /// The latency to begin with.
    begins: Span,
    device: Settings,
    format: StreamFormat,
    /// The longest latency that its receiver has room for.
    longest: Span,
    wire: Arc<dyn Unpack>,
    rule: LatencyRule,
    link_offset: Span,
    arrivals: Arrivals,
    /// Whose packets are heard, and since when.
    heard: Option<u32>,
    heard_since: LocalTime,
    /// When its packets came last. Where they do not go on coming, another sender may follow, and
    /// reports before its first packet.
    recent: Recent,
    clock: Option<ClockMapping>,
    /// The clock of this host by which packets are presented that say when.
    presentation_clock: Option<ClockMapping>,
    /// When the receiver was told last of a clock that is followed.
    paced: Option<LocalTime>,
    announced: Option<Announcement>,
    /// What the device takes from a wake-up to the end of its block: its own buffer, until it turns out
    /// to be something else.
    takes: Span,
    /// What its packets need, where it announces nothing.
    needs: Needs,
    /// Hosts that were named for sending under the name of the one heard.
    strangers: Vec<Host>,
    /// The payload type that people were told of, of packets that are not taken for theirs.
    other_type_told: Option<u8>,
    /// Why it is not played: it is of another shape.
    refusal: Option<Refusal>,
    watch: FormatWatch,
    played: bool,
    /// Whether the sender said goodbye and no other followed.
    left: bool,
    /// Whether packets had the time to be repaired.
    repairable: Repairable,
    /// What was placed anew though no talker said that it began anew.
    jumps: Often,
    /// Where it said so.
    restarts: Often,
    /// When what is measured of the path was told last, by the receiver's clock.
    fed_back: u32,
    /// As of the newest status.
    status: Option<StreamStatus>,
    notes: NoteQueue<ReceiveNote>,
}

type ReceiveContext<'a> = Context<'a, ReceiveCommand>;

/// A receiver with room for what its latency may become by such a rule, without a repairer of its own:
/// [`JitterBuffer::borrow_repairer`].
pub fn receiver_with_room(config: JitterBufferConfig, rule: LatencyRule) -> JitterBuffer {
    let link_offset = rule.room(config.link_offset);
    let wanted = config.link_offset;
    // What is configured here is no word for when a talker captured what it presents.
    let captures_told = !config.wire.presents();
    let config = JitterBufferConfig { link_offset, captures_told, ..config };
    let mut receiver = JitterBuffer::without_repairer(config);
    receiver.set_link_offset(wanted);
    receiver
}

impl ReceivePolicy {
    /// How far readings of two clocks of a host may be apart: what lies between the reading of the one and that of
    /// the other, where nothing interrupts it.
    const READ: Span = Span::from_micros(2);

    /// The longest latency that there is room for.
    pub const fn longest(&self) -> Span {
        self.longest
    }

    /// Nothing was heard yet: this is the latency to begin with, and how the device runs that plays it. Packets that
    /// nobody announces are measured by `receiver`.
    pub fn new(
        config: ReceivePolicyConfig,
        link_offset: Span,
        device: Settings,
        receiver: &mut JitterBuffer,
    ) -> Self {
        let ring = least_latency(Span::ZERO, &device);
        let (format, longest) = (*receiver.format(), receiver.longest_link_offset());
        receiver.measure_unannounced(ring, config.latency == LatencyRule::Usual);
        let mut arrivals = Arrivals::new(ArrivalsConfig {
            loss_target: config.loss_target,
            device,
            packing_age: format.ptime(),
            start: link_offset,
            longest,
        });
        arrivals.set_most(config.latency.most());
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
            heard_since: LocalTime::ZERO,
            recent: Recent::NONE,
            clock: None,
            presentation_clock: None,
            paced: None,
            announced: None,
            takes: ring,
            needs: Needs::of(ring, LocalTime::ZERO),
            strangers: Vec::new(),
            other_type_told: None,
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

    /// Takes what `host` said in the conversation.
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
        // Where there is no room for it, nothing is lost that the next report does not bring again.
        (context.command)(command);
    }

    /// Takes how the stream stands by the device's thread. `stalled` tells whether the whole host stood
    /// still at some time from one instant to another.
    pub fn follow(
        &mut self,
        status: &StreamStatus,
        stalled: impl Fn(LocalTime, LocalTime) -> bool,
        context: &mut ReceiveContext<'_>,
    ) {
        let told = self.is_uncertain();
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
        if self.is_uncertain() && !told {
            self.notes.note(ReceiveNote::Uncertain);
        }
        if status.out_of_reach {
            self.notes.note(ReceiveNote::OutOfReach);
        }
    }

    /// Tells the sender what was measured of the path.
    fn feed_back(&mut self, status: &StreamStatus, context: &mut ReceiveContext<'_>) {
        let (Some(feedback), Some(session)) = (status.feedback, &mut context.session) else {
            return;
        };
        if feedback.at_us != self.fed_back {
            self.fed_back = feedback.at_us;
            session.send_feedback(feedback);
        }
    }

    /// Notes what is placed anew again and again, and whether its talker says that its media clock restarted.
    fn follow_restarts(&mut self, status: &StreamStatus) {
        let Counters { resyncs, restarts, .. } = status.counters;
        if let Some(resyncs) = self.jumps.follow(resyncs.saturating_sub(restarts), status.at) {
            self.notes.note(ReceiveNote::Unsteady(resyncs));
        }
        if let Some(restarts) = self.restarts.follow(restarts, status.at) {
            self.notes.note(ReceiveNote::Restarting(restarts));
        }
    }

    /// Takes a packet whose turn came, or was over. False where what the stream brings is not played and
    /// says nothing.
    pub fn take(&mut self, passage: &PacketTrace) -> bool {
        // What comes before the sender says what it is is not counted: it may be noise here. So may
        // what somebody announced of whom no packet has come.
        if self.refusal.is_some() || self.watch.is_contradicted() {
            return false;
        }
        let fits = self.heard.is_some() && self.announced.is_some();
        self.played |= fits && !passage.late;
        self.arrivals.enter(passage);
        true
    }

    /// Keeps the latency that arrivals ask for, where they say it, and notes what has become plain.
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

    /// Nothing more comes: what waits for the witness's word is judged. What its packets need is told
    /// now if it was not yet.
    pub fn finish(
        &mut self,
        stalled: impl Fn(LocalTime, LocalTime) -> bool,
    ) -> Option<ReceiveNote> {
        self.arrivals.finish(stalled);
        self.untold_need()
    }

    /// How the stream arrives, for the reports. `effective` is the latency that was lately reached.
    pub fn receiving(&self, effective: Option<Span>) -> Option<Receiving> {
        let mut receiving = self.status?.receiving?;
        let needed = self.arrivals.needed();
        let played = self.clock.filter(|_| self.refusal.is_none());
        // Where all is late nothing is played, and what is needed is to be known the more.
        let told = played.filter(|_| effective.or(needed).is_some());
        receiving.effective = told.map(|clock| Effective {
            ssrc: receiving.ssrc,
            configured: self.link_offset,
            effective: effective.unwrap_or(Span::ZERO),
            uncertainty: clock.uncertainty,
            needed,
        });
        Some(receiving)
    }

    /// Who is answered alone: the one whose packets come.
    pub fn speaker(&self) -> Option<u32> {
        self.heard.filter(|_| self.recent.is_lively() && !self.left)
    }

    /// Whose packets are heard, or were last.
    pub const fn heard(&self) -> Option<u32> {
        self.heard
    }

    /// How to read the clock of the one that is heard.
    pub fn clock(&self) -> Option<ClockMapping> {
        self.clock.or(self.presentation_clock)
    }

    /// Whether any packet said that the clock of its presentation time is not to be relied upon: how far what was
    /// measured by it is from the truth nobody knows.
    pub fn is_uncertain(&self) -> bool {
        self.status.is_some_and(|status| status.counters.uncertain > 0)
    }

    /// Whether packets say when they are to be presented, so that it matters what this host takes for TAI.
    pub fn presents(&self) -> bool {
        self.wire.presents()
    }

    /// Capture to the presentation that packets tell, if they do: by their sender's word, or else as the stream was
    /// opened.
    pub fn presented_after(&self) -> Option<Span> {
        let told = self.announced.map(|announced| announced.link_offset);
        self.presents().then(|| told.unwrap_or(self.begins))
    }

    /// Whether the sender says what the latency is, and so when sound was captured: of packets that tell their
    /// presentation alone nobody knows, unless it announces it.
    pub fn is_latency_told(&self) -> bool {
        !self.presents() || self.announced.is_some()
    }

    /// Whether anybody says it, be it whoever opened the stream: configured is not yet measured.
    pub fn is_latency_configured(&self) -> bool {
        self.is_latency_told() || matches!(self.config.latency, LatencyRule::Chosen(_))
    }

    /// Takes how to read TAI by this host's clock, if it is another mapping than it was. How far that may be from the
    /// truth is of no account here: what is due is told by it and nothing else, so it is placed as surely as it is read.
    pub fn present_by(&mut self, mut tai: ClockMapping, context: &mut ReceiveContext<'_>) {
        (tai.uncertainty, tai.precision) = (Self::READ, Self::READ);
        tai.source = ClockSource::Tai;
        let newer = self.presentation_clock != Some(tai);
        if newer && (context.command)(ReceiveCommand::Presentation(tai)) {
            self.presentation_clock = Some(tai);
        }
    }

    /// Takes how fast the sender's card runs, by the word of a clock that is followed: handed down once a second, as
    /// what is told twice counts twice.
    pub fn keep_pace(&mut self, told: ToldRate, context: &mut ReceiveContext<'_>) {
        const EVERY: Span = Span::from_secs(1);
        let due = self.paced.is_none_or(|at| context.now - at >= EVERY);
        if due && (context.command)(ReceiveCommand::Pace(told)) {
            self.paced = Some(context.now);
        }
    }

    /// The latency that is kept.
    pub const fn link_offset(&self) -> Span {
        self.link_offset
    }

    /// Who says what it is.
    pub const fn rule(&self) -> LatencyRule {
        self.rule
    }

    /// The latency that is kept, where it follows the packets.
    pub fn auto(&self) -> Option<Span> {
        (self.rule.is_auto()).then_some(self.link_offset)
    }

    /// What the arrivals of its packets say.
    pub const fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// What its sender says that it is.
    pub const fn announced(&self) -> Option<Announcement> {
        self.announced
    }

    /// When packets came last.
    pub const fn recent(&self) -> &Recent {
        &self.recent
    }

    /// Why none of it was played, if so: its shape is another.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_ref().filter(|_| !self.played)
    }

    /// Why nothing was played, where all that came had another payload type.
    pub fn wrong_type(&self) -> Option<WrongType> {
        let nothing = |status: &StreamStatus| status.counters.received == 0;
        self.status.filter(nothing).and_then(|status| self.wrong_type_of(&status))
    }

    /// What people are to know, since it was last asked for.
    pub fn notes(&mut self) -> Vec<ReceiveNote> {
        self.notes.take()
    }

    /// Whether its sender said goodbye and none followed.
    pub const fn has_left(&self) -> bool {
        self.left
    }

    /// Whether the stream is over: its sender said goodbye, or was heard and is silent for so long
    /// that its goodbye must have been lost.
    pub fn is_over(&self, now: LocalTime) -> bool {
        self.left || self.recent.is_gone(now)
    }

    /// What the sender announces whose packets go on coming, where that is refused for its shape.
    pub fn refused(&self) -> Option<Announcement> {
        self.announced.filter(|_| self.refusal.is_some() && !self.left && self.is_heard_for(SURE))
    }

    /// Whether a sender was heard long enough that nothing else is waited for.
    pub fn is_settled(&self) -> bool {
        self.refusal.is_none() && self.is_heard_for(SETTLED)
    }

    /// Whether packets came for so long of the one that is heard.
    fn is_heard_for(&self, long: Span) -> bool {
        self.heard.is_some() && self.recent.last() - self.heard_since >= long
    }

    /// Whether datagrams come that are no packets of the expected shape, and nothing else does.
    pub fn reads_nothing(&self) -> bool {
        let invalid = self.status.map_or(0, |status| status.counters.invalid);
        self.heard.is_none() && invalid >= STRAY
    }
}

/// What is counted together.
pub const LATELY: Span = Span::from_secs(10);

/// Counts what happens now and then, and says once if it happens too often.
#[derive(Debug, Clone, Copy, Default)]
struct Often {
    /// Since when they are counted, and how many there were by then.
    since: Option<(LocalTime, u64)>,
    told: bool,
}

impl Often {
    /// More than a talker that is begun again by hand, whose clock is set, or whose path changes.
    const MANY: u64 = 8;

    /// Takes how many there were by `at`; tells how many there were lately, once, if that is too many.
    fn follow(&mut self, times: u64, at: LocalTime) -> Option<u64> {
        let (since, before) = *self.since.get_or_insert((at, times));
        let lately = times.saturating_sub(before);
        if lately >= Self::MANY && !self.told {
            self.told = true;
            return Some(lately);
        }
        if at - since >= LATELY {
            self.since = Some((at, times));
        }
        None
    }
}

/// Tells once that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Repairable {
    /// It was not when last seen.
    #[default]
    InTime,
    /// It is, since then.
    ShortSince(LocalTime),
    /// It was, and that was told.
    Told,
}

impl Repairable {
    /// What the sender promises and what its packets carry change one after the other, no further
    /// apart than two of its reports.
    const PATIENCE: Span = Span::from_secs(1);

    /// Takes whether the latency is too short at `now`, and says whether that is to be told.
    fn turns_short(&mut self, now: LocalTime, short: bool) -> bool {
        let next = match *self {
            Self::Told => Self::Told,
            _ if !short => Self::InTime,
            Self::InTime => Self::ShortSince(now),
            Self::ShortSince(since) if now - since >= Self::PATIENCE => Self::Told,
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
        let told: Vec<_> = (0..100).filter_map(|at| often.follow(at, second(at as i64))).collect();
        assert_eq!(told, [8]);
        let mut seldom = Often::default();
        let told = (0..100).find_map(|at| seldom.follow(at, second(2 * at as i64)));
        assert_eq!(told, None);
    }
}

#[cfg(test)]
mod repairable_tests {
    use super::*;

    #[test]
    fn a_latency_that_stays_too_short_is_told_of_once() {
        let at = |millis| LocalTime::ZERO + Span::from_millis(millis);
        let mut repairable = Repairable::default();
        let mut told = Vec::new();
        for millis in (0..5_000).step_by(20) {
            // Half a second of it is a change under way.
            let short = (200..700).contains(&millis) || millis >= 2_000;
            if repairable.turns_short(at(millis), short) {
                told.push(millis);
            }
        }
        assert_eq!(told, [3_000]);
    }
}
