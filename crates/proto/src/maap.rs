//! Claims a multicast address (MAAP, IEEE 1722-2016 annex B). The claimant probes a random address
//! four times, then announces it every half minute. Of two probers, the greater own address yields.

use crate::time::{LocalTime, Span};
use crate::wire::avtp::maap::{GROUP, GroupRange, MaapKind, MaapMessage, POOL};

/// Event of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimEvent {
    /// The address is claimed.
    Claimed([u8; 6]),
    /// The address is lost to an owner with priority; the claimant picks another address.
    Lost {
        /// Lost address.
        address: [u8; 6],
        /// New owner.
        to: [u8; 6],
    },
}

/// Claim to one address.
#[derive(Debug, Clone)]
pub struct AddressClaim {
    own: [u8; 6],
    random: u64,
    address: [u8; 6],
    state: State,
    due: LocalTime,
    owed: [Option<([u8; 6], GroupRange)>; Self::OWED],
    events: [Option<ClaimEvent>; 2],
    taken: u32,
}

/// States of §B.3.1, except the first, which takes no time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Probes left.
    Probe(u8),
    Defend,
}

impl AddressClaim {
    /// `MAAP_PROBE_RETRANSMITS` (table B.8).
    const PROBES_AGAIN: u8 = 3;
    /// `MAAP_PROBE_INTERVAL_BASE` and `_VARIATION` (table B.8).
    const PROBE_INTERVAL: (Span, Span) = (Span::from_millis(500), Span::from_millis(100));
    /// `MAAP_ANNOUNCE_INTERVAL_BASE` and `_VARIATION` (table B.8).
    const ANNOUNCE_INTERVAL: (Span, Span) = (Span::from_secs(30), Span::from_secs(2));

    /// Addresses to try without pauses (RFC 3927 §9, `MAX_CONFLICTS`).
    const MAX_TAKEN: u32 = 10;

    /// Maximum pending defences; probes are repeated (`MAAP_PROBE_RETRANSMITS`).
    const OWED: usize = 4;

    /// Starts a claim for the talker `own`; `seed` determines the picks.
    pub fn new(own: [u8; 6], seed: u64, now: LocalTime) -> Self {
        let mut claim = Self {
            own,
            random: seed,
            address: [0; 6],
            state: State::Probe(0),
            due: now,
            owed: [None; Self::OWED],
            events: [None; 2],
            taken: 0,
        };
        claim.pick(now);
        claim
    }

    /// Address being probed or claimed.
    pub const fn address(&self) -> [u8; 6] {
        self.address
    }

    /// Next time to call [`Self::poll`].
    pub const fn deadline(&self) -> LocalTime {
        self.due
    }

    /// Handles a message from `from`.
    pub fn handle(&mut self, message: &MaapMessage, from: [u8; 6], now: LocalTime) {
        // Our own message, looped back.
        if from == self.own {
            return;
        }
        let taken = match message.kind {
            MaapKind::Defend if message.conflict.count > 0 => message.conflict,
            _ => message.requested,
        };
        if taken.shared_with(&GroupRange::only(self.address)).is_none() {
            return;
        }
        match (self.state, message.kind) {
            (State::Defend, MaapKind::Probe) => self.owe(from, message.requested),
            (State::Probe(_), MaapKind::Probe) if self.precedes(from) => {}
            (State::Probe(_), _) => {
                self.pick(now);
                self.taken += 1;
                if self.taken >= Self::MAX_TAKEN {
                    self.wait(now, Self::PROBE_INTERVAL);
                }
            }
            (State::Defend, _) if self.precedes(from) => {}
            (State::Defend, _) => {
                self.notify(ClaimEvent::Lost { address: self.address, to: from });
                self.pick(now);
            }
        }
    }

    /// Next message and its destination. Call until `None`.
    pub fn poll(&mut self, now: LocalTime) -> Option<([u8; 6], MaapMessage)> {
        let own = GroupRange::only(self.address);
        if let Some((to, requested)) = self.owed.iter_mut().find_map(Option::take) {
            let conflict = own.shared_with(&requested).unwrap_or(own);
            return Some((to, MaapMessage { kind: MaapKind::Defend, requested, conflict }));
        }
        if now < self.due {
            return None;
        }
        let kind = match self.state {
            State::Probe(left @ 1..) => {
                self.state = State::Probe(left - 1);
                self.wait(now, Self::PROBE_INTERVAL);
                MaapKind::Probe
            }
            State::Probe(0) => {
                (self.state, self.taken) = (State::Defend, 0);
                self.notify(ClaimEvent::Claimed(self.address));
                self.wait(now, Self::ANNOUNCE_INTERVAL);
                MaapKind::Announce
            }
            State::Defend => {
                self.wait(now, Self::ANNOUNCE_INTERVAL);
                MaapKind::Announce
            }
        };
        Some((GROUP, MaapMessage::about(kind, own)))
    }

    /// Next event.
    pub fn poll_event(&mut self) -> Option<ClaimEvent> {
        let [first, second] = &mut self.events;
        core::mem::replace(first, second.take())
    }

    /// Handles a send failure: restarts the probes, or repeats the announcement.
    pub fn unsaid(&mut self, now: LocalTime) {
        if let State::Probe(left) = &mut self.state {
            *left = 1 + Self::PROBES_AGAIN;
        }
        self.wait(now, Self::PROBE_INTERVAL);
    }

    /// One answer per host, to its last probe.
    fn owe(&mut self, to: [u8; 6], range: GroupRange) {
        let requested = self.owed.iter().position(|owed| owed.is_some_and(|(who, _)| who == to));
        let free = || self.owed.iter().position(Option::is_none);
        if let Some(place) = requested.or_else(free) {
            self.owed[place] = Some((to, range));
        }
    }

    fn notify(&mut self, event: ClaimEvent) {
        let [first, second] = &mut self.events;
        *(if first.is_none() { first } else { second }) = Some(event);
    }

    fn pick(&mut self, now: LocalTime) {
        let before = self.address;
        while self.address == before {
            self.address = POOL.at(self.draw(POOL.count.into()) as u16);
        }
        (self.state, self.due) = (State::Probe(1 + Self::PROBES_AGAIN), now);
        self.owed = [None; Self::OWED];
    }

    /// Whether our address precedes the other address, compared from the last byte (`compare_MAC`,
    /// §B.3.6.4).
    fn precedes(&self, other: [u8; 6]) -> bool {
        self.own.iter().rev().lt(other.iter().rev())
    }

    /// Interval plus a random part of the variation, without its ends (§B.3.4).
    fn wait(&mut self, now: LocalTime, (base, variation): (Span, Span)) {
        let within = variation.as_nanos().unsigned_abs() - 1;
        self.due = now + base + Span::from_nanos(1 + self.draw(within) as i64);
    }

    /// SplitMix64 (Steele, Lea and Flood 2014).
    fn draw(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % below.max(1)
    }
}

#[cfg(test)]
mod tests;
