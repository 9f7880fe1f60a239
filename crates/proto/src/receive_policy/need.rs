//! Latency that unannounced packets need.

use super::{ReceiveNote, ReceivePolicy};
use crate::jitter_buffer::StreamStatus;
use crate::latency::LatencyRule;
use crate::time::{LocalTime, Span};
use crate::unannounced::{Need, tenths};

#[derive(Debug, Clone, Copy)]
pub(super) struct Needs {
    ring: Span,
    since: LocalTime,
    newest: Option<Need>,
    reported: Option<Need>,
}

impl Needs {
    /// Timeout of a need. Reports repeat within half a second.
    const TIMEOUT: Span = Span::from_secs(1);

    pub(super) const fn of(ring: Span, since: LocalTime) -> Self {
        Self { ring, since, newest: None, reported: None }
    }

    pub(super) fn set_ring(&mut self, ring: Span) {
        self.ring = ring;
    }

    pub(super) fn forget(&mut self, since: LocalTime) {
        *self = Self::of(self.ring, since);
    }

    /// Longest packet that needs more than the latency.
    pub(super) fn packet(&self) -> Option<Span> {
        self.newest.map(|need| need.packet)
    }
}

impl ReceivePolicy {
    pub(super) fn follow_need(&mut self, status: &StreamStatus) {
        if self.announced.is_some() || status.need == self.needs.newest {
            return;
        }
        self.needs.newest = status.need;
        let Some(need) = status.need else { return };
        self.arrivals.announce(need.packet);
        if self.rule == LatencyRule::Usual && !self.presents() {
            self.link_offset = need.latency.min(self.longest);
        }
    }

    pub(super) fn note_need(&mut self, now: LocalTime) {
        if now - self.needs.since >= Needs::TIMEOUT {
            let note = self.unreported_need();
            self.needs.reported = self.needs.newest;
            note.into_iter().for_each(|note| self.notes.note(note));
        }
    }

    pub(super) fn unreported_need(&self) -> Option<ReceiveNote> {
        let fresh = self.announced.is_none() && self.needs.newest != self.needs.reported;
        let need = self.needs.newest.filter(|_| fresh && !self.rule.is_auto())?;
        if self.presents() {
            let later = tenths(need.latency - self.link_offset);
            return (later > Span::ZERO).then_some(ReceiveNote::PresentedTooSoon(later));
        }
        Some(ReceiveNote::Needs {
            need,
            device: self.needs.ring,
            latency: self.link_offset,
            longest: self.longest,
            rule: self.rule,
        })
    }
}
