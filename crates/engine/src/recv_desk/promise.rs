//! What a sender promises against what works here: what is followed, and what people are told where
//! the two differ.

use tautline_io::clock::now;
use tautline_proto::device::Settings;
use tautline_proto::servo::Servo;
use tautline_proto::time::Span;
use tautline_proto::wire::rtcp::Announcement;

use super::{Desk, shape};
use crate::run::Watch;
use crate::rx::{Command, RxStatus};
use tautline_proto::latency::{
    LatencyRule, enough_latency, kept_latency, least_latency, leaves_no_way, repair_latency,
};

/// A lead that is longer than was reckoned with by less than this is none: clocks, rounding.
const WORTH_TELLING: Span = Span::from_micros(250);

impl Desk {
    /// What the sender says of its stream against what was set up here. Tells whether the device's
    /// thread took it; if not, the next report says it again.
    pub(super) fn follow(
        &mut self,
        announcement: Announcement,
        device: &Settings,
        watch: &mut Watch,
    ) -> bool {
        if let Some(refusal) = shape::refusal(&self.address, &announcement.format, &self.config) {
            // Before its first packet it may be anybody's word.
            if self.heard.is_some() {
                watch.note(refusal.clone());
            }
            self.refusal = Some(refusal);
            return self.commands.push(Command::Mute(true)).is_ok();
        }
        self.refusal = None;
        let least = self.least(announcement.packing_age, device);
        let promised = announcement.link_offset;
        self.arrivals.announce(announcement.packing_age);
        let wanted = match self.rule {
            LatencyRule::Chosen(_) => self.link_offset,
            LatencyRule::Usual => kept_latency(promised, least),
            LatencyRule::Auto => self.arrivals.start_at(promised),
        };
        self.note_latency(&announcement, least, wanted, watch);
        self.link_offset = wanted.min(self.longest);
        self.commands.push(Command::Mute(false)).is_ok()
            && self.commands.push(Command::LinkOffset(self.link_offset)).is_ok()
    }

    /// The least latency at which packets so old when they leave can be played here.
    pub(super) fn least(&self, packing_age: Span, device: &Settings) -> Span {
        packing_age + least_latency(Span::ZERO, device).max(self.takes)
    }

    /// Takes what the device says of itself now that it runs, and what that comes to.
    pub(super) fn follow_device(
        &mut self,
        status: &RxStatus,
        device: &Settings,
        watch: &mut Watch,
    ) {
        let Some(lead) = status.lead else { return };
        let (ring, period) = (self.least(Span::ZERO, device), device.rate.span_of(device.period));
        let takes = lead + period;
        if takes <= ring + WORTH_TELLING || self.commands.push(Command::Ring(takes)).is_err() {
            return;
        }
        self.takes = takes;
        self.needs.set_ring(takes);
        self.arrivals.set_beyond(takes - least_latency(Span::ZERO, device));
        if let Some(announcement) = self.announced {
            // What cannot be handed down now, the next report brings again.
            self.announced = self.follow(announcement, device, watch).then_some(announcement);
        }
    }

    /// Says once if the latency here has no time for all that packets carry.
    pub(super) fn note_repair(&mut self, watch: &mut Watch) {
        let takes = self.arrivals.repair_takes().filter(|_| self.announced.is_some());
        let takes = takes.filter(|_| self.rule != LatencyRule::Auto);
        let short = takes.filter(|takes| *takes > self.link_offset);
        let (Some(takes), true) = (short, self.repairable.turns_short(now(), short.is_some()))
        else {
            return;
        };
        let (window, _) = self.books.status.map_or((Span::ZERO, 0), |status| status.repair);
        watch.note(format!(
            "{}: what packets carry repairs others up to {window} after they left, and a latency of {} \
             has no time for all of that; use --latency {} or more, or a shorter --redundancy-budget \
             at the sender",
            self.address,
            self.link_offset,
            repair_latency(takes - window, window)
        ));
    }

    /// Says so if the card runs further off the sender's than is followed.
    pub(super) fn note_reach(&self, status: &RxStatus, watch: &mut Watch) {
        if status.out_of_reach {
            watch.note(format!(
                "{}: the card runs more than {:.0} ppm off the sender's: resampling follows no further, \
                 so the sound jumps now and then; no two cards that are sound run so far apart: check \
                 the rates of both",
                self.address,
                Servo::reach().as_f64()
            ));
        }
    }

    /// Says what stands between the latency that is wanted and one that works.
    fn note_latency(
        &self,
        announcement: &Announcement,
        least: Span,
        wanted: Span,
        watch: &mut Watch,
    ) {
        let Announcement { packing_age, link_offset, .. } = announcement;
        let (device, address) = (least - *packing_age, &self.address);
        let short = match self.rule {
            LatencyRule::Chosen(_) => leaves_no_way(wanted, least),
            LatencyRule::Usual | LatencyRule::Auto => wanted < least,
        };
        if short {
            let (enough, most) = (enough_latency(least), if wanted < least { "most " } else { "" });
            watch.note(format!(
                "{address}: packets are up to {packing_age} old when they leave and the device here \
                 takes {device}, so {wanted} is too little and {most}packets will be late; use \
                 --latency {enough} or more, or shorter periods at both ends"
            ));
        } else if self.rule == LatencyRule::Usual && wanted > *link_offset {
            watch.note(format!(
                "{address} promises {link_offset} but packets are up to {packing_age} old when they \
                 leave and the device here takes {device}; it runs at {wanted}"
            ));
        }
        if wanted > self.longest {
            watch.note(format!(
                "{address} wants {wanted} but this end has room for {}; it runs at that: give \
                 --latency {wanted} for more",
                self.longest
            ));
        }
    }
}
