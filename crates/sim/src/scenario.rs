//! Parameters of a world: hosts with cards and clocks, and paths.

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
    pub name: Option<HostClock>,
    pub card: CardModel,
    pub pace: Option<ClockId>,
    pub card_events: Vec<(TrueTime, ClockEvent)>,
    pub freezes: Option<Holds>,
    /// Freezes, in order and not overlapping.
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
    /// Plays inaudibly before.
    pub silent_until: TrueTime,
    pub there: PathModel,
    /// Second network, on which every packet is sent too.
    pub also_there: Option<PathModel>,
    pub back: PathModel,
    pub ends: Option<(TrueTime, ReceiverEnd)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiverEnd {
    Goodbye,
    Killed,
}

#[derive(Debug, Clone)]
pub struct RealSound {
    pub samples: Arc<[f32]>,
    pub encoders: fn(&StreamFormat) -> Vec<Box<dyn Encode>>,
    pub decoder: MakeDecoder,
}

pub(crate) const OTHER_CHANNELS: f32 = 0.25;

#[derive(Debug, Clone)]
pub struct Scenario {
    pub network: &'static str,
    pub seed: u64,
    /// L24, so that frame values are unique, or a substitute for Opus with the same packet lengths.
    pub format: StreamFormat,
    pub sound: Option<RealSound>,
    pub latency: Span,
    pub promises: LatencyRule,
    pub redundancy: Redundancy,
    /// Without redundancy until an audible loss.
    pub repairs_after_loss: bool,
    /// Time after departure within which a packet may be repaired. Zero means the default.
    pub budget: Span,
    pub sender: HostModel,
    pub receivers: Vec<ReceiverModel>,
    /// Other programs' packets carry no capture and departure times.
    pub stamps: bool,
    pub reports: bool,
    pub faults: Vec<(TrueTime, SenderFault)>,
    pub intruder: Option<Intruder>,
    /// Share of late packets for an automatic latency, which starts at `latency`.
    pub auto: Option<LossTarget>,
    /// Maximum automatic latency. `None`: as much as the buffer holds.
    pub auto_max: Option<Span>,
    pub adapts: Option<CodingLimits>,
    /// Whether the sender probes the path MTU before long datagrams.
    pub probes_path: bool,
    /// Without an announcement, the receiver raises the latency to the packets' need.
    pub unannounced: bool,
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

    /// 10 ms latency and two receivers. Their clocks run 100 ppm apart, their cards 200 ppm apart
    /// the other way.
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

    /// `receivers` programs on the sender's machine, whose clock is 37 ppm fast. Their cards share
    /// one clock, off by `ppm`, and start within `span`, at least 1 s after the sender.
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
        let mut at = |from: Span, maximum: Span| {
            TrueTime::ZERO.after(from + Span::from_nanos(rng.i64(0..maximum.as_nanos())))
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

    pub fn call(coding: Coding, packet: Frames, path: PathModel, seed: u64) -> Self {
        let Coding { sample, codec } = coding;
        let maximum = Span::from_millis(250);
        Self {
            format: StreamFormat {
                rate: Rate::HZ_48000,
                channels: Channels::STEREO,
                sample,
                codec,
                packet,
                payload_type: StreamFormat::usual_payload_type(sample, codec),
            },
            latency: Span::from_millis(60),
            promises: LatencyRule::Auto { maximum: Some(maximum) },
            auto: Some(LossTarget::DEFAULT),
            auto_max: Some(maximum),
            ..Self::one_way(path, seed)
        }
    }

    /// One receiver, 1 ms mono packets at 48 kHz, 5 ms latency, the same path both ways, no other
    /// faults.
    pub fn one_way(path: PathModel, seed: u64) -> Self {
        let sample = SampleFormat::L24;
        let format = StreamFormat {
            codec: None,
            rate: Rate::HZ_48000,
            channels: Channels::MONO,
            sample,
            packet: Frames::new(48),
            payload_type: StreamFormat::default_payload_type(sample),
        };
        let (there, back) = (path.clone(), path);
        let (host, joins) = (HostModel::IDEAL, TrueTime::ZERO);
        let receiver = ReceiverModel {
            host,
            joins,
            silent_until: joins,
            there,
            also_there: None,
            back,
            ends: None,
        };
        Self {
            network: "a path of its own",
            seed,
            format,
            sound: None,
            latency: Span::from_millis(5),
            promises: LatencyRule::Usual,
            redundancy: Redundancy::Off,
            repairs_after_loss: false,
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
