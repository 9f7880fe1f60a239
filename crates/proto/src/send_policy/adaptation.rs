//! Applies the rate control's decisions.

use super::{SendCommand, SendContext, SendNote, SendPolicy};
use crate::congestion::{CodingLimits, CodingSteps, PathFeedback, RateControl, Sent};
use crate::packetizer::PacketizerState;
use crate::redundancy::sizing::Tally;
use crate::redundancy::{Bounds, LastingLoss};
use crate::send_policy::SendRefused;
use crate::stream::{Coding, StreamFormat, packet_frames};
use crate::time::{LocalTime, Span};
use crate::wire::rtcp::LossReport;

/// The maximum packet time is the latency divided by this: path, queue and device need the rest.
const PTIME_PART: i64 = 3;

#[derive(Debug)]
pub(super) struct Adaptation {
    control: RateControl,
    limits: CodingLimits,
    /// Included in the rate control's steps.
    symbols: usize,
    paused: bool,
    /// Until then, reports count unsent packets as lost.
    trusts_loss_from: LocalTime,
}

/// Maximum age of reported losses.
const REPORTED: Span = Span::from_secs(1);

impl SendPolicy {
    /// Adapts the stream within these limits, at once or after a heavy loss; `None` keeps the format.
    pub fn adapt_within(&mut self, limits: Option<CodingLimits>, context: &mut SendContext<'_>) {
        self.is_led = limits.is_some();
        let before = self.adaptation.take();
        if let Some(before) = &before {
            self.left_off = Some(before.control.rate());
        }
        if before.is_some_and(|before| before.paused) {
            // The next poll repeats the command.
            self.unpause = !(context.command)(SendCommand::Pause(false));
        }
        self.after_loss = None;
        let Some(mut limits) = limits else { return };
        // A stream that adapted before has had its loss.
        if limits.after_loss && self.left_off.is_none() {
            self.after_loss = Some(CodingLimits { after_loss: false, ..limits });
            return;
        }
        if !self.is_as_needed() {
            let maximum = self.config.link_offset.divided(PTIME_PART);
            limits.ptimes.1 = limits.ptimes.1.min(maximum).max(limits.ptimes.0);
        }
        let steps = CodingSteps::new(self.config.format.shape(), &limits);
        self.adaptation = steps.map(|steps| Adaptation {
            control: RateControl::new(steps, self.left_off, context.now),
            limits,
            symbols: 0,
            paused: false,
            trusts_loss_from: context.now,
        });
    }

    /// Whether the stream adapts.
    pub const fn is_adapted(&self) -> bool {
        self.adaptation.is_some()
    }

    pub(super) fn take_feedback(&mut self, feedback: PathFeedback, now: LocalTime) {
        if let Some(adaptation) = &mut self.adaptation {
            adaptation.control.observe(feedback, now);
        }
    }

    /// The next poll adapts the stream after a heavy loss, or repairs it after an audible one. If
    /// repairs leave much, the path does not carry them: the stream adapts, too.
    pub(super) fn take_losses(&mut self, report: &LossReport, now: LocalTime) {
        if !self.trusts_loss(now) {
            (self.heavy_loss, self.audible_loss) = (LastingLoss::HEAVY, LastingLoss::AUDIBLE);
            return;
        }
        let mut too_much = self.heavy_loss.follow(report.tally, now).is_some();
        let audible = self.audible_loss.follow(report.tally, now);
        if self.layout().symbols() == 0 {
            self.unrepaired_loss = LastingLoss::UNREPAIRED;
        } else {
            let missing = report.lost.saturating_sub(report.tally.beyond);
            let unrepaired = Tally { missing, ..report.tally };
            too_much |= self.unrepaired_loss.follow(unrepaired, now).is_some();
        }
        if let Some(percent) = audible {
            self.notes.note(SendNote::Loss(percent));
        }
        if too_much && self.after_loss.is_some() {
            self.config.adapts = self.after_loss.take();
            // The losses of the adapted stream count.
            self.audible_loss = LastingLoss::AUDIBLE;
        } else if audible.is_some() && core::mem::take(&mut self.config.repairs_after_loss) {
            self.note_repair();
        }
    }

    pub(super) fn follow_sent(&mut self, state: PacketizerState, now: LocalTime) {
        let PacketizerState { packets, octets, newest, .. } = state;
        if let Some(adaptation) = &mut self.adaptation {
            adaptation.control.observe_sent(Sent { packets, newest, octets, at: now });
        }
    }

    pub(super) fn adapt(&mut self, context: &mut SendContext<'_>) {
        if self.unpause {
            self.unpause = !(context.command)(SendCommand::Pause(false));
        }
        let Some(mut adaptation) = self.adaptation.take() else { return };
        adaptation.control.poll(context.now);
        // Each step is rejected at most once.
        for _ in 0..Coding::ALL.len() + 2 {
            let terms = adaptation.control.terms();
            let Coding { sample, codec } = terms.coding;
            let payload_type = StreamFormat::usual_payload_type(sample, codec);
            let Ok(packet) = packet_frames(self.config.format.rate, terms.ptime) else { break };
            let format = StreamFormat { sample, codec, payload_type, packet, ..self.config.format };
            if format == self.config.format {
                break;
            }
            let before = self.config.format;
            match self.set_format(format, false, context) {
                Ok(()) => {
                    let same = before.coding().is_coded_as(terms.coding) && before.packet == packet;
                    if !same && !adaptation.control.is_trying() {
                        let coding = terms.coding.at_bitrate(0);
                        self.notes.note(SendNote::Adapted { coding, ptime: terms.ptime });
                    }
                    break;
                }
                Err(SendRefused::Busy) => break,
                Err(_) => adaptation.control.refuse(context.now),
            }
        }
        let paused = adaptation.control.is_paused();
        if paused != adaptation.paused && (context.command)(SendCommand::Pause(paused)) {
            adaptation.paused = paused;
        }
        if paused {
            adaptation.trusts_loss_from = context.now + REPORTED;
        }
        self.adaptation = Some(adaptation);
    }

    /// Symbols within the path's rate. Speech gains more from bitrate than from copies (decision
    /// 70).
    pub(super) fn symbols_within_rate(&self, bounds: &Bounds) -> u8 {
        let Some(adaptation) = &self.adaptation else { return bounds.max_asked };
        let rate = adaptation.control.aims_at();
        let fits = |symbols: &u8| {
            let steps = self.steps_carrying(adaptation, bounds, (*symbols).into());
            steps.is_some_and(|steps| steps.min_without_copies() <= rate)
        };
        (1..=bounds.max_asked).take_while(fits).last().unwrap_or(0)
    }

    pub(super) fn count_redundancy(&mut self, now: LocalTime) {
        let Some(mut adaptation) = self.adaptation.take() else { return };
        let (bounds, layout) = (self.reckoned_with(), self.layout());
        adaptation.control.carries(bounds.cost(&self.config.format, &layout));
        if adaptation.symbols != layout.symbols()
            && let Some(steps) = self.steps_carrying(&adaptation, &bounds, layout.symbols())
        {
            adaptation.symbols = layout.symbols();
            adaptation.control.carry(steps, now);
        }
        self.adaptation = Some(adaptation);
    }

    fn steps_carrying(
        &self,
        adaptation: &Adaptation,
        bounds: &Bounds,
        symbols: usize,
    ) -> Option<CodingSteps> {
        let steps = CodingSteps::new(self.config.format.shape(), &adaptation.limits)?;
        Some(steps.carrying(&|format| bounds.cost_of(format, symbols)))
    }

    pub(super) fn trusts_loss(&self, now: LocalTime) -> bool {
        self.adaptation.as_ref().is_none_or(|adaptation| now >= adaptation.trusts_loss_from)
    }
}
