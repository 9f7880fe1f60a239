//! Peers of a session. Their number is limited.

use super::Session;
use crate::clock::{Choice, ClockEstimator, ClockMapping};
use crate::endpoint::Author;
use crate::time::LocalTime;
use crate::wire::ntp::CompactNtp;
use crate::wire::rtcp::Announcement;

/// Maximum number of peers, as a protection against floods. Peers that never answered or no longer
/// report are dropped first. Of these, the one that was silent for the longest time is dropped.
const MAX_PEERS: usize = 64;

#[derive(Debug, Clone)]
pub(super) struct Peer {
    pub(super) author: Author,
    pub(super) heard: LocalTime,
    pub(super) clock: ClockEstimator,
    /// Chooses between the mappings of the peer's clock.
    pub(super) choice: Choice,
    pub(super) mapping: Option<ClockMapping>,
    pub(super) announcement: Option<Announcement>,
    pub(super) question: Option<(CompactNtp, LocalTime)>,
    pub(super) report: Option<(CompactNtp, LocalTime)>,
    /// Number of requests answered at once instead of at the next interval.
    pub(super) hurried: u32,
    /// Whether the peer answered one of our requests, which proves that it exists.
    pub(super) proven: bool,
}

/// Returns the peer for which `same` is true, or adds `author`.
pub(super) fn remember(
    peers: &mut Vec<Peer>,
    same: impl Fn(&Peer) -> bool,
    author: Author,
    heard: LocalTime,
) -> &mut Peer {
    let known = peers.iter().position(same);
    let index = known.unwrap_or_else(|| {
        if peers.len() >= MAX_PEERS {
            let worth =
                |peer: &Peer| (peer.proven && heard - peer.heard < Session::FORGOTTEN, peer.heard);
            let least = peers.iter().enumerate().min_by_key(|(_, peer)| worth(peer));
            let least = least.map_or(0, |(index, _)| index);
            peers.swap_remove(least);
        }
        peers.push(Peer {
            author,
            heard,
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
    peers[index].heard = heard;
    &mut peers[index]
}

/// Rate limit of immediate answers for all peers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hurry {
    since: LocalTime,
    answers: u32,
}

impl Hurry {
    /// Maximum number of immediate answers per interval. A flood gets at most 64 per second.
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
