//! Latency that packets need if their sender announces none. The first packet shows their length;
//! late packets show the jitter.

#[cfg(test)]
mod tests;

use crate::time::{LocalTime, Span};

/// Latency that is sufficient for the packets seen, with its reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Delay from capture to presentation.
    pub latency: Span,
    /// Duration of the longest packet, which is the age of its first frame at departure.
    pub packet: Span,
    /// Delay of the slowest packets that are not given up, relative to the fastest.
    pub apart: Span,
}

/// Late packets in quick succession.
#[derive(Debug, Clone, Copy)]
struct LateRun {
    began: LocalTime,
    /// Maximum transit time of these packets.
    transit: Span,
}

/// Measures the packets of one sender. For the device thread: a few comparisons per packet.
#[derive(Debug, Clone)]
pub struct Unannounced {
    /// Maximum time from a packet's arrival to its first frame at the DAC: the device ring and the
    /// resampler's look-ahead.
    takes: Span,
    packet: Span,
    occasions: [Option<LateRun>; Self::OFTEN],
}

impl Unannounced {
    /// Time for the network: ten times that of a wired network. Also the possible playout error if
    /// arrivals determine positions ([`crate::placement::Due::tolerance`]).
    const WAY: Span = Span::from_millis(1);
    /// Number of late runs that shows a repetition. A host freeze or a full queue happens once.
    const OFTEN: usize = 3;
    /// Maximum time between late packets of one run. Packets that are delayed together arrive
    /// together.
    const TOGETHER: Span = Span::from_millis(25);
    /// Late runs expire after this time.
    const MEMORY: Span = Span::from_secs(2);

    /// Creates a measurement without packets. `takes` is the maximum time from a packet's arrival
    /// to its first frame at the DAC.
    pub const fn new(takes: Span) -> Self {
        Self { takes, packet: Span::ZERO, occasions: [None; Self::OFTEN] }
    }

    /// Sets the device's actual time and restarts the measurement.
    pub(crate) fn set_takes(&mut self, takes: Span) {
        *self = Self::new(takes);
    }

    /// Restarts the measurement for another sender.
    pub fn forget(&mut self) {
        *self = Self::new(self.takes);
    }

    /// Discards all late runs, because the network did not cause them.
    pub(crate) const fn forget_late(&mut self) {
        self.occasions = [None; Self::OFTEN];
    }

    /// Adds the length of a packet before it is placed `kept` after its capture. Returns the need
    /// if it rises above `kept`.
    pub(crate) fn observe_length(&mut self, length: Span, kept: Span) -> Option<Need> {
        if length <= self.packet {
            return None;
        }
        self.packet = length;
        let least = length + self.takes;
        (kept < least).then(|| self.need(least + Self::WAY, Span::ZERO))
    }

    /// Adds a packet that was late at a latency of `kept`, with its transit time
    /// ([`crate::ledger::PacketTrace::transit`]). Returns the need after repeated lateness.
    pub(crate) fn observe_late(
        &mut self,
        arrival: LocalTime,
        transit: Span,
        kept: Span,
    ) -> Option<Need> {
        // The packet arrived in time but was late because the device stalled.
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
        // Add a margin for packets that are even slower.
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

/// Rounds up to 0.1 ms, for display.
pub fn tenths(span: Span) -> Span {
    const TENTH: i64 = 100_000;
    Span::from_nanos(span.as_nanos().saturating_add(TENTH - 1).div_euclid(TENTH) * TENTH)
}
