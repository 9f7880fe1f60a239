//! Requests of receivers, and their limits.
//!
//! In a group, receivers and strangers cannot be distinguished: all requests count up to a low
//! limit.

use crate::endpoint::Host;
use crate::redundancy::sizing::{Losses, Sizing, Tally};
use crate::time::{LocalTime, Span};

/// Trust, by the source of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum TrustLevel {
    /// Not trusted.
    #[default]
    Stranger,
    /// Possibly in a destination group.
    Member,
    /// A destination.
    Destination,
}

impl TrustLevel {
    /// Returns the trust in `from`.
    pub fn of(from: Host, destinations: impl IntoIterator<Item = Host>) -> Self {
        let by = |destination: Host| match destination {
            host if host == from => Self::Destination,
            group if group.is_group() => Self::Member,
            _ => Self::Stranger,
        };
        destinations.into_iter().map(by).max().unwrap_or_default()
    }
}

/// Limits of requests; `None` is the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Maximum latency.
    pub latency: Option<Span>,
    /// Maximum symbols per packet.
    pub symbols: Option<u8>,
}

impl Limits {
    /// Default maximum latency, for satellite and Wi-Fi.
    pub const LATENCY: Span = Span::from_millis(400);
    /// Default maximum for a group. It covers Wi-Fi, as any stranger can request it.
    pub const GROUP_LATENCY: Span = Span::from_millis(50);
    /// Default maximum symbols. At 20 % burst loss, more gain nothing within 40 ms (decision 11).
    pub const SYMBOLS: u8 = 8;
    /// Default maximum symbols for a group, as before the first report.
    pub const GROUP_SYMBOLS: u8 = 1;

    /// Maximum latency of a stream.
    pub fn latency(&self, to_group: bool) -> Span {
        self.latency.unwrap_or(if to_group { Self::GROUP_LATENCY } else { Self::LATENCY })
    }

    /// Maximum symbols of a stream.
    pub fn symbols(&self, to_group: bool) -> u8 {
        self.symbols.unwrap_or(if to_group { Self::GROUP_SYMBOLS } else { Self::SYMBOLS })
    }
}

/// Requests of one receiver.
#[derive(Debug, Clone, Copy, Default)]
pub struct Request {
    worth: TrustLevel,
    /// Needed latency, and the time of the request.
    needs: Option<(Span, LocalTime)>,
    longest: Option<Span>,
    sizing: Sizing,
    losses_reported: Option<LocalTime>,
}

impl Request {
    /// Time after which requests expire: ten reports.
    const FORGOTTEN: Span = Span::from_secs(5);

    /// Trust in the receiver.
    pub const fn worth(&self) -> TrustLevel {
        self.worth
    }

    pub(crate) fn set_worth(&mut self, worth: TrustLevel) {
        self.worth = worth;
    }

    /// Sets the needed latency.
    pub fn need(&mut self, needed: Option<Span>, now: LocalTime) {
        self.needs = needed.map(|needed| (needed, now));
        self.longest = self.longest.max(needed);
    }

    /// Sets the missed packets.
    pub fn miss(&mut self, tally: Tally, now: LocalTime) {
        self.sizing.observe(now, tally);
        self.losses_reported = Some(now);
    }

    /// Withdraws the requests.
    pub fn leave(&mut self) {
        *self = Self { worth: self.worth, longest: self.longest, ..Self::default() };
    }

    /// Maximum latency ever requested.
    pub const fn longest(&self) -> Option<Span> {
        self.longest
    }

    /// Requested latency, if trusted.
    pub fn needs(&self, now: LocalTime) -> Option<Span> {
        let holds = |(_, said): &(Span, LocalTime)| now - *said < Self::FORGOTTEN;
        self.needs.filter(holds).filter(|_| self.counts()).map(|(needed, _)| needed)
    }

    /// Reported losses, if trusted.
    pub fn losses(&self, now: LocalTime) -> Option<Losses> {
        let holds = self.losses_reported.is_some_and(|said| now - said < Self::FORGOTTEN);
        (holds && self.counts()).then(|| self.sizing.losses())
    }

    fn counts(&self) -> bool {
        self.worth > TrustLevel::Stranger
    }
}

pub(super) fn latency<'a>(
    requests: impl IntoIterator<Item = &'a Request>,
    limit: Span,
    now: LocalTime,
) -> Option<Span> {
    requests
        .into_iter()
        .filter_map(|request| request.needs(now))
        .max()
        .map(|needed| needed.min(limit))
}

pub(super) fn losses<'a>(
    requests: impl IntoIterator<Item = &'a Request>,
    now: LocalTime,
) -> Losses {
    let reported = requests.into_iter().filter_map(|request| request.losses(now));
    reported.reduce(Losses::worse).unwrap_or(Losses::UNKNOWN)
}

#[cfg(test)]
mod tests;
