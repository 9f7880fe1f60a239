//! What receivers ask of a sender, and what comes of it: whose word counts, and how far.
//!
//! Anybody on the network can write a report. One that comes from where packets go is a receiver's.
//! In a group nobody can tell receivers from strangers, so there a word counts whoever says it, and
//! moves no more than a limit that is low. No word of any receiver moves more than its limit.

use crate::endpoint::Host;
use crate::redundancy::sizing::{Losses, Sizing, Tally};
use crate::time::{LocalTime, Span};

/// Where a receiver's reports come from, by what its word is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum TrustLevel {
    /// From where no packets go: it is not believed.
    #[default]
    Stranger,
    /// Packets go to a group, which anybody may be in.
    Member,
    /// From where packets go.
    Destination,
}

impl TrustLevel {
    /// That of a host whose reports come `from` there, where packets go to these.
    pub fn of(from: Host, destinations: impl IntoIterator<Item = Host>) -> Self {
        let by = |destination: Host| match destination {
            host if host == from => Self::Destination,
            group if group.is_group() => Self::Member,
            _ => Self::Stranger,
        };
        destinations.into_iter().map(by).max().unwrap_or_default()
    }
}

/// How far receivers can move a sender; `None` is the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// The longest latency that is promised on their word.
    pub latency: Option<Span>,
    /// The most symbols that packets carry on their word.
    pub symbols: Option<u8>,
}

impl Limits {
    /// By way of a satellite and Wi-Fi: as long as a receiver follows its packets.
    pub const LATENCY: Span = Span::from_millis(400);
    /// In a group: what outlasts Wi-Fi, as any stranger may have it.
    pub const GROUP_LATENCY: Span = Span::from_millis(50);
    /// Where a fifth is lost in bursts, more brings nothing within 40 ms (decision 11).
    pub const SYMBOLS: u8 = 8;
    /// In a group: what is carried before anybody has reported.
    pub const GROUP_SYMBOLS: u8 = 1;

    /// The longest latency, of a stream that goes to a group or not.
    pub fn latency(&self, to_group: bool) -> Span {
        self.latency.unwrap_or(if to_group { Self::GROUP_LATENCY } else { Self::LATENCY })
    }

    /// The most symbols, of a stream that goes to a group or not.
    pub fn symbols(&self, to_group: bool) -> u8 {
        self.symbols.unwrap_or(if to_group { Self::GROUP_SYMBOLS } else { Self::SYMBOLS })
    }
}

/// What one receiver asks for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ask {
    worth: TrustLevel,
    /// The latency it needs, and when it said so.
    needs: Option<(Span, LocalTime)>,
    longest: Option<Span>,
    /// What it loses, and when it last said so.
    sizing: Sizing,
    losses_told: Option<LocalTime>,
}

impl Ask {
    /// What a receiver said holds for this long: ten of its reports.
    const FORGOTTEN: Span = Span::from_secs(5);

    /// What its word is worth.
    pub const fn worth(&self) -> TrustLevel {
        self.worth
    }

    pub(crate) fn set_worth(&mut self, worth: TrustLevel) {
        self.worth = worth;
    }

    /// It says which latency it needs, if it knows.
    pub fn need(&mut self, needed: Option<Span>, now: LocalTime) {
        self.needs = needed.map(|needed| (needed, now));
        self.longest = self.longest.max(needed);
    }

    /// It says how many packets did not reach it so far.
    pub fn miss(&mut self, tally: Tally, now: LocalTime) {
        self.sizing.observe(now, tally);
        self.losses_told = Some(now);
    }

    /// It left, and asks for nothing.
    pub fn leave(&mut self) {
        *self = Self { worth: self.worth, longest: self.longest, ..Self::default() };
    }

    /// The longest latency it ever asked for.
    pub const fn longest(&self) -> Option<Span> {
        self.longest
    }

    /// The latency it asks for, if its word counts.
    pub fn needs(&self, now: LocalTime) -> Option<Span> {
        let holds = |(_, said): &(Span, LocalTime)| now - *said < Self::FORGOTTEN;
        self.needs.filter(holds).filter(|_| self.counts()).map(|(needed, _)| needed)
    }

    /// The losses it reports, if its word counts.
    pub fn losses(&self, now: LocalTime) -> Option<Losses> {
        let holds = self.losses_told.is_some_and(|said| now - said < Self::FORGOTTEN);
        (holds && self.counts()).then(|| self.sizing.losses())
    }

    fn counts(&self) -> bool {
        self.worth > TrustLevel::Stranger
    }
}

/// The latency that meets all of these, within `limit`; `None` where none counts.
pub(super) fn latency<'a>(
    asks: impl IntoIterator<Item = &'a Ask>,
    limit: Span,
    now: LocalTime,
) -> Option<Span> {
    asks.into_iter().filter_map(|ask| ask.needs(now)).max().map(|needed| needed.min(limit))
}

/// The losses of the one that loses most, in each respect.
pub(super) fn losses<'a>(asks: impl IntoIterator<Item = &'a Ask>, now: LocalTime) -> Losses {
    let reported = asks.into_iter().filter_map(|ask| ask.losses(now));
    reported.reduce(Losses::worse).unwrap_or(Losses::UNKNOWN)
}

#[cfg(test)]
mod tests;
