//! Latency of a stream: where it comes from, and its minimum.
//!
//! A latency is a link offset: the time from a frame at the capturing converter to the same frame
//! at the playing converter.

use crate::device::Settings;
use crate::stream::StreamFormat;
use crate::time::{Frames, Span};
use crate::unannounced::tenths;

/// Rule that determines the latency of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LatencyRule {
    /// Default. A sender promises [`usual_latency`]. A receiver uses the latency that its sender
    /// promises.
    #[default]
    Usual,
    /// Configured value.
    Chosen(Span),
    /// The arrivals of packets determine the latency. A receiver uses the latency that they need. A
    /// sender promises the highest latency that a receiver requests.
    Auto {
        /// Maximum latency, after which packets are late. If the path delay itself exceeds it, the
        /// maximum is higher (`crate::target_delay::Depth::set_max`). `None` means all that the
        /// buffer has room for.
        most: Option<Span>,
    },
}

impl LatencyRule {
    /// Automatic, limited by the buffer only.
    pub const AUTO: Self = Self::Auto { most: None };

    /// Buffer room for automatic latency: sufficient for a satellite path and Wi-Fi.
    const MAX_AUTO: Span = Span::from_millis(400);
    /// Buffer room if packets of a sender without an announcement raise the latency: four 20 ms
    /// packets that arrive together.
    const MAX_UNANNOUNCED: Span = Span::from_millis(100);

    /// Maximum latency for which a receiver reserves room, with this initial `link_offset`.
    pub fn room(self, link_offset: Span) -> Span {
        match self {
            Self::Chosen(_) => link_offset,
            Self::Usual => link_offset.max(Self::MAX_UNANNOUNCED),
            Self::Auto { most } => link_offset.max(Self::MAX_AUTO).max(most.unwrap_or(Span::ZERO)),
        }
    }

    /// Whether packet arrivals determine the latency.
    pub const fn is_auto(self) -> bool {
        matches!(self, Self::Auto { .. })
    }

    /// Configured maximum of an automatic latency.
    pub const fn most(self) -> Option<Span> {
        match self {
            Self::Auto { most } => most,
            Self::Chosen(_) | Self::Usual => None,
        }
    }
}

/// Minimum latency of a receiver. A packet is up to `packing_age` old at departure. A block is
/// written one device ring before its last frame plays.
pub fn min_latency(packing_age: Span, device: &Settings) -> Span {
    let ring = device.period.count() * i64::from(device.periods);
    packing_age + device.rate.span_of(Frames::new(ring))
}

/// Default promise.
pub const DEFAULT_LATENCY: Span = Span::from_millis(5);
/// Time for the network, and for the receiver's period and wake-up, in a default latency.
const SPARE: Span = Span::from_millis(4);

/// Default promise for this format and device period.
pub fn usual_latency(format: &StreamFormat, period: Frames) -> Span {
    DEFAULT_LATENCY.max(format.packing_age(period) + SPARE)
}

/// Like [`usual_latency`], for short cycles of a JACK or PipeWire graph. It is sufficient for a
/// receiver in a similar graph, which then need not raise the latency. The receiver's card is part
/// of its latency but unknown to the sender, so a common card is assumed. The result is longer only
/// for cycles so short that other receivers lose hardly more than 2 ms.
pub fn usual_latency_in_graph(format: &StreamFormat, cycle: Frames) -> Span {
    let (usual, ring) = (usual_latency(format, cycle), Frames::new(GRAPH_RING * cycle.count()));
    match format.rate.span_of(ring) {
        ring if ring <= DEFAULT_LATENCY => kept_latency(usual, format.packing_age(cycle) + ring),
        _ => usual,
    }
}

/// Cycles from writing a block to the end of its playback: the cycle that it fills and two at the
/// card. This is the default of `jackd`.
const GRAPH_RING: i64 = 3;

/// Returns the latency to use: the promised one, or the minimum sufficient one if this device needs
/// more.
pub fn kept_latency(promised: Span, least: Span) -> Span {
    if leaves_no_transit(promised, least) { enough_latency(least) } else { promised }
}

/// Whether a latency leaves no time for the network. `least` is the minimum without a network
/// ([`min_latency`]).
pub(crate) fn leaves_no_transit(latency: Span, least: Span) -> bool {
    latency < least + MIN_WAY
}

/// Minimum sufficient latency if `least` leaves no time for the network. In steps of 0.1 ms.
pub fn enough_latency(least: Span) -> Span {
    tenths(least + WAY)
}

/// Time for two wake-ups and a wired network. With less, JACK at 64 frames had 100 % late packets
/// at the worst phase, and 1.3 % with 0.1 ms more.
const MIN_WAY: Span = Span::from_micros(250);
/// Time for the network if the device uses up the promised latency. It is ten times that of a wired
/// network, and not audible as an echo.
const WAY: Span = Span::from_millis(1);

/// Time for the network if packets are repaired.
const REPAIR_SPARE: Span = Span::from_millis(1);

/// Minimum latency that leaves `budget` for repairs above `least` ([`min_latency`]).
pub fn repair_latency(least: Span, budget: Span) -> Span {
    least + REPAIR_SPARE + budget
}

/// Time that `latency` leaves for repairs. 0 or negative if it is too short.
pub fn repair_time(least: Span, latency: Span) -> Span {
    latency - least - REPAIR_SPARE
}

#[cfg(test)]
mod tests {
    use tautline_dsp::format::SampleFormat;

    use super::*;
    use crate::units::{Channels, Rate};

    /// Returns three latencies for packets of about 1 ms in a graph at `hertz`: the promise for its
    /// cycles, the promise for another device, and the minimum of a receiver in such a graph.
    fn in_graph(hertz: u32, cycle: i64) -> [Span; 3] {
        let rate = Rate::new(hertz).unwrap();
        let packet = rate.frames_within(Span::from_millis(1));
        let (channels, sample) = (Channels::STEREO, SampleFormat::L24);
        let format = StreamFormat { coder: None, rate, channels, sample, packet, payload_type: 97 };
        let period = Frames::new(cycle);
        let device = Settings { rate, channels, period, periods: 3 };
        [
            usual_latency_in_graph(&format, period),
            usual_latency(&format, period),
            min_latency(format.packing_age(period), &device),
        ]
    }

    #[test]
    fn what_a_graph_of_short_cycles_promises_another_of_them_keeps() {
        for hertz in [44_100, 48_000, 88_200, 96_000, 192_000] {
            // Three of these cycles last at most 5 ms.
            for cycle in (16..=hertz / 600).step_by(16) {
                let [promised, usual, least] = in_graph(hertz, i64::from(cycle));
                assert_eq!(kept_latency(promised, least), promised, "{cycle} frames at {hertz}");
                let most = usual + Span::from_micros(2_100);
                assert!(promised <= most, "{promised} for {cycle} frames at {hertz}");
            }
        }
        assert_eq!(in_graph(48_000, 64)[0], Span::from_millis(7));
        assert_eq!(in_graph(48_000, 48)[0], DEFAULT_LATENCY);
    }

    #[test]
    fn long_cycles_of_a_graph_cost_other_receivers_nothing() {
        for (hertz, cycle) in [(44_100, 96), (48_000, 128), (48_000, 1024), (96_000, 256)] {
            let [promised, usual, _] = in_graph(hertz, cycle);
            assert_eq!(promised, usual, "{cycle} frames at {hertz}");
        }
    }
}
