//! Whom a stream comes from: one sender that takes the place of another, and strangers that do not.

use super::{ReceiveContext, ReceiveNote, ReceivePolicy};
use crate::endpoint::Author;
use crate::jitter_buffer::{ReceiveCommand, StreamStatus};
use crate::wire::rtcp::Announcement;

/// Strangers that are named; a flood of them is one matter.
const MOST_STRANGERS: usize = 4;

impl ReceivePolicy {
    /// Whether what `ssrc` says is of the stream that is heard or still sounds, or may be before one
    /// is. Another that follows is asked what it said as its first packet comes.
    pub(super) fn concerns(&self, ssrc: u32) -> bool {
        let sounds = self.heard.filter(|_| self.recent.sounds(self.link_offset));
        sounds.is_none_or(|heard| heard == ssrc)
    }

    /// Another sender took the place of the one heard, or that one is heard again: what others said
    /// holds no more.
    pub(super) fn follow_source(
        &mut self,
        status: &StreamStatus,
        context: &mut ReceiveContext<'_>,
    ) {
        let before = self.recent.is_lively();
        self.recent.look(status.counters.received, status.at);
        let again = self.recent.is_lively() && !before;
        let heard = status.receiving.map(|receiving| receiving.ssrc);
        let guards = !self.left || self.recent.sounds(self.link_offset);
        if let Some(session) = &mut context.session {
            session.set_heard(heard.filter(|_| guards).map(|ssrc| (ssrc, status.endpoints)));
        }
        let another = heard != self.heard;
        if another {
            (self.heard, self.heard_since) = (heard, status.at);
            // What another announced; where there is no room, the next report mends that.
            let was_contradicted = self.watch.forget();
            if self.refusal.take().is_some() || was_contradicted {
                (context.command)(ReceiveCommand::Mute(false));
            }
            self.clock = None;
            // What another said of its presentation is no word of this one.
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

    /// Goes by what the sender that is heard said last, be it before its first packet.
    fn recall(&mut self, status: &StreamStatus, context: &mut ReceiveContext<'_>) {
        let (Some(ssrc), Some(first)) = (self.heard, status.endpoints.first()) else { return };
        let Some(session) = &context.session else { return };
        let (mapping, announcement) = (session.mapping(ssrc), session.announcement(ssrc));
        let author = Author { ssrc, host: first.host() };
        // First, so that the clock of its card is known with the mapping.
        if let Some(announcement) = announcement {
            self.heed(author, announcement, context);
        }
        if let Some(mapping) = mapping {
            self.clock = Some(mapping);
            // Where there is no room for it, the next report brings it again.
            (context.command)(ReceiveCommand::Clock(author, mapping));
        }
    }

    /// Follows what a sender announces, if that is news.
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

    /// Says who sends packets under the name of the sender that is heard, from elsewhere.
    pub(super) fn note_stranger(&mut self, status: &StreamStatus) {
        let Some(stranger) = status.stranger.filter(|stranger| stranger.poses) else { return };
        let (Some(ssrc), Some(own)) = (self.heard, status.endpoints.first()) else { return };
        let other = stranger.from.host();
        if self.strangers.contains(&other) || self.strangers.len() == MOST_STRANGERS {
            return;
        }
        self.strangers.push(other);
        self.notes.note(ReceiveNote::Posing { ssrc, sender: own.host(), other });
    }
}
