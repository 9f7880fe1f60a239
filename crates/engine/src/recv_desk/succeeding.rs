//! Whom a stream comes from: one sender that takes the place of another, and strangers that do not.

use tautline_proto::device::Settings;
use tautline_proto::endpoint::Author;
use tautline_proto::wire::rtcp::Announcement;

use super::Desk;
use crate::run::Watch;
use crate::rx::{Command, RxStatus};

impl Desk {
    /// Another sender took the place of the one heard, or that one is heard again: what others said
    /// holds no more.
    pub(super) fn follow_source(
        &mut self,
        status: &RxStatus,
        device: &Settings,
        watch: &mut Watch,
    ) {
        let before = self.recent.is_lively();
        self.recent.look(status.counters.received, status.at);
        let again = self.recent.is_lively() && !before;
        let heard = status.receiving.map(|receiving| receiving.ssrc);
        let guards = !self.left || self.recent.sounds(self.link_offset);
        let guarded = heard.filter(|_| guards).map(|ssrc| (ssrc, status.ways));
        self.talk.session.set_heard(guarded);
        let another = heard != self.heard;
        if another {
            (self.heard, self.heard_since) = (heard, status.at);
            // What another announced; the ring may be full, and the next report mends that.
            if self.refusal.take().is_some() {
                let _ = self.commands.push(Command::Mute(false));
            }
            self.books.clock = None;
            self.announced = None;
            self.needs.forget(status.at);
            self.arrivals.forget();
        }
        if another || again {
            self.recall(status, device, watch);
        }
    }

    /// Goes by what the sender that is heard said last, be it before its first packet.
    fn recall(&mut self, status: &RxStatus, device: &Settings, watch: &mut Watch) {
        let (Some(ssrc), Some(first)) = (self.heard, status.ways.first()) else { return };
        let session = &self.talk.session;
        let (mapping, announcement) = (session.mapping(ssrc), session.announcement(ssrc));
        let author = Author { ssrc, host: first.host() };
        // First, so that the clock of its card is known with the mapping.
        if let Some(announcement) = announcement {
            self.heed((author, announcement), device, watch);
        }
        if let Some(mapping) = mapping {
            self.books.clock = Some(mapping);
            // Where the ring is full, the next report brings it again.
            let _ = self.commands.push(Command::Clock(author, mapping));
        }
    }

    /// Follows what a sender announces, if that is news.
    pub(super) fn heed(
        &mut self,
        (author, announcement): (Author, Announcement),
        device: &Settings,
        watch: &mut Watch,
    ) {
        if self.announced != Some(announcement) {
            let followed = self.follow(announcement, device, watch)
                && self.commands.push(Command::Announced(author.ssrc)).is_ok()
                && self.commands.push(Command::Card(author, announcement.card)).is_ok();
            self.announced = followed.then_some(announcement);
        }
    }

    /// Says who sends packets under the name of the sender that is heard, from elsewhere.
    pub(super) fn note_stranger(&mut self, status: &RxStatus, watch: &mut Watch) {
        let Some(stranger) = status.stranger.filter(|stranger| stranger.poses) else { return };
        let (Some(ssrc), Some(own)) = (self.heard, status.ways.first()) else { return };
        let host = stranger.from.host();
        if self.strangers.contains(&host) || self.strangers.len() == MOST_STRANGERS {
            return;
        }
        self.strangers.push(host);
        watch.note(format!(
            "{}: packets under the name of its sender (SSRC {ssrc:08x}, at {}) come from {host} as \
             well, and are not played: end what sends them there, or keep it off this network",
            self.address,
            own.host()
        ));
    }
}

/// Strangers that are named; a flood of them is one matter.
const MOST_STRANGERS: usize = 4;
