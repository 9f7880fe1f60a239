//! Latency that packets need without an announcement.

#[cfg(test)]
mod tests;

use crate::time::{LocalTime, Span};

/// Sufficient latency and its reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Capture to presentation.
    pub latency: Span,
    /// Longest packet: age of its first frame at departure.
    pub packet: Span,
    /// Delay of the slowest packets, relative to the fastest.
    pub apart: Span,
}

/// Late packets in quick succession.
#[derive(Debug, Clone, Copy)]
struct LateRun {
    began: LocalTime,
    /// Maximum transit.
    transit: Span,
}

/// Measures one sender. Real-time safe: a few comparisons per packet.
#[derive(Debug, Clone)]
pub struct Unannounced {
    takes: Span,
    packet: Span,
    occasions: [Option<LateRun>; Self::OFTEN],
}

impl Unannounced {
    /// Network time: ten times the time in a wired network.
    const WAY: Span = Span::from_millis(1);
    /// Late runs that show a repetition. A host freeze happens once.
    const OFTEN: usize = 3;
    /// Maximum duration of a late run. Packets delayed together arrive together.
    const TOGETHER: Span = Span::from_millis(25);
    /// Time after which late runs expire.
    const MEMORY: Span = Span::from_secs(2);

    /// `takes` is the maximum time from arrival to DAC.
    pub const fn new(takes: Span) -> Self {
        Self { takes, packet: Span::ZERO, occasions: [None; Self::OFTEN] }
    }

    pub(crate) fn set_takes(&mut self, takes: Span) {
        *self = Self::new(takes);
    }

    /// Restarts for another sender.
    pub fn forget(&mut self) {
        *self = Self::new(self.takes);
    }

    /// Discards late runs that the network did not cause.
    pub(crate) const fn forget_late(&mut self) {
        self.occasions = [None; Self::OFTEN];
    }

    /// Adds a packet's length. Returns the need if it exceeds `kept`.
    pub(crate) fn observe_length(&mut self, length: Span, kept: Span) -> Option<Need> {
        if length <= self.packet {
            return None;
        }
        self.packet = length;
        let minimum = length + self.takes;
        (kept < minimum).then(|| self.need(minimum + Self::WAY, Span::ZERO))
    }

    /// Adds a late packet with its transit. Returns the need after repeated lateness.
    pub(crate) fn observe_late(
        &mut self,
        arrival: LocalTime,
        transit: Span,
        kept: Span,
    ) -> Option<Need> {
        // In time, but the device stalled.
        if transit + self.takes + Self::WAY <= kept {
            return None;
        }
        self.enter(arrival, transit);
        let oldest = self.occasions[Self::OFTEN - 1]?;
        if arrival - oldest.began > Self::MEMORY {
            return None;
        }
        let slowest = self.occasions.iter().flatten().map(|occasion| occasion.transit).max()?;
        self.occasions = [None; Self::OFTEN];
        let apart = (slowest - self.packet).max(Span::ZERO);
        // Margin for slower packets.
        let spare = Self::WAY.max(apart.divided(4));
        Some(self.need((slowest + self.takes).max(kept) + spare, apart))
    }

    fn enter(&mut self, arrival: LocalTime, transit: Span) {
        match &mut self.occasions[0] {
            Some(newest) if arrival - newest.began < Self::TOGETHER => {
                newest.transit = newest.transit.max(transit);
            }
            _ => {
                self.occasions.rotate_right(1);
                self.occasions[0] = Some(LateRun { began: arrival, transit });
            }
        }
    }

    fn need(&self, latency: Span, apart: Span) -> Need {
        Need { latency: tenths(latency), packet: self.packet, apart: tenths(apart) }
    }
}

/// Rounds up to 0.1 ms.
pub fn tenths(span: Span) -> Span {
    const TENTH: i64 = 100_000;
    Span::from_nanos(span.as_nanos().saturating_add(TENTH - 1).div_euclid(TENTH) * TENTH)
}
