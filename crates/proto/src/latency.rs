//! Who says what the latency of a stream is, and what a latency has to hold.
//!
//! A latency is a link offset: from the instant at which a frame met the capturing converter to the
//! one at which it meets the playing converter.

use crate::device::Settings;
use crate::stream::StreamFormat;
use crate::time::{Frames, Span};
use crate::unannounced::tenths;

/// Who says what the latency of a stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LatencyRule {
    /// Nobody here: a sender promises what is usual ([`usual_latency`]), a receiver keeps what its
    /// sender promises.
    #[default]
    Usual,
    /// Whoever configured it.
    Chosen(Span),
    /// The packets: a receiver keeps what their arrivals ask for, and a sender promises what the
    /// receiver asks for that needs the most.
    Auto {
        /// No more than this, unless the way itself takes longer (`crate::target_delay::Depth::set_most`): what comes later is
        /// late, and is not waited for. Nothing is as much as there is room for.
        most: Option<Span>,
    },
}

impl LatencyRule {
    /// The packets say it, within what there is room for.
    pub const AUTO: Self = Self::Auto { most: None };

    /// Room for a latency that follows the packets: by way of a satellite and Wi-Fi.
    const MOST_AUTO: Span = Span::from_millis(400);
    /// The same for one that packets raise whose sender announces nothing: packets of 20 ms, four at a
    /// time.
    const MOST_UNANNOUNCED: Span = Span::from_millis(100);

    /// The longest latency that a receiver is given room for that begins with `link_offset`.
    pub fn room(self, link_offset: Span) -> Span {
        match self {
            Self::Chosen(_) => link_offset,
            Self::Usual => link_offset.max(Self::MOST_UNANNOUNCED),
            Self::Auto { most } => link_offset.max(Self::MOST_AUTO).max(most.unwrap_or(Span::ZERO)),
        }
    }

    /// Whether the packets say it.
    pub const fn is_auto(self) -> bool {
        matches!(self, Self::Auto { .. })
    }

    /// What it does not go beyond where the packets say it, if anybody said so.
    pub const fn most(self) -> Option<Span> {
        match self {
            Self::Auto { most } => most,
            Self::Chosen(_) | Self::Usual => None,
        }
    }
}

/// The least latency at which a receiver can play: a packet is up to `packing_age` old when it
/// leaves, and a block is written one ring of the device before its last frame is heard.
pub fn least_latency(packing_age: Span, device: &Settings) -> Span {
    let ring = device.period.count() * i64::from(device.periods);
    packing_age + device.rate.span_of(Frames::new(ring))
}

/// What is promised where nobody says otherwise.
pub const DEFAULT_LATENCY: Span = Span::from_millis(5);
/// Left for the network, a receiver's period and its wake-up where the latency is not chosen.
const SPARE: Span = Span::from_millis(4);

/// What is promised of such packets from a device with this period where nobody says otherwise.
pub fn usual_latency(format: &StreamFormat, period: Frames) -> Span {
    DEFAULT_LATENCY.max(format.packing_age(period) + SPARE)
}

/// [`usual_latency`] of what comes from a graph, of JACK or PipeWire, in short cycles: what a receiver in
/// another graph of such cycles makes of that, so that it has nothing to raise. Its card is in its
/// latency, which a sender does not hear of, so one that takes the usual time is reckoned with; and cycles
/// are short while that costs receivers whose device takes less hardly more than 2 ms.
pub fn usual_latency_in_graph(format: &StreamFormat, cycle: Frames) -> Span {
    let (usual, ring) = (usual_latency(format, cycle), Frames::new(GRAPH_RING * cycle.count()));
    match format.rate.span_of(ring) {
        ring if ring <= DEFAULT_LATENCY => kept_latency(usual, format.packing_age(cycle) + ring),
        _ => usual,
    }
}

/// Cycles that a block is written before its end is heard: the one it fills, and two to the card, as
/// with `jackd` where nothing else is asked for.
const GRAPH_RING: i64 = 3;

/// The latency that is kept where a sender promises one: that, or, where the device here takes too
/// long for it, the least that will do.
pub fn kept_latency(promised: Span, least: Span) -> Span {
    if leaves_no_transit(promised, least) { enough_latency(least) } else { promised }
}

/// Whether a latency has no time for the way, where `least` is possible without any
/// ([`least_latency`]): packets are late then.
pub(crate) fn leaves_no_transit(latency: Span, least: Span) -> bool {
    latency < least + LEAST_WAY
}

/// The least latency that will do, where `least` is possible without any time for the way; in tenths
/// of a millisecond.
pub fn enough_latency(least: Span) -> Span {
    tenths(least + WAY)
}

/// Two wake-ups and a wired network take so long, mostly: with less, JACK at 64 frames had 100 % of its
/// packets late at the worst phase, and 0.1 ms more was too little for 1.3 %.
const LEAST_WAY: Span = Span::from_micros(250);
/// Left for the network where a device leaves nothing of what was promised: ten times what a wired
/// one takes, and less than is heard as an echo.
const WAY: Span = Span::from_millis(1);

/// Left for the network, where packets are repaired in what a latency leaves.
const REPAIR_SPARE: Span = Span::from_millis(1);

/// The least latency that leaves `budget` for repairs beside what is `least` without any
/// ([`least_latency`]).
pub fn repair_latency(least: Span, budget: Span) -> Span {
    least + REPAIR_SPARE + budget
}

/// What `latency` leaves for repairs; nothing, or less, if it is too short for any.
pub fn repair_time(least: Span, latency: Span) -> Span {
    latency - least - REPAIR_SPARE
}

#[cfg(test)]
mod tests {
    use tautline_dsp::format::SampleFormat;

    use super::*;
    use crate::units::{Channels, Rate};

    /// Packets of a millisecond, or as near as whole frames come, in a graph at `hertz`: what is promised
    /// of such cycles, what is promised of any other device, and the least of a receiver in such a graph.
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
            least_latency(format.packing_age(period), &device),
        ]
    }

    #[test]
    fn what_a_graph_of_short_cycles_promises_another_of_them_keeps() {
        for hertz in [44_100, 48_000, 88_200, 96_000, 192_000] {
            // Three of them last 5 ms at most.
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
