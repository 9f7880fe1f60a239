//! A receiver's ordinary thread: handles messages, reads the stream's status, and calls the policy.

use tautline_proto::codec::MakeDecoder;
use tautline_proto::counters::Counters;
use tautline_proto::device::Settings;
use tautline_proto::endpoint::Host;
use tautline_proto::faults::{Faults, Harm};
use tautline_proto::jitter_buffer::{
    JitterBuffer, JitterBufferConfig, ReceiveCommand, StreamStatus,
};
use tautline_proto::latency::LatencyRule;
use tautline_proto::ledger::{Outcome, PacketTrace};
use tautline_proto::policy::Context;
use tautline_proto::receive_policy::{ReceivePolicy, ReceivePolicyConfig, receiver_with_room};
use tautline_proto::redundancy::Repairer;
use tautline_proto::rtcp_session::{Event, Session};
use tautline_proto::target_delay::LossTarget;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::wire::rtp::RtpUnpack;

use crate::card::CardModel;
use crate::clock::TrueTime;
use crate::codec::{codings, decoder};
use crate::received::Received;
use crate::scenario::Scenario;

pub(crate) const BEAT: Span = Span::from_millis(20);

pub(crate) struct Ordinary {
    pub(crate) policy: ReceivePolicy,
    talks: bool,
    /// Link offset at the last call.
    kept: Span,
    next: LocalTime,
    starved: u64,
    counted: Counters,
    stalls: Vec<(LocalTime, LocalTime)>,
}

fn decide<T>(
    policy: &mut ReceivePolicy,
    receiver: &mut JitterBuffer,
    session: Option<&mut Session>,
    now: LocalTime,
    decide: impl FnOnce(&mut ReceivePolicy, &mut Context<'_, ReceiveCommand>) -> T,
) -> T {
    let mut command = |command| {
        receiver.apply(command);
        true
    };
    decide(policy, &mut Context { now, session, command: &mut command })
}

fn rule(scenario: &Scenario) -> LatencyRule {
    match scenario.auto {
        Some(_) => LatencyRule::Auto { maximum: scenario.auto_max },
        None if scenario.unannounced => LatencyRule::Usual,
        None => LatencyRule::Chosen(scenario.latency),
    }
}

impl Ordinary {
    pub(crate) fn new(scenario: &Scenario, card: &CardModel) -> (Self, JitterBuffer) {
        let device = Settings {
            rate: scenario.format.rate,
            channels: scenario.format.channels,
            period: card.period,
            periods: card.periods as u32,
        };
        let latency = rule(scenario);
        let config = JitterBufferConfig {
            decoders: match &scenario.sound {
                Some(sound) => Some(sound.decoder),
                None => codings(scenario).next().map(|_| decoder as MakeDecoder),
            },
            ..JitterBufferConfig::new(RtpUnpack::usual(), scenario.format, scenario.latency)
        };
        let mut receiver = receiver_with_room(config, latency);
        receiver.borrow_repairer(&mut Some(Box::<Repairer>::default()));
        let loss_target = scenario.auto.unwrap_or(LossTarget::DEFAULT);
        let config = ReceivePolicyConfig { loss_target, ..ReceivePolicyConfig::new(latency) };
        let ordinary = Self {
            policy: ReceivePolicy::new(config, scenario.latency, device, &mut receiver),
            talks: scenario.reports,
            kept: scenario.latency,
            next: LocalTime::ZERO,
            starved: 0,
            counted: Counters::default(),
            stalls: Vec::new(),
        };
        (ordinary, receiver)
    }

    pub(crate) fn stall(&mut self, from: LocalTime, to: LocalTime) {
        self.stalls.push((from, to));
    }

    pub(crate) fn take(&mut self, passage: &PacketTrace) {
        if passage.outcome != Outcome::Discarded {
            self.policy.take(passage);
        }
    }

    pub(crate) fn handle(
        &mut self,
        reported: (Host, Vec<Event>),
        receiver: &mut JitterBuffer,
        session: &mut Session,
        now: LocalTime,
    ) {
        decide(&mut self.policy, receiver, Some(session), now, |policy, context| {
            for event in reported.1 {
                policy.handle(reported.0, event, context);
            }
        });
        if let Some(receiving) = self.policy.receiving(None) {
            session.set_receiving(receiving);
        }
    }

    pub(crate) fn speaks(&self, session: &Session, now: LocalTime) -> bool {
        self.talks && session.deadline() <= now
    }

    /// Panics if the policy refuses `rule`.
    pub(crate) fn choose(&mut self, rule: LatencyRule, receiver: &mut JitterBuffer) {
        let kept = decide(&mut self.policy, receiver, None, self.next, |policy, context| {
            policy.set_latency(rule, context)
        });
        assert!(kept.is_ok(), "{kept:?}");
    }

    /// `woke` is on the host's clock. `starved`: the card played its own silence before.
    pub(crate) fn look(
        &mut self,
        receiver: &mut JitterBuffer,
        session: &mut Session,
        (now, woke): (TrueTime, LocalTime),
        starved: bool,
        received: &mut Received,
    ) {
        self.starved += u64::from(starved);
        if woke < self.next {
            return;
        }
        self.next = woke + BEAT;
        let since = woke - BEAT - receiver.placement().link_offset();
        let status = self.status(receiver, since, woke);
        let (stalls, session) = (&self.stalls, self.talks.then_some(session));
        decide(&mut self.policy, receiver, session, woke, |policy, context| {
            policy.follow(&status, |from, to| overlaps(stalls, from, to), context);
            policy.poll(context);
        });
        received.notes.extend(self.policy.notes());
        let kept = receiver.placement().link_offset();
        if kept != core::mem::replace(&mut self.kept, kept) {
            received.offsets.push((now, kept));
        }
    }

    fn status(&mut self, receiver: &JitterBuffer, from: LocalTime, to: LocalTime) -> StreamStatus {
        let counters = receiver.counters();
        let before = core::mem::replace(&mut self.counted, *counters);
        let mut faults = Faults::NONE;
        faults.add(from, to, Harm::missed(&before, counters));
        let counters = Counters { xruns: self.starved, ..*counters };
        StreamStatus { counters, faults, ..receiver.status(to) }
    }

    pub(crate) fn finish(&mut self, receiver: &mut JitterBuffer, received: &mut Received) {
        let status = self.status(receiver, self.next, self.next);
        let (policy, stalls) = (&mut self.policy, &self.stalls);
        let mut context = Context { now: self.next, session: None, command: &mut |_| true };
        policy.follow(&status, |from, to| overlaps(stalls, from, to), &mut context);
        received.notes.extend(policy.finish(|from, to| overlaps(stalls, from, to)));
        let arrivals = policy.arrivals();
        received.gaps = arrivals.gaps();
        received.curve = arrivals.curve();
        received.advised = arrivals.advised();
        received.journal = *arrivals.journal();
        received.notes.extend(policy.notes());
    }
}

fn overlaps(stalls: &[(LocalTime, LocalTime)], from: LocalTime, to: LocalTime) -> bool {
    stalls.iter().rev().any(|stall| stall.0 <= to && from <= stall.1)
}
