//! Latency of a stream: link offset from the capturing converter to the playing converter.

use std::fmt;

use crate::device::{Settings, TimestampSource};
use crate::stream::StreamFormat;
use crate::time::{Frames, Span};
use crate::unannounced::tenths;

/// Rule for the latency of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LatencyRule {
    /// A sender promises [`usual_latency`]; a receiver uses the promise.
    #[default]
    Usual,
    /// Configured.
    Chosen(Span),
    /// Packet arrivals determine the latency. A sender promises the maximum that its receivers
    /// request.
    Auto {
        /// Maximum, which a longer path delay raises. `None`: limited by the buffer.
        maximum: Option<Span>,
    },
}

impl LatencyRule {
    /// Limited by the buffer only.
    pub const AUTO: Self = Self::Auto { maximum: None };

    /// Buffer room for automatic latency, for a satellite path and Wi-Fi.
    const MAX_AUTO: Span = Span::from_millis(400);
    /// Buffer room without an announcement: four 20 ms packets that arrive together.
    const MAX_UNANNOUNCED: Span = Span::from_millis(100);

    /// Latency for which a receiver reserves room.
    pub fn room(self, link_offset: Span) -> Span {
        match self {
            Self::Chosen(_) => link_offset,
            Self::Usual => link_offset.max(Self::MAX_UNANNOUNCED),
            Self::Auto { maximum } => {
                link_offset.max(Self::MAX_AUTO).max(maximum.unwrap_or(Span::ZERO))
            }
        }
    }

    /// Whether packet arrivals determine the latency.
    pub const fn is_auto(self) -> bool {
        matches!(self, Self::Auto { .. })
    }

    /// Configured maximum.
    pub const fn maximum(self) -> Option<Span> {
        match self {
            Self::Auto { maximum } => maximum,
            Self::Chosen(_) | Self::Usual => None,
        }
    }
}

tautline_dsp::named_enum! {
    /// How the end of a reported latency is known.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum LatencyMethod {
        /// Scheduled: the device has no converter.
        Due = "due",
        /// As reported by the device.
        Device = "device",
        /// Found in the played sound.
        Sound = "sound",
    }
}

impl From<TimestampSource> for LatencyMethod {
    fn from(source: TimestampSource) -> Self {
        match source {
            TimestampSource::Device => Self::Device,
            TimestampSource::Due => Self::Due,
        }
    }
}

/// Latency that packets, device and network need. Messages report the parts and their sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencySum {
    /// Age of a packet's first sample at departure.
    pub packing_age: Span,
    /// From arrival to DAC.
    pub device: Span,
}

impl LatencySum {
    /// Minimum latency of a device whose ring is full.
    pub fn of(packing_age: Span, device: &Settings) -> Self {
        Self { packing_age, device: min_latency(Span::ZERO, device) }
    }

    /// Shorter latencies are rejected.
    pub fn without_network(&self) -> Span {
        self.packing_age + self.device
    }

    /// Network time included, as [`enough_latency`].
    pub fn total(&self) -> Span {
        enough_latency(self.without_network())
    }

    /// Whether `latency` leaves too little for the network.
    pub fn is_beyond(&self, latency: Span) -> bool {
        leaves_no_transit(latency, self.without_network())
    }
}

/// The parts in whole microseconds, so that the printed numbers add up.
impl fmt::Display for LatencySum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = |span: Span| Span::from_micros((span.as_nanos() + 500).div_euclid(1_000));
        let (packets, device) = (micros(self.packing_age), micros(self.device));
        let total = self.total();
        let network = total - packets - device;
        write!(f, "packets {packets} + device {device} + network {network} = {total}")
    }
}

/// Minimum latency of a receiver: packet age at departure, plus one device ring.
pub fn min_latency(packing_age: Span, device: &Settings) -> Span {
    let ring = device.period.count() * i64::from(device.periods);
    packing_age + device.rate.span_of(Frames::new(ring))
}

/// Default promise.
pub const DEFAULT_LATENCY: Span = Span::from_millis(5);
/// Time for network, period and wake-up.
const SPARE: Span = Span::from_millis(4);

/// Default promise.
pub fn usual_latency(format: &StreamFormat, period: Frames) -> Span {
    DEFAULT_LATENCY.max(format.packing_age(period) + SPARE)
}

/// Like [`usual_latency`], for short cycles of a JACK or PipeWire graph. Sufficient for a receiver
/// in a similar graph.
pub fn usual_latency_in_graph(format: &StreamFormat, cycle: Frames) -> Span {
    let (usual, ring) = (usual_latency(format, cycle), Frames::new(GRAPH_RING * cycle.count()));
    match format.rate.span_of(ring) {
        ring if ring <= DEFAULT_LATENCY => kept_latency(usual, format.packing_age(cycle) + ring),
        _ => usual,
    }
}

/// Cycles of a graph's ring: one to fill and two at the card, the default of `jackd`.
const GRAPH_RING: i64 = 3;

/// Maximum of the promise and this device's minimum.
pub fn kept_latency(promised: Span, minimum: Span) -> Span {
    if leaves_no_transit(promised, minimum) { enough_latency(minimum) } else { promised }
}

pub(crate) fn leaves_no_transit(latency: Span, minimum: Span) -> bool {
    latency < minimum + MIN_WAY
}

/// Minimum latency if `minimum` leaves no time for the network. In steps of 0.1 ms.
pub fn enough_latency(minimum: Span) -> Span {
    tenths(minimum + WAY)
}

/// Minimum network time: two wake-ups and a wired network. With a shorter time, JACK at 64 frames
/// had 100 % late packets at the worst phase.
const MIN_WAY: Span = Span::from_micros(250);
/// Network time if the device uses up the promise: ten times the time in a wired network.
pub(crate) const WAY: Span = Span::from_millis(1);

/// Network time with repairs.
const REPAIR_SPARE: Span = Span::from_millis(1);

/// Minimum latency with `budget` for repairs; `minimum` is [`min_latency`].
pub fn repair_latency(minimum: Span, budget: Span) -> Span {
    minimum + REPAIR_SPARE + budget
}

/// Repair time at `latency`. Not positive if too short.
pub fn repair_time(minimum: Span, latency: Span) -> Span {
    latency - minimum - REPAIR_SPARE
}

/// Default part of [`repair_time`] behind a `path` of this one-way time: at least one packet, as far
/// as the latency leaves it. A third is for jitter, and for devices of receivers that take longer
/// than the sender's: the last copy repairs nothing if it is late.
pub fn default_repair_time(leaves: Span, path: Span, ptime: Span) -> Span {
    Span::from_nanos((leaves - path).as_nanos() / 3 * 2).max(leaves.min(ptime))
}

#[cfg(test)]
mod tests {
    use tautline_dsp::format::SampleFormat;

    use super::*;
    use crate::text::parse_span;
    use crate::units::{Channels, Rate};

    /// 1 ms packets at `hertz`: promises for a graph and for another device, and a graph's minimum.
    fn in_graph(hertz: u32, cycle: i64) -> [Span; 3] {
        let rate = Rate::new(hertz).unwrap();
        let packet = rate.frames_within(Span::from_millis(1));
        let (channels, sample) = (Channels::STEREO, SampleFormat::L24);
        let format = StreamFormat { codec: None, rate, channels, sample, packet, payload_type: 97 };
        let period = Frames::new(cycle);
        let device = Settings { rate, channels, period, periods: 3 };
        [
            usual_latency_in_graph(&format, period),
            usual_latency(&format, period),
            min_latency(format.packing_age(period), &device),
        ]
    }

    #[test]
    fn printed_parts_of_a_latency_add_up() {
        let printed = |packing_age, device| LatencySum { packing_age, device }.to_string();
        let millis = Span::from_millis;
        assert_eq!(printed(millis(1), millis(2)), "packets 1ms + device 2ms + network 1ms = 4ms");
        for (packet, ring) in [(32, 64), (35, 140), (48, 192), (64, 192)] {
            let [packing_age, device] =
                [packet, ring].map(|frames| Rate::HZ_44100.span_of(Frames::new(frames)));
            let printed = printed(packing_age, device);
            let mut numbers = printed.split(' ').filter_map(|word| parse_span(word).ok());
            let sum: Span = numbers.by_ref().take(3).fold(Span::ZERO, |sum, part| sum + part);
            assert_eq!(numbers.next(), Some(sum), "{printed}");
        }
    }

    #[test]
    fn latency_holds_between_graphs_of_short_cycles() {
        for hertz in [44_100, 48_000, 88_200, 96_000, 192_000] {
            // Three of these cycles last at most 5 ms.
            for cycle in (16..=hertz / 600).step_by(16) {
                let [promised, usual, minimum] = in_graph(hertz, i64::from(cycle));
                assert_eq!(kept_latency(promised, minimum), promised, "{cycle} frames at {hertz}");
                let maximum = usual + Span::from_micros(2_100);
                assert!(promised <= maximum, "{promised} for {cycle} frames at {hertz}");
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
