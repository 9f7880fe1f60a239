//! Compares the announcement with local conditions.

use super::note::{Refusal, WrongType};
use super::{ReceiveContext, ReceiveNote, ReceivePolicy};
use crate::jitter_buffer::{OtherType, ReceiveCommand, StreamStatus};
use crate::latency::{LatencyRule, LatencySum, kept_latency, min_latency, repair_latency};
use crate::packet::Unpack;
use crate::stream::StreamFormat;
use crate::time::{LocalTime, Span};
use crate::unannounced::tenths;
use crate::wire::rtcp::Announcement;

/// Minimum reported change of the lead. Smaller changes are rounding errors.
const WORTH_TELLING: Span = Span::from_micros(250);

impl ReceivePolicy {
    /// Returns whether all commands were taken.
    pub(super) fn keep_promise(
        &mut self,
        announcement: Announcement,
        context: &mut ReceiveContext<'_>,
    ) -> bool {
        let (theirs, ours) = (&announcement.format, &self.format);
        if let Some(refusal) = refusal(theirs, ours, &*self.wire) {
            // The author is not verified before the first packet.
            if self.received.is_some() {
                self.notes.note(ReceiveNote::Refused(refusal));
            }
            self.refusal = Some(refusal);
            return (context.command)(ReceiveCommand::Mute(true));
        }
        self.refusal = None;
        let minimum = self.minimum(announcement.packing_age);
        let promised = announcement.link_offset;
        self.arrivals.announce(announcement.packing_age);
        let wanted = match self.rule {
            LatencyRule::Chosen(_) => self.link_offset,
            LatencyRule::Usual => kept_latency(promised, minimum),
            LatencyRule::Auto { .. } => self.arrivals.start_at(promised),
        };
        self.note_latency(&announcement, wanted);
        self.link_offset = wanted.min(self.longest);
        (context.command)(ReceiveCommand::Carried(theirs.channels))
            && (context.command)(ReceiveCommand::Mute(false))
            && (context.command)(ReceiveCommand::LinkOffset(self.link_offset))
    }

    /// Minimum latency for this packet age.
    pub(super) fn minimum(&self, packing_age: Span) -> Span {
        packing_age + self.takes
    }

    fn ring(&self) -> Span {
        min_latency(Span::ZERO, &self.device)
    }

    /// The latency may rise with the device time.
    pub(super) fn follow_device(
        &mut self,
        status: &StreamStatus,
        context: &mut ReceiveContext<'_>,
    ) {
        let Some(lead) = status.lead else { return };
        let device = &self.device;
        let period = device.rate.span_of(device.period);
        // A thread that wakes late still takes its block.
        let takes = lead.max(Span::ZERO) + period;
        let longer = takes > self.takes + WORTH_TELLING;
        // A reconnection changes the lead by periods.
        let shorter = takes < self.takes - WORTH_TELLING.max(period.half());
        if !(longer || shorter) || !(context.command)(ReceiveCommand::Ring(takes)) {
            return;
        }
        self.takes = takes;
        self.needs.set_ring(takes);
        self.arrivals.set_beyond(takes - self.ring());
        if let Some(announcement) = self.announced.filter(|_| longer) {
            // If the queue is full, the next report repeats it.
            self.announced = self.keep_promise(announcement, context).then_some(announcement);
        }
    }

    pub(super) fn note_repair(&mut self, now: LocalTime) {
        let takes = self.arrivals.repair_takes().filter(|_| self.announced.is_some());
        // The device's time is a maximum: repairs can be in time with less latency.
        let are_late = self.status.is_some_and(|status| status.late_repairs > 0);
        let takes = takes.filter(|_| are_late && !self.rule.is_auto());
        let short = takes.filter(|takes| *takes > self.link_offset);
        let reported = self.repairable.turns_short(now, short.is_some());
        let Some(takes) = short.filter(|_| reported) else { return };
        let (window, _) = self.status.map_or((Span::ZERO, 0), |status| status.repair);
        // As the report advises.
        let advised = self.arrivals.advised().unwrap_or(Span::ZERO);
        let enough = tenths(repair_latency(takes - window, window)).max(advised);
        self.notes.note(ReceiveNote::RepairShort { window, latency: self.link_offset, enough });
    }

    /// Other clocks and rules determine presentation times and adaptive latencies.
    pub(super) fn note_late(&mut self, status: &StreamStatus) {
        let late = self.interruptions.late(&status.counters, status.at);
        let late = late.filter(|_| !self.rule.is_auto() && !self.presents());
        let (latency, needed) = (self.link_offset, self.arrivals.needed().map(tenths));
        let needed = needed.filter(|needed| *needed > latency);
        if let Some((percent, needed)) = late.zip(needed) {
            self.notes.note(ReceiveNote::MostlyLate { percent, latency, needed });
        }
    }

    fn note_latency(&mut self, announcement: &Announcement, wanted: Span) {
        let Announcement { packing_age, link_offset: promised, .. } = *announcement;
        let needs = LatencySum { packing_age, device: self.takes };
        let (minimum, longest) = (needs.without_network(), self.longest);
        let short = match self.rule {
            LatencyRule::Chosen(_) => wanted < needs.total(),
            LatencyRule::Usual => wanted < minimum,
            // Arrivals determine the latency from the next poll on.
            LatencyRule::Auto { .. } => minimum > longest,
        };
        // The lead of a restarted device grows in steps as it is measured.
        let noted = self.announced == Some(*announcement)
            && self.takes <= self.noted_takes + self.device.rate.span_of(self.device.period);
        if short && !noted {
            self.noted_takes = self.takes;
            self.notes.note(ReceiveNote::TooShort { needs, latency: wanted });
        } else if !short && self.rule == LatencyRule::Usual && wanted > promised {
            self.notes.note(ReceiveNote::Raised { promised, needs });
        }
        if wanted > longest {
            self.notes.note(ReceiveNote::NoRoom { wanted, longest });
        }
    }
}

/// Minimum packets of another type. Fewer are strays.
const FEW: u64 = 10;

/// Returns a mismatch that would change the pitch, mix channels or play full-scale noise.
pub(super) fn refusal(
    theirs: &StreamFormat,
    ours: &StreamFormat,
    wire: &dyn Unpack,
) -> Option<Refusal> {
    // Packets with an unexpected payload type are reported separately.
    let coding = wire.coding(theirs.payload_type, ours);
    let coding = coding.filter(|coding| *coding != theirs.coding()).map(|coding| coding.sample);
    let refusal = Refusal { theirs: *theirs, ours: *ours, coding, codings: wire.codings() };
    (refusal.is_of_another_shape() || coding.is_some()).then_some(refusal)
}

impl ReceivePolicy {
    pub(super) fn wrong_type_of(&self, status: &StreamStatus) -> Option<WrongType> {
        let arrived = status.other_type.filter(|arrived: &OtherType| arrived.packets >= FEW)?;
        Some(WrongType { arrived, codings: self.wire.codings(), format: self.format })
    }

    pub(super) fn note_other_type(&mut self, status: &StreamStatus) {
        let Some(wrong) = self.wrong_type_of(status).filter(|_| !self.recent.is_lively()) else {
            return;
        };
        if self.other_type_reported != Some(wrong.arrived.payload_type) {
            self.other_type_reported = Some(wrong.arrived.payload_type);
            self.notes.note(ReceiveNote::WrongType(wrong));
        }
    }
}
