//! What packets need of the latency whose sender announces nothing, and what people are told of it.

use tautline_io::clock::now;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::unannounced::Need;

use super::Desk;
use crate::run::Watch;
use crate::rx::RxStatus;
use tautline_proto::latency::LatencyRule;

/// What is known of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Needs {
    /// What the device takes.
    ring: Span,
    /// Since when its sender is heard.
    since: LocalTime,
    newest: Option<Need>,
    /// What people were told.
    told: Option<Need>,
}

impl Needs {
    /// Reports follow each other within half a second: whoever is heard for twice as long announces
    /// nothing. What packets need at the beginning has shown by then, too, and is said in one line.
    const PATIENCE: Span = Span::from_secs(1);

    /// Of a sender that is heard since then, by a device with a ring of this length.
    pub(super) const fn of(ring: Span, since: LocalTime) -> Self {
        Self { ring, since, newest: None, told: None }
    }

    /// The device takes so long, as it turned out.
    pub(super) fn set_ring(&mut self, ring: Span) {
        self.ring = ring;
    }

    /// Of the next sender.
    pub(super) fn forget(&mut self, since: LocalTime) {
        *self = Self::of(self.ring, since);
    }

    /// The longest packet of those that need more than the latency.
    pub(super) fn packet(&self) -> Option<Span> {
        self.newest.map(|need| need.packet)
    }
}

impl Desk {
    /// Follows what the device's thread made of the latency.
    pub(super) fn follow_need(&mut self, status: &RxStatus) {
        if self.announced.is_some() || status.need == self.needs.newest {
            return;
        }
        self.needs.newest = status.need;
        let Some(need) = status.need else { return };
        self.arrivals.announce(need.packet);
        if self.rule == LatencyRule::Usual {
            self.link_offset = need.latency.min(self.longest);
        }
    }

    /// Says what packets need, and what is done about it.
    pub(super) fn note_need(&mut self, watch: &mut Watch) {
        if now() - self.needs.since >= Needs::PATIENCE {
            let note = self.untold_need();
            self.needs.told = self.needs.newest;
            note.into_iter().for_each(|note| watch.note(note));
        }
    }

    /// What is to be said of it that was not said yet.
    pub(super) fn untold_need(&self) -> Option<String> {
        let fresh = self.announced.is_none() && self.needs.newest != self.needs.told;
        let Need { latency, packet, apart } = self.needs.newest.filter(|_| fresh)?;
        let (address, longest, ring) = (&self.address, self.longest, self.needs.ring);
        let apart = match apart {
            Span::ZERO => String::new(),
            apart => format!(" and come up to {apart} late"),
        };
        let why = format!(
            "{address}: the sender announces nothing; its packets hold {packet}{apart} and the device \
             here takes {ring}"
        );
        match self.rule {
            LatencyRule::Auto => None,
            LatencyRule::Chosen(_) => Some(format!(
                "{why}, so {} is too little and packets are late; use --latency {latency} or more",
                self.link_offset
            )),
            LatencyRule::Usual if latency > longest => Some(format!(
                "{why}, which wants {latency}, and this end has room for {longest}; it runs at that: \
                 give --latency {latency} for more"
            )),
            LatencyRule::Usual => Some(format!("{why}, so it runs at {latency}")),
        }
    }
}
