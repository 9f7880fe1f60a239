//! Peers of a session.

use super::Session;
use crate::clock::{Choice, ClockEstimator, ClockMapping};
use crate::endpoint::Author;
use crate::time::LocalTime;
use crate::wire::ntp::CompactNtp;
use crate::wire::rtcp::Announcement;

/// Maximum peers, against floods. Unproven and silent peers are dropped first.
const MAX_PEERS: usize = 64;

#[derive(Debug, Clone)]
pub(super) struct Peer {
    pub(super) author: Author,
    pub(super) received: LocalTime,
    pub(super) clock: ClockEstimator,
    pub(super) choice: Choice,
    pub(super) mapping: Option<ClockMapping>,
    pub(super) announcement: Option<Announcement>,
    pub(super) question: Option<(CompactNtp, LocalTime)>,
    pub(super) report: Option<(CompactNtp, LocalTime)>,
    pub(super) hurried: u32,
    pub(super) proven: bool,
}

pub(super) fn remember(
    peers: &mut Vec<Peer>,
    same: impl Fn(&Peer) -> bool,
    author: Author,
    received: LocalTime,
) -> &mut Peer {
    let known = peers.iter().position(same);
    let index = known.unwrap_or_else(|| {
        if peers.len() >= MAX_PEERS {
            let worth = |peer: &Peer| {
                (peer.proven && received - peer.received < Session::FORGOTTEN, peer.received)
            };
            let minimum = peers.iter().enumerate().min_by_key(|(_, peer)| worth(peer));
            let minimum = minimum.map_or(0, |(index, _)| index);
            peers.swap_remove(minimum);
        }
        peers.push(Peer {
            author,
            received,
            clock: ClockEstimator::new(),
            choice: Choice::default(),
            mapping: None,
            announcement: None,
            question: None,
            report: None,
            hurried: 0,
            proven: false,
        });
        peers.len() - 1
    });
    peers[index].received = received;
    &mut peers[index]
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Hurry {
    since: LocalTime,
    answers: u32,
}

impl Hurry {
    /// Maximum answers per interval: at most 64 per second.
    const MAX: u32 = 32;

    pub(super) const fn new() -> Self {
        Self { since: LocalTime::ZERO, answers: 0 }
    }

    pub(super) fn allows(&mut self, now: LocalTime) -> bool {
        if (now - self.since).abs() >= Session::INTERVAL {
            *self = Self { since: now, answers: 0 };
        }
        self.answers += 1;
        self.answers <= Self::MAX
    }
}
