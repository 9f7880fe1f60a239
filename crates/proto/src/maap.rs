//! Claims the address of a group for a talker that was given none (MAAP, IEEE 1722-2016 annex B).
//!
//! The claimant picks one at random and asks four times whether it is taken; whoever has it says so, and of two
//! that ask at once the one with the greater address of its own picks another. What nobody objects to it has:
//! it says so every half minute and to everybody who asks for it.

use crate::time::{LocalTime, Span};
use crate::wire::avtp::maap::{GROUP, GroupRange, MaapKind, MaapMessage, POOL};

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimEvent {
    /// The address is the claimant's.
    Claimed([u8; 6]),
    /// It was, and another has it too who has more right to it: the claimant looks for another.
    Lost {
        /// The address.
        address: [u8; 6],
        /// Who has it now.
        to: [u8; 6],
    },
}

/// A claim to one address.
#[derive(Debug, Clone)]
pub struct AddressClaim {
    own: [u8; 6],
    random: u64,
    address: [u8; 6],
    state: State,
    /// When the next probe or announcement is due.
    due: LocalTime,
    /// To whom defences are owed, and of what.
    owed: [Option<([u8; 6], GroupRange)>; Self::OWED],
    /// What is to be told, oldest first: a loss, and what followed.
    events: [Option<ClaimEvent>; 2],
    /// Addresses in a row that somebody had.
    taken: u32,
}

/// States of annex B (§B.3.1), but for the first, which takes no time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Asks: so many probes are left.
    Probe(u8),
    Defend,
}

impl AddressClaim {
    /// `MAAP_PROBE_RETRANSMITS` (table B.8): probes after the first.
    const PROBES_AGAIN: u8 = 3;
    /// `MAAP_PROBE_INTERVAL_BASE` and `MAAP_PROBE_INTERVAL_VARIATION` (table B.8).
    const PROBE_INTERVAL: (Span, Span) = (Span::from_millis(500), Span::from_millis(100));
    /// `MAAP_ANNOUNCE_INTERVAL_BASE` and `MAAP_ANNOUNCE_INTERVAL_VARIATION` (table B.8).
    const ANNOUNCE_INTERVAL: (Span, Span) = (Span::from_secs(30), Span::from_secs(2));

    /// So many addresses are asked for at once, one after the other; then there is a pause before each, as somebody may
    /// defend whatever he is asked for (RFC 3927 §9, `MAX_CONFLICTS`).
    const MOST_TAKEN: u32 = 10;

    /// Hosts that may ask before anything is said: with so many addresses two rarely pick the same, and who gets no
    /// answer asks again (`MAAP_PROBE_RETRANSMITS`).
    const OWED: usize = 4;

    /// Begins for the talker whose own address is `own`. What it picks follows from the seed.
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

    /// The address that is asked for, or held.
    pub const fn address(&self) -> [u8; 6] {
        self.address
    }

    /// When [`Self::poll`] has something to say, if nobody says anything before.
    pub const fn deadline(&self) -> LocalTime {
        self.due
    }

    /// Takes what the host with the address `from` said.
    pub fn handle(&mut self, message: &MaapMessage, from: [u8; 6], now: LocalTime) {
        // A network may bring back what was said here.
        if from == self.own {
            return;
        }
        // A defence names what of the addresses asked for is taken.
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
                if self.taken >= Self::MOST_TAKEN {
                    self.wait(now, Self::PROBE_INTERVAL);
                }
            }
            (State::Defend, _) if self.precedes(from) => {}
            (State::Defend, _) => {
                self.tell(ClaimEvent::Lost { address: self.address, to: from });
                self.pick(now);
            }
        }
    }

    /// What is to be sent now, and where to. Ask until there is nothing more.
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
                self.tell(ClaimEvent::Claimed(self.address));
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

    /// What became of the claim, once.
    pub fn poll_event(&mut self) -> Option<ClaimEvent> {
        let [first, second] = &mut self.events;
        core::mem::replace(first, second.take())
    }

    /// What was to be said could not be: nobody was asked, so the claimant asks anew from the first probe on, or says
    /// a little later what it has.
    pub fn unsaid(&mut self, now: LocalTime) {
        if let State::Probe(left) = &mut self.state {
            *left = 1 + Self::PROBES_AGAIN;
        }
        self.wait(now, Self::PROBE_INTERVAL);
    }

    /// Whoever asks again before he was answered is owed one answer, to what he asked last.
    fn owe(&mut self, to: [u8; 6], requested: GroupRange) {
        let asked = self.owed.iter().position(|owed| owed.is_some_and(|(who, _)| who == to));
        let free = || self.owed.iter().position(Option::is_none);
        if let Some(place) = asked.or_else(free) {
            self.owed[place] = Some((to, requested));
        }
    }

    fn tell(&mut self, event: ClaimEvent) {
        let [first, second] = &mut self.events;
        *(if first.is_none() { first } else { second }) = Some(event);
    }

    /// Asks for an address of those that are given away, another than before, from the first probe on.
    fn pick(&mut self, now: LocalTime) {
        let before = self.address;
        while self.address == before {
            self.address = POOL.at(self.draw(POOL.count.into()) as u16);
        }
        (self.state, self.due) = (State::Probe(1 + Self::PROBES_AGAIN), now);
        self.owed = [None; Self::OWED];
    }

    /// Whether this talker's own address comes before the other's, compared from the last byte on
    /// (`compare_MAC`, §B.3.6.4): bytes that tell hosts of one maker apart stand last.
    fn precedes(&self, other: [u8; 6]) -> bool {
        self.own.iter().rev().lt(other.iter().rev())
    }

    /// The next is due after the interval, longer by a share of the variation that is neither none nor all of it
    /// (§B.3.4).
    fn wait(&mut self, now: LocalTime, (base, variation): (Span, Span)) {
        let within = variation.as_nanos().unsigned_abs() - 1;
        self.due = now + base + Span::from_nanos(1 + self.draw(within) as i64);
    }

    /// A number below `below`, by SplitMix64 (Steele, Lea and Flood 2014): what is asked of it is that hosts
    /// with different seeds draw differently.
    fn draw(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % below.max(1)
    }
}

#[cfg(test)]
mod tests;
