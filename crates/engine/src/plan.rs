//! What is to be sent or received, and how: everything that is settled before a run.

use std::path::PathBuf;

use tautline_dsp::gain::Gain;
use tautline_dsp::map::ChannelMap;
use tautline_io::control::Control;
use tautline_io::link::Link;
use tautline_io::link::destinations::Outbound;
use tautline_io::thread::Scheduler;
use tautline_proto::asks::Limits;
use tautline_proto::depth::LossTarget;
use tautline_proto::device::Settings;
use tautline_proto::endpoint::Endpoint;
use tautline_proto::packet::Pack;
use tautline_proto::receiver::{Receiver, ReceiverConfig};
use tautline_proto::redundancy::Regulator;
use tautline_proto::sender::Identity;
use tautline_proto::stream::{PTIME_RANGE, StreamFormat};
use tautline_proto::time::{Frames, Span};
use tautline_proto::unannounced::tenths;

use crate::select::Select;

/// Who makes the system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LinkKind {
    /// Direct where a period holds one packet at most, else ringed.
    #[default]
    Auto,
    /// The device's thread.
    Direct,
    /// A wire thread, which spaces the packets of a period.
    Ringed,
}

impl LinkKind {
    /// Whether a wire thread is to be used for packets of this length at this period: then it runs
    /// below the device's thread, which `device` schedules.
    pub fn wire_below(
        self,
        device: Scheduler,
        packet: Frames,
        period: Frames,
    ) -> Option<Scheduler> {
        let ringed = match self {
            Self::Auto => period > packet,
            Self::Direct => false,
            Self::Ringed => true,
        };
        ringed.then_some(device)
    }
}

/// Who says what the latency of a received stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LatencyRule {
    /// Its sender, by what it announces; until then what is configured.
    #[default]
    Sender,
    /// Whoever configured it.
    Chosen,
    /// Its packets: it follows what their arrivals ask for.
    Arrivals,
}

/// What to send and how.
pub struct SendPlan {
    /// As they were given, for the report.
    pub address: String,
    /// Where reports go: the control address of each destination.
    pub reports_to: Vec<Endpoint>,
    /// By what its packets leave.
    pub link: Box<dyn Link>,
    /// What that was opened for.
    pub outbound: Outbound,
    /// By what reports are exchanged; without it nobody says how the stream arrives, nor learns its
    /// sender's clock.
    pub control: Option<Box<dyn Control>>,
    /// How its packets look.
    pub wire: &'static dyn Pack,
    /// What the stream is.
    pub format: StreamFormat,
    /// The latency it promises.
    pub link_offset: Span,
    /// Whether it promises what the receiver asks for that needs the most, as soon as one does.
    pub latency_as_needed: bool,
    /// Whether packets carry the sender's instants.
    pub stamps: bool,
    /// Gain before packing.
    pub gain: Gain,
    /// Device channels to stream channels.
    pub map: ChannelMap,
    /// How the device runs.
    pub device: Settings,
    /// What packets carry of earlier ones.
    pub redundancy: Regulator,
    /// The time in which packets may be repaired, as far as the latency leaves it; `None` is all that
    /// it leaves.
    pub repair_budget: Option<Span>,
    /// How far receivers can move latency and redundancy.
    pub limits: Limits,
    /// Of the stream.
    pub identity: Identity,
    /// Writes the ledger of every packet here.
    pub ledger: Option<PathBuf>,
}

/// One stream to receive.
pub struct StreamPlan {
    /// As it was given, for the report.
    pub address: String,
    /// What it is and how it is to be placed.
    pub receiver: ReceiverConfig,
    /// Who says what its latency is.
    pub latency: LatencyRule,
    /// The share of packets that may come too late for the latency that is advised, or kept where
    /// arrivals say it.
    pub loss_target: LossTarget,
    /// Where its packets arrive.
    pub link: Box<dyn Link>,
    /// By what reports are exchanged, if they are.
    pub control: Option<Box<dyn Control>>,
    /// Its gain in the mix.
    pub gain: Gain,
}

impl StreamPlan {
    /// At a latency that was chosen and a gain of one.
    pub fn new(
        address: String,
        receiver: ReceiverConfig,
        link: Box<dyn Link>,
        control: Option<Box<dyn Control>>,
    ) -> Self {
        let (latency, loss_target) = (LatencyRule::Chosen, LossTarget::DEFAULT);
        Self { address, receiver, latency, loss_target, link, control, gain: Gain::UNITY }
    }

    /// A receiver with room for what its latency may become, to which repairers are lent.
    pub(crate) fn receiver(&self) -> Receiver {
        let config = self.receiver.clone();
        let room = match self.latency {
            LatencyRule::Chosen => return Receiver::without_repairer(config),
            LatencyRule::Sender => MOST_UNANNOUNCED,
            LatencyRule::Arrivals => MOST_AUTO,
        };
        let link_offset = config.link_offset.max(room);
        let roomy = ReceiverConfig { link_offset, ..config };
        let mut receiver = Receiver::without_repairer(roomy);
        receiver.set_link_offset(config.link_offset);
        receiver
    }
}

/// Packets of so long that come within `held`; at least the shortest, which may come all the same, of
/// three beats of the ordinary thread.
pub(crate) fn packets_within(held: Span, ptime: Span) -> usize {
    const LEAST: Span = Span::from_millis(60);
    let within = |span: Span, ptime: Span| span.as_nanos() / ptime.as_nanos().max(1);
    within(held, ptime).max(within(LEAST, PTIME_RANGE.0)).unsigned_abs() as usize
}

/// Room for a latency that follows the packets: by way of a satellite and Wi-Fi.
const MOST_AUTO: Span = Span::from_millis(400);
/// The same for one that packets raise whose sender announces nothing: packets of 20 ms, four at a
/// time.
const MOST_UNANNOUNCED: Span = Span::from_millis(100);

/// What to receive and how.
pub struct RecvPlan {
    /// The streams, the most important first; all of one rate and as many channels.
    pub streams: Vec<StreamPlan>,
    /// Which of them are heard.
    pub select: Select,
    /// Gain of all.
    pub gain: Gain,
    /// Stream channels to device channels.
    pub map: ChannelMap,
    /// How the device runs.
    pub device: Settings,
    /// Ends when every sender has said goodbye, or has been silent for three seconds, and all is
    /// played.
    pub until_bye: bool,
    /// Writes the ledger of every packet here.
    pub ledger: Option<PathBuf>,
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
    if leaves_no_way(promised, least) { enough_latency(least) } else { promised }
}

/// Whether a latency has no time for the way, where `least` is possible without any
/// ([`least_latency`]): packets are late then.
pub fn leaves_no_way(latency: Span, least: Span) -> bool {
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
    use super::*;
    use tautline_dsp::format::SampleFormat;
    use tautline_proto::units::{Channels, Rate};

    /// Packets of a millisecond, or as near as whole frames come, in a graph at `hertz`: what is promised
    /// of such cycles, what is promised of any other device, and the least of a receiver in such a graph.
    fn in_graph(hertz: u32, cycle: i64) -> [Span; 3] {
        let rate = Rate::new(hertz).unwrap();
        let packet = rate.frames_within(Span::from_millis(1));
        let (channels, sample) = (Channels::STEREO, SampleFormat::L24);
        let format = StreamFormat { rate, channels, sample, packet, payload_type: 97 };
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
