//! Parameters of a world: hosts, their cards and clocks, and the paths between them.

use std::sync::Arc;

use tautline_dsp::format::SampleFormat;
use tautline_proto::clock::{ClockId, HostClock};
use tautline_proto::codec::{Encode, MakeDecoder};
use tautline_proto::congestion::CodingLimits;
use tautline_proto::latency::LatencyRule;
use tautline_proto::redundancy::Redundancy;
use tautline_proto::stream::{Coding, StreamFormat};
use tautline_proto::target_delay::LossTarget;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Ppm, Rate};

use crate::card::CardModel;
use crate::clock::{ClockError, ClockEvent, TrueTime};
use crate::fault::{Intruder, SenderFault};
use crate::link::{Holds, PathModel};
use crate::preset::Preset;

#[derive(Debug, Clone, PartialEq)]
pub struct HostModel {
    pub clock: ClockError,
    pub events: Vec<(TrueTime, ClockEvent)>,
    /// Name of that clock. Hosts on one machine share it.
    pub name: Option<HostClock>,
    pub card: CardModel,
    /// Name of the clock that drives the card.
    pub pace: Option<ClockId>,
    pub card_events: Vec<(TrueTime, ClockEvent)>,
    pub freezes: Option<Holds>,
    /// Freezes at chosen times: start and end, in order and not overlapping.
    pub stopped: Vec<(TrueTime, TrueTime)>,
}

impl HostModel {
    pub const IDEAL: Self = Self {
        clock: ClockError::NONE,
        events: Vec::new(),
        name: None,
        card: CardModel::IDEAL,
        pace: None,
        card_events: Vec::new(),
        freezes: None,
        stopped: Vec::new(),
    };

    pub fn with_card(card: CardModel) -> Self {
        Self { card, ..Self::IDEAL }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ReceiverModel {
    pub host: HostModel,
    pub joins: TrueTime,
    pub there: PathModel,
    /// Path over a second network, on which every packet is sent too.
    pub also_there: Option<PathModel>,
    pub back: PathModel,
    pub ends: Option<(TrueTime, ReceiverEnd)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiverEnd {
    Goodbye,
    Killed,
}

/// Sound for real codecs, instead of frames with unique values.
#[derive(Debug, Clone)]
pub struct RealSound {
    /// Samples that every channel captures, repeated.
    pub samples: Arc<[f32]>,
    pub encoders: fn(&StreamFormat) -> Vec<Box<dyn Encode>>,
    pub decoder: MakeDecoder,
}

/// Value of all channels except the first.
pub(crate) const OTHER_CHANNELS: f32 = 0.25;

#[derive(Debug, Clone)]
pub struct Scenario {
    pub network: &'static str,
    pub seed: u64,
    /// Format of the sent stream: L24, so that each frame has a unique value, or a substitute for
    /// Opus. Its packets are as long as those of Opus and contain the unique values.
    pub format: StreamFormat,
    pub sound: Option<RealSound>,
    pub latency: Span,
    pub promises: LatencyRule,
    /// Requested redundancy: data of earlier packets in each packet.
    pub redundancy: Redundancy,
    /// Time after the departure of a packet within which it may be repaired. Zero means the
    /// default.
    pub budget: Span,
    pub sender: HostModel,
    pub receivers: Vec<ReceiverModel>,
    /// Whether packets carry the times of capture and departure. Packets of other programs do not.
    pub stamps: bool,
    pub reports: bool,
    pub faults: Vec<(TrueTime, SenderFault)>,
    pub intruder: Option<Intruder>,
    /// Whether the latency follows the arrivals of packets, with this share of late packets. It
    /// begins with `latency`.
    pub auto: Option<LossTarget>,
    /// Maximum of such a latency. `None` means all that there is room for.
    pub auto_max: Option<Span>,
    /// Limits within which the sender adapts to the path.
    pub adapts: Option<CodingLimits>,
    /// Whether the sender probes the path before it sends long datagrams.
    pub probes_path: bool,
    /// Whether the receiver gets no announcement, and raises the latency to what packets need.
    pub unannounced: bool,
    /// Whether a stall monitor reports to the receivers when their whole host stood still.
    pub stall_monitor: bool,
}

impl Scenario {
    pub fn on(preset: Preset, seed: u64) -> Self {
        Self { network: preset.name(), ..Self::one_way(preset.path(), seed) }
    }

    pub fn drifting(preset: Preset, ppm: f64, seed: u64) -> Self {
        let mut scenario = Self { latency: preset.suits(), ..Self::on(preset, seed) };
        scenario.receivers[0].host = HostModel::with_card(CardModel::off_by(ppm));
        scenario
    }

    /// A stream on a preset network, 10 ms after capture, to two receivers. The clocks of their
    /// hosts run 100 ppm apart. Their cards run 200 ppm apart, in the opposite direction.
    pub fn two_apart(preset: Preset, seed: u64) -> Self {
        let mut scenario = Self { latency: Span::from_millis(10), ..Self::on(preset, seed) };
        let one = scenario.receivers[0].clone();
        let receiver = |(start, clock, card): (i64, f64, f64)| {
            let clock = ClockError::quartz(LocalTime::from_nanos(start), clock);
            let host = HostModel { clock, ..HostModel::with_card(CardModel::off_by(card)) };
            ReceiverModel { host, ..one.clone() }
        };
        let two = [(7_000_000_000, 50.0, -100.0), (123_456_789, -50.0, 100.0)];
        scenario.receivers = two.map(receiver).to_vec();
        scenario
    }

    /// A stream on a preset network, with a suitable latency, to `receivers` programs on the
    /// sender's machine, whose clock is 37 ppm fast. Their cards share one clock that is off by
    /// `ppm`, but each has a start of its own. They start within `span`, at least one second after
    /// the sender.
    pub fn one_clock(preset: Preset, ppm: f64, receivers: usize, span: Span, seed: u64) -> Self {
        let mut scenario = Self { latency: preset.suits(), ..Self::on(preset, seed) };
        let name = HostClock::of(b"one machine");
        let host = HostModel {
            clock: ClockError {
                start: LocalTime::from_nanos(99_000_000_000),
                rate: Ppm::from_f64(37.0),
                ..ClockError::NONE
            },
            name: Some(name),
            pace: Some(name.id().with(&[b"the cards"])),
            ..HostModel::with_card(CardModel::off_by(ppm))
        };
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut at = |from: Span, most: Span| {
            TrueTime::ZERO.after(from + Span::from_nanos(rng.i64(0..most.as_nanos())))
        };
        let (one, frame) =
            (scenario.receivers[0].clone(), scenario.format.rate.span_of(Frames::new(1)));
        let receiver = |_| {
            let begins = ClockEvent::Step(at(Span::ZERO, frame).since(TrueTime::ZERO));
            let host = HostModel { card_events: vec![(TrueTime::ZERO, begins)], ..host.clone() };
            ReceiverModel { host, joins: at(Span::from_secs(1), span), ..one.clone() }
        };
        scenario.receivers = (0..receivers).map(receiver).collect();
        scenario.sender = host.clone();
        scenario
    }

    /// One direction of a stereo call at 48 kHz with an automatic latency. It starts with this
    /// coding, in packets of this many frames.
    pub fn call(coding: Coding, packet: Frames, path: PathModel, seed: u64) -> Self {
        let Coding { sample, coder } = coding;
        let most = Span::from_millis(250);
        Self {
            format: StreamFormat {
                rate: Rate::HZ_48000,
                channels: Channels::STEREO,
                sample,
                coder,
                packet,
                payload_type: StreamFormat::usual_payload_type(sample, coder),
            },
            latency: Span::from_millis(60),
            promises: LatencyRule::Auto { most: Some(most) },
            auto: Some(LossTarget::DEFAULT),
            auto_max: Some(most),
            ..Self::one_way(path, seed)
        }
    }

    /// A stream to one receiver at the end of a path that is equal in both directions, in 1 ms
    /// packets with one channel at 48 kHz, 5 ms after capture. There are no other faults.
    pub fn one_way(path: PathModel, seed: u64) -> Self {
        let sample = SampleFormat::L24;
        let format = StreamFormat {
            coder: None,
            rate: Rate::HZ_48000,
            channels: Channels::MONO,
            sample,
            packet: Frames::new(48),
            payload_type: StreamFormat::default_payload_type(sample),
        };
        let (there, back) = (path.clone(), path);
        let (host, joins) = (HostModel::IDEAL, TrueTime::ZERO);
        let receiver = ReceiverModel { host, joins, there, also_there: None, back, ends: None };
        Self {
            network: "a path of its own",
            seed,
            format,
            sound: None,
            latency: Span::from_millis(5),
            promises: LatencyRule::Usual,
            redundancy: Redundancy::Off,
            budget: Span::ZERO,
            sender: HostModel::IDEAL,
            receivers: vec![receiver],
            stamps: true,
            reports: true,
            faults: Vec::new(),
            intruder: None,
            auto: None,
            auto_max: None,
            adapts: None,
            probes_path: false,
            unannounced: false,
            stall_monitor: true,
        }
    }
}
