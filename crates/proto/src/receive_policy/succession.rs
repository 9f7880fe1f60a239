//! Which sender follows another.

use super::{ReceiveContext, ReceiveNote, ReceivePolicy};
use crate::endpoint::Author;
use crate::jitter_buffer::{ReceiveCommand, StreamStatus};
use crate::wire::rtcp::Announcement;

const MAX_STRANGERS: usize = 4;

impl ReceivePolicy {
    /// Whether messages of `ssrc` apply, even before its first packet. A successor's messages apply
    /// when its packets arrive.
    pub(super) fn concerns(&self, ssrc: u32) -> bool {
        let sounds = self.received.filter(|_| self.recent.sounds(self.link_offset));
        sounds.is_none_or(|received| received == ssrc)
    }

    pub(super) fn follow_source(
        &mut self,
        status: &StreamStatus,
        context: &mut ReceiveContext<'_>,
    ) {
        let before = self.recent.is_lively();
        self.recent.look(status.counters.received, status.at);
        let again = self.recent.is_lively() && !before;
        let received = status.receiving.map(|receiving| receiving.ssrc);
        let guards = !self.left || self.recent.sounds(self.link_offset);
        if let Some(session) = &mut context.session {
            session.set_received(received.filter(|_| guards).map(|ssrc| (ssrc, status.endpoints)));
        }
        let another = received != self.received;
        if another {
            (self.received, self.received_since) = (received, status.at);
            // If the queue is full, the next report corrects it.
            let was_contradicted = self.watch.forget();
            if self.refusal.take().is_some() || was_contradicted {
                (context.command)(ReceiveCommand::Mute(false));
            }
            self.clock = None;
            if self.announced.take().is_some() && self.presents() {
                (context.command)(ReceiveCommand::PresentedAfter(None));
            }
            self.needs.forget(status.at);
            self.arrivals.forget();
        }
        if another || again {
            self.recall(status, context);
        }
    }

    /// Applies the source's last messages, including early messages.
    fn recall(&mut self, status: &StreamStatus, context: &mut ReceiveContext<'_>) {
        let (Some(ssrc), Some(first)) = (self.received, status.endpoints.first()) else { return };
        let Some(session) = &context.session else { return };
        let (mapping, announcement) = (session.mapping(ssrc), session.announcement(ssrc));
        let author = Author { ssrc, host: first.host() };
        // Announcement first: the mapping needs the card's clock.
        if let Some(announcement) = announcement {
            self.heed(author, announcement, context);
        }
        if let Some(mapping) = mapping {
            self.clock = Some(mapping);
            // If the queue is full, the next report repeats it.
            (context.command)(ReceiveCommand::Clock(author, mapping));
        }
    }

    pub(super) fn heed(
        &mut self,
        author: Author,
        announcement: Announcement,
        context: &mut ReceiveContext<'_>,
    ) {
        if self.announced != Some(announcement) {
            let after = announcement.link_offset;
            let followed = self.keep_promise(announcement, context)
                && (!self.presents()
                    || (context.command)(ReceiveCommand::PresentedAfter(Some(after))))
                && (context.command)(ReceiveCommand::Announced(
                    author.ssrc,
                    announcement.wants_feedback,
                ))
                && (context.command)(ReceiveCommand::Card(author, announcement.card));
            self.announced = followed.then_some(announcement);
        }
    }

    pub(super) fn note_stranger(&mut self, status: &StreamStatus) {
        let Some(stranger) = status.stranger.filter(|stranger| stranger.poses) else { return };
        let (Some(ssrc), Some(own)) = (self.received, status.endpoints.first()) else { return };
        let other = stranger.from.host();
        if self.strangers.contains(&other) || self.strangers.len() == MAX_STRANGERS {
            return;
        }
        self.strangers.push(other);
        self.notes.note(ReceiveNote::Posing { ssrc, sender: own.host(), other });
    }
}
