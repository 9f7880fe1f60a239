//! What the ordinary thread of a receiver does with its arrivals, at the beat of a real one.

use tautline_proto::arrivals::{Arrivals, ArrivalsConfig, Standing};
use tautline_proto::depth::LossTarget;
use tautline_proto::device::Settings;
use tautline_proto::faults::{Faults, Harm};
use tautline_proto::receiver::{Counters, Receiver};
use tautline_proto::time::{LocalTime, Span};

use crate::card::CardModel;
use crate::clock::TrueTime;
use crate::heard::Heard;
use crate::scenario::Scenario;

/// From one look of the ordinary thread to the next.
const BEAT: Span = Span::from_millis(20);

/// Looks at the arrivals of one stream.
pub(crate) struct Desk {
    pub(crate) arrivals: Arrivals,
    follows: bool,
    /// The link offset at the last look.
    kept: Span,
    next: LocalTime,
    starved: u64,
    /// As of the last look.
    counted: Counters,
    stalls: Vec<(LocalTime, LocalTime)>,
}

impl Desk {
    pub(crate) fn new(scenario: &Scenario, card: &CardModel, longest: Span) -> Self {
        let device = Settings {
            rate: scenario.format.rate,
            channels: scenario.format.channels,
            period: card.period,
            periods: card.periods as u32,
        };
        let arrivals = Arrivals::new(ArrivalsConfig {
            loss_target: scenario.auto.unwrap_or(LossTarget::DEFAULT),
            device,
            packing_age: scenario.format.packing_age(scenario.sender.card.period),
            start: scenario.latency,
            longest,
        });
        let (follows, stalls) = (scenario.auto.is_some(), Vec::new());
        let kept = scenario.latency;
        Self {
            arrivals,
            follows,
            kept,
            next: LocalTime::ZERO,
            starved: 0,
            counted: Counters::default(),
            stalls,
        }
    }

    /// The whole host stood still.
    pub(crate) fn stall(&mut self, from: LocalTime, to: LocalTime) {
        self.stalls.push((from, to));
    }

    /// The card woke, having played silence of its own if it `starved`: now and then the ordinary
    /// thread runs.
    pub(crate) fn look(
        &mut self,
        receiver: &mut Receiver,
        (now, woke): (TrueTime, LocalTime),
        starved: bool,
        heard: &mut Heard,
    ) {
        self.starved += u64::from(starved);
        if woke < self.next {
            return;
        }
        self.next = woke + BEAT;
        let since = woke - BEAT - receiver.placement().link_offset();
        self.stand(receiver, (since, woke));
        let offset = self.arrivals.poll(woke, false);
        if self.follows {
            receiver.set_link_offset(offset);
        }
        let kept = receiver.placement().link_offset();
        if kept != core::mem::replace(&mut self.kept, kept) {
            heard.offsets.push((now, kept));
        }
    }

    fn stand(&mut self, receiver: &Receiver, (from, to): (LocalTime, LocalTime)) {
        let counters = receiver.counters();
        let before = core::mem::replace(&mut self.counted, *counters);
        let mut faults = Faults::NONE;
        faults.add(from, to, Harm::missed(&before, counters));
        let standing = Standing {
            late: counters.late,
            lost: counters.lost,
            starved: self.starved,
            dropped: 0,
            unheard: counters.unheard,
            faults,
        };
        let stalls = &self.stalls;
        self.arrivals.set_repair(receiver.repair_budget());
        self.arrivals.stand(standing, |from, to| overlaps(stalls, from, to));
    }

    /// The last word.
    pub(crate) fn finish(&mut self, receiver: &Receiver, heard: &mut Heard) {
        self.stand(receiver, (LocalTime::ZERO, LocalTime::ZERO));
        let stalls = &self.stalls;
        self.arrivals.finish(|from, to| overlaps(stalls, from, to));
        heard.gaps = self.arrivals.gaps();
        heard.curve = self.arrivals.curve();
        heard.advised = self.arrivals.advised();
        heard.journal = *self.arrivals.journal();
    }
}

fn overlaps(stalls: &[(LocalTime, LocalTime)], from: LocalTime, to: LocalTime) -> bool {
    stalls.iter().rev().any(|stall| stall.0 <= to && from <= stall.1)
}
