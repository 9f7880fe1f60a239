//! What the packets of a sender that announces nothing need of the latency: how long they are is
//! known with the first of them, and what they come apart by shows in those that come late.

#[cfg(test)]
mod tests;

use crate::time::{LocalTime, Span};

/// A latency at which packets like those seen are in time, and why it is so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Capture to presentation.
    pub latency: Span,
    /// Sound in the longest packet: its first frame is so old when it leaves.
    pub packet: Span,
    /// How much later than the fastest the slowest of those came that are to be waited for.
    pub apart: Span,
}

/// Some packets that were late, one soon after the other.
#[derive(Debug, Clone, Copy)]
struct LateRun {
    began: LocalTime,
    /// The longest of their transits.
    transit: Span,
}

/// Measures the packets of one sender. For the device's thread: a few comparisons each.
#[derive(Debug, Clone)]
pub struct Unannounced {
    /// From the arrival of a packet to its first frame at the DAC at most: the device's ring, and
    /// what the resampler looks ahead.
    takes: Span,
    packet: Span,
    occasions: [Option<LateRun>; Self::OFTEN],
}

impl Unannounced {
    /// Left for the network beside what packets and device take: ten times what a wired one needs,
    /// and what the playout may be off by where arrivals place it
    /// ([`crate::placement::Due::tolerance`]).
    const WAY: Span = Span::from_millis(1);
    /// What is late so often is late again. A host that froze, or a queue that filled, is late once.
    const OFTEN: usize = 3;
    /// Packets that were held up together come together: what is late within this time is late once,
    const TOGETHER: Span = Span::from_millis(25);
    /// and what was late before this time has passed.
    const MEMORY: Span = Span::from_secs(2);

    /// Nothing has come yet. The device takes `takes` from the arrival of a packet to its first
    /// frame at the DAC at most.
    pub const fn new(takes: Span) -> Self {
        Self { takes, packet: Span::ZERO, occasions: [None; Self::OFTEN] }
    }

    /// The device takes so long, as it turned out: packets are measured anew.
    pub(crate) fn set_takes(&mut self, takes: Span) {
        *self = Self::new(takes);
    }

    /// Another sender is heard.
    pub fn forget(&mut self) {
        *self = Self::new(self.takes);
    }

    /// What was late so far says nothing of the network.
    pub(crate) const fn forget_late(&mut self) {
        self.occasions = [None; Self::OFTEN];
    }

    /// Takes the length of a packet before it is placed `kept` after its capture. Tells what it
    /// needs where that is more.
    pub(crate) fn observe_length(&mut self, length: Span, kept: Span) -> Option<Need> {
        if length <= self.packet {
            return None;
        }
        self.packet = length;
        let least = length + self.takes;
        (kept < least).then(|| self.need(least + Self::WAY, Span::ZERO))
    }

    /// Takes a packet that came late for a latency of `kept`, with its transit
    /// ([`crate::ledger::PacketTrace::transit`]). Tells what such packets need once they have come
    /// again and again.
    pub(crate) fn observe_late(
        &mut self,
        arrival: LocalTime,
        transit: Span,
        kept: Span,
    ) -> Option<Need> {
        // Whoever came in time and was late here needs a device that does not stand still.
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
        // What was slower than the others is so by as much again now and then.
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

/// Up to whole tenths of a millisecond, for people to read.
pub fn tenths(span: Span) -> Span {
    const TENTH: i64 = 100_000;
    Span::from_nanos(span.as_nanos().saturating_add(TENTH - 1).div_euclid(TENTH) * TENTH)
}
