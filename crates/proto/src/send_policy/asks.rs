//! Requests of receivers: which ones are trusted, and their limits.
//!
//! Any host on the network can send a report. Reports from a destination come from a receiver. In a
//! group, receivers and strangers cannot be distinguished, so all requests count, up to a low
//! limit. No receiver exceeds its limit.

use crate::endpoint::Host;
use crate::redundancy::sizing::{Losses, Sizing, Tally};
use crate::time::{LocalTime, Span};

/// Trust in a receiver, determined by the source of its reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum TrustLevel {
    /// The host is not a destination. It is not trusted.
    #[default]
    Stranger,
    /// The host may be a member of a group that is a destination.
    Member,
    /// The host is a destination.
    Destination,
}

impl TrustLevel {
    /// Returns the trust in the host `from` for these destinations.
    pub fn of(from: Host, destinations: impl IntoIterator<Item = Host>) -> Self {
        let by = |destination: Host| match destination {
            host if host == from => Self::Destination,
            group if group.is_group() => Self::Member,
            _ => Self::Stranger,
        };
        destinations.into_iter().map(by).max().unwrap_or_default()
    }
}

/// Limits of receivers' requests. `None` is the default limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Maximum latency that receivers may request.
    pub latency: Option<Span>,
    /// Maximum symbols per packet that receivers may request.
    pub symbols: Option<u8>,
}

impl Limits {
    /// Default maximum latency: sufficient for a satellite path and Wi-Fi, as for a receiver with
    /// automatic latency.
    pub const LATENCY: Span = Span::from_millis(400);
    /// Default maximum latency for a group: sufficient for Wi-Fi. It is low because any stranger
    /// can request it.
    pub const GROUP_LATENCY: Span = Span::from_millis(50);
    /// Default maximum symbols. At 20 % loss in bursts, more gain nothing within 40 ms (decision
    /// 11).
    pub const SYMBOLS: u8 = 8;
    /// Default maximum symbols for a group: as many as before the first report.
    pub const GROUP_SYMBOLS: u8 = 1;

    /// Returns the maximum latency of a stream, to a group or not.
    pub fn latency(&self, to_group: bool) -> Span {
        self.latency.unwrap_or(if to_group { Self::GROUP_LATENCY } else { Self::LATENCY })
    }

    /// Returns the maximum symbols of a stream, to a group or not.
    pub fn symbols(&self, to_group: bool) -> u8 {
        self.symbols.unwrap_or(if to_group { Self::GROUP_SYMBOLS } else { Self::SYMBOLS })
    }
}

/// Requests of one receiver.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ask {
    worth: TrustLevel,
    /// Needed latency, and the time of the request.
    needs: Option<(Span, LocalTime)>,
    longest: Option<Span>,
    /// Losses, and the time of the last report.
    sizing: Sizing,
    losses_reported: Option<LocalTime>,
}

impl Ask {
    /// Requests expire after this time: ten reports.
    const FORGOTTEN: Span = Span::from_secs(5);

    /// Trust in the receiver.
    pub const fn worth(&self) -> TrustLevel {
        self.worth
    }

    pub(crate) fn set_worth(&mut self, worth: TrustLevel) {
        self.worth = worth;
    }

    /// Sets the latency that the receiver needs, if known.
    pub fn need(&mut self, needed: Option<Span>, now: LocalTime) {
        self.needs = needed.map(|needed| (needed, now));
        self.longest = self.longest.max(needed);
    }

    /// Sets the number of packets that the receiver has missed.
    pub fn miss(&mut self, tally: Tally, now: LocalTime) {
        self.sizing.observe(now, tally);
        self.losses_reported = Some(now);
    }

    /// Withdraws the requests after a goodbye.
    pub fn leave(&mut self) {
        *self = Self { worth: self.worth, longest: self.longest, ..Self::default() };
    }

    /// Maximum latency that was ever requested.
    pub const fn longest(&self) -> Option<Span> {
        self.longest
    }

    /// Returns the requested latency if the receiver is trusted.
    pub fn needs(&self, now: LocalTime) -> Option<Span> {
        let holds = |(_, said): &(Span, LocalTime)| now - *said < Self::FORGOTTEN;
        self.needs.filter(holds).filter(|_| self.counts()).map(|(needed, _)| needed)
    }

    /// Returns the reported losses if the receiver is trusted.
    pub fn losses(&self, now: LocalTime) -> Option<Losses> {
        let holds = self.losses_reported.is_some_and(|said| now - said < Self::FORGOTTEN);
        (holds && self.counts()).then(|| self.sizing.losses())
    }

    fn counts(&self) -> bool {
        self.worth > TrustLevel::Stranger
    }
}

/// Returns the latency that meets all requests, at most `limit`. `None` without requests.
pub(super) fn latency<'a>(
    asks: impl IntoIterator<Item = &'a Ask>,
    limit: Span,
    now: LocalTime,
) -> Option<Span> {
    asks.into_iter().filter_map(|ask| ask.needs(now)).max().map(|needed| needed.min(limit))
}

/// Returns the maximum of the reported losses in each respect.
pub(super) fn losses<'a>(asks: impl IntoIterator<Item = &'a Ask>, now: LocalTime) -> Losses {
    let reported = asks.into_iter().filter_map(|ask| ask.losses(now));
    reported.reduce(Losses::worse).unwrap_or(Losses::UNKNOWN)
}

#[cfg(test)]
mod tests;
