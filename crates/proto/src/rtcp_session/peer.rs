//! The other hosts of a session: bounded, whoever invents more.

use super::Session;
use crate::clock::{Choice, ClockEstimator, ClockMapping};
use crate::endpoint::Author;
use crate::time::LocalTime;
use crate::wire::ntp::CompactNtp;
use crate::wire::rtcp::Announcement;

/// Peers remembered; the one unheard longest makes room, first of those that never answered.
/// Bounds memory against a flood.
const MOST_PEERS: usize = 64;

#[derive(Debug, Clone)]
pub(super) struct Peer {
    pub(super) author: Author,
    pub(super) heard: LocalTime,
    pub(super) clock: ClockEstimator,
    /// Which mapping of its clock is used.
    pub(super) choice: Choice,
    /// The mapping that was told last.
    pub(super) mapping: Option<ClockMapping>,
    /// What it announced last.
    pub(super) announcement: Option<Announcement>,
    /// Its last question and when it came.
    pub(super) question: Option<(CompactNtp, LocalTime)>,
    /// Its last sender report and when it came.
    pub(super) report: Option<(CompactNtp, LocalTime)>,
    /// How often it was answered at once instead of at the next interval.
    pub(super) hurried: u32,
    /// Whether it ever answered a question of ours, so that it is no invention.
    pub(super) proven: bool,
}

/// Finds the peer that is this `author`, the `same` as one that is known, or makes room for it.
pub(super) fn remember(
    peers: &mut Vec<Peer>,
    same: impl Fn(&Peer) -> bool,
    author: Author,
    heard: LocalTime,
) -> &mut Peer {
    let known = peers.iter().position(same);
    let index = known.unwrap_or_else(|| {
        if peers.len() >= MOST_PEERS {
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

/// How many questions were answered at once, whoever asked, since when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hurry {
    since: LocalTime,
    answers: u32,
}

impl Hurry {
    /// Questions answered at once in one interval, whoever asked: a crowd or a flood of strangers
    /// gets its answers at most at 64 a second, not each with a report of its own.
    const MOST: u32 = 32;

    pub(super) const fn new() -> Self {
        Self { since: LocalTime::ZERO, answers: 0 }
    }

    pub(super) fn allows(&mut self, now: LocalTime) -> bool {
        if (now - self.since).abs() >= Session::INTERVAL {
            *self = Self { since: now, answers: 0 };
        }
        self.answers += 1;
        self.answers <= Self::MOST
    }
}
