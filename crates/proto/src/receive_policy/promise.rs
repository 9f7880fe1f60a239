//! What a sender promises against what works here: what is followed, and what people are told where
//! the two differ.

use super::note::{Refusal, WrongType};
use super::{ReceiveContext, ReceiveNote, ReceivePolicy};
use crate::jitter_buffer::{OtherType, ReceiveCommand, StreamStatus};
use crate::latency::{LatencyRule, kept_latency, least_latency, leaves_no_transit, repair_latency};
use crate::packet::Unpack;
use crate::stream::StreamFormat;
use crate::time::{LocalTime, Span};
use crate::wire::rtcp::Announcement;

/// A lead that is longer than was reckoned with by less than this is none: clocks, rounding.
const WORTH_TELLING: Span = Span::from_micros(250);

impl ReceivePolicy {
    /// What the sender says of its stream against what was set up here. Tells whether the device's
    /// thread took it; if not, the next report says it again.
    pub(super) fn keep_promise(
        &mut self,
        announcement: Announcement,
        context: &mut ReceiveContext<'_>,
    ) -> bool {
        let (theirs, ours) = (&announcement.format, &self.format);
        if let Some(refusal) = refusal(theirs, ours, &*self.wire) {
            // Before its first packet it may be anybody's word.
            if self.heard.is_some() {
                self.notes.note(ReceiveNote::Refused(refusal));
            }
            self.refusal = Some(refusal);
            return (context.command)(ReceiveCommand::Mute(true));
        }
        self.refusal = None;
        let least = self.least(announcement.packing_age);
        let promised = announcement.link_offset;
        self.arrivals.announce(announcement.packing_age);
        let wanted = match self.rule {
            LatencyRule::Chosen(_) => self.link_offset,
            LatencyRule::Usual => kept_latency(promised, least),
            LatencyRule::Auto { .. } => self.arrivals.start_at(promised),
        };
        self.note_latency(&announcement, least, wanted);
        self.link_offset = wanted.min(self.longest);
        (context.command)(ReceiveCommand::Carried(theirs.channels))
            && (context.command)(ReceiveCommand::Mute(false))
            && (context.command)(ReceiveCommand::LinkOffset(self.link_offset))
    }

    /// The least latency at which packets so old when they leave can be played here.
    pub(super) fn least(&self, packing_age: Span) -> Span {
        packing_age + self.takes
    }

    fn ring(&self) -> Span {
        least_latency(Span::ZERO, &self.device)
    }

    /// Takes what the device says of itself now that it runs, and what that comes to. Where it takes
    /// longer, what is kept is raised for it as at the beginning; where it takes less, what was promised
    /// stays, and whoever asks for less gets it.
    pub(super) fn follow_device(
        &mut self,
        status: &StreamStatus,
        context: &mut ReceiveContext<'_>,
    ) {
        let Some(lead) = status.lead else { return };
        let device = &self.device;
        let period = device.rate.span_of(device.period);
        // A thread that wakes late has less than no lead, and takes its block all the same.
        let takes = lead.max(Span::ZERO) + period;
        let longer = takes > self.takes + WORTH_TELLING;
        // A cable that leads elsewhere is periods of difference; wake-ups that are all late are not.
        let shorter = takes < self.takes - WORTH_TELLING.max(period.half());
        if !(longer || shorter) || !(context.command)(ReceiveCommand::Ring(takes)) {
            return;
        }
        self.takes = takes;
        self.needs.set_ring(takes);
        self.arrivals.set_beyond(takes - self.ring());
        if let Some(announcement) = self.announced.filter(|_| longer) {
            // What cannot be handed down now, the next report brings again.
            self.announced = self.keep_promise(announcement, context).then_some(announcement);
        }
    }

    /// Says once if the latency here has no time for all that packets carry.
    pub(super) fn note_repair(&mut self, now: LocalTime) {
        let takes = self.arrivals.repair_takes().filter(|_| self.announced.is_some());
        let takes = takes.filter(|_| !self.rule.is_auto());
        let short = takes.filter(|takes| *takes > self.link_offset);
        let told = self.repairable.turns_short(now, short.is_some());
        let Some(takes) = short.filter(|_| told) else { return };
        let (window, _) = self.status.map_or((Span::ZERO, 0), |status| status.repair);
        let enough = repair_latency(takes - window, window);
        self.notes.note(ReceiveNote::RepairShort { window, latency: self.link_offset, enough });
    }

    /// Says what stands between the latency that is wanted and one that works.
    fn note_latency(&mut self, announcement: &Announcement, least: Span, wanted: Span) {
        let Announcement { packing_age, link_offset: promised, .. } = *announcement;
        let (device, longest) = (least - packing_age, self.longest);
        let short = match self.rule {
            LatencyRule::Chosen(_) => leaves_no_transit(wanted, least),
            LatencyRule::Usual => wanted < least,
            // It is with the next beat what older packets take, if there is room for that.
            LatencyRule::Auto { .. } => least > longest,
        };
        if short {
            self.notes.note(ReceiveNote::TooShort { packing_age, device, latency: wanted });
        } else if self.rule == LatencyRule::Usual && wanted > promised {
            self.notes.note(ReceiveNote::Raised { promised, packing_age, device, kept: wanted });
        }
        if wanted > longest {
            self.notes.note(ReceiveNote::NoRoom { wanted, longest });
        }
    }
}

/// Packets of another payload type after which it is told: more than strays.
const FEW: u64 = 10;

/// Why the stream that a sender announces cannot be played where `ours` is expected; `None` if it can.
/// Another rate changes its pitch, other channels mix it up, and another coding is noise at full scale.
pub(super) fn refusal(
    theirs: &StreamFormat,
    ours: &StreamFormat,
    wire: &dyn Unpack,
) -> Option<Refusal> {
    // What is not taken for its payload type is not decoded either, and told of as that.
    let coding = wire.coding(theirs.payload_type, ours);
    let coding = coding.filter(|coding| *coding != theirs.coding()).map(|coding| coding.sample);
    let refusal = Refusal { theirs: *theirs, ours: *ours, coding, codings: wire.codings() };
    (refusal.is_of_another_shape() || coding.is_some()).then_some(refusal)
}

impl ReceivePolicy {
    /// What comes with another payload type, if it is more than strays.
    pub(super) fn wrong_type_of(&self, status: &StreamStatus) -> Option<WrongType> {
        let came = status.other_type.filter(|came: &OtherType| came.packets >= FEW)?;
        Some(WrongType { came, codings: self.wire.codings(), format: self.format })
    }

    /// Says once what comes instead of the stream.
    pub(super) fn note_other_type(&mut self, status: &StreamStatus) {
        let Some(wrong) = self.wrong_type_of(status).filter(|_| !self.recent.is_lively()) else {
            return;
        };
        if self.other_type_told != Some(wrong.came.payload_type) {
            self.other_type_told = Some(wrong.came.payload_type);
            self.notes.note(ReceiveNote::WrongType(wrong));
        }
    }
}
