//! Cost of a mixer period with all features. One scenario omits measurement and redundancy, for
//! comparison with old figures. The lower bound is [`floor`].
//!
//! As tests, these check that all features are active. `scripts/bench` runs each twice under
//! callgrind with different [`PERIODS`]; the difference is [`Mixer::process`] in steady state. It
//! repeats to the instruction, because the test provides links, clocks and the ordinary thread.

mod floor;

use std::hint::black_box;

use super::*;
use crate::monitor::sound::{Hearing, Measurement, hearing, measurement};
use tautline_proto::clock::{ClockEstimator, Exchange};
use tautline_proto::counters::Counters;
use tautline_proto::endpoint::{Author, Endpoint};
use tautline_proto::placement::Basis;
use tautline_proto::time::WallTime;

const PERIODS: &str = "TAUTLINE_PERIODS";
const STREAMS: &str = "TAUTLINE_STREAMS";

const FRAMES: usize = 48;
const SAMPLES: usize = 2 * FRAMES;
const PACKET: Span = Span::from_millis(1);
const LATENCY: Span = Span::from_millis(5);
const PATH: Span = Span::from_micros(100);
const RING: Span = Span::from_millis(2);
const WALL: Span = Span::from_secs(1_000_000_000);
const SOURCE: ([u8; 4], u16) = ([127, 0, 0, 1], 5004);
const BEAT: u32 = 20;
/// Periods between mixer statuses ([`TELL_EVERY`]), and between clock exchanges.
const TOLD: u32 = 10;
const EXCHANGED: u32 = 500;
const UNSURE: u32 = 200;

struct CostScene {
    drift: i64,
    carried: Layout,
    everything: bool,
}

type Queue = Arc<Mutex<Vec<(Vec<u8>, LocalTime)>>>;

struct Memory(Queue);

impl Link for Memory {
    fn queue(&mut self, _: &Outgoing<'_>) -> bool {
        false
    }

    fn flush(&mut self) {}

    fn receive(&mut self, deliver: &mut dyn FnMut(Datagram<'_>)) {
        for (datagram, arrival) in self.0.lock().unwrap().iter() {
            let arrival = Arrival::exact(Endpoint::new(SOURCE.into(), 1), *arrival, *arrival);
            deliver(Datagram { bytes: datagram, arrival, truncated: false });
        }
    }

    fn transmit_stamps(&mut self, _: &mut dyn FnMut(TransmitStamp)) {}

    fn counters(&self) -> LinkCounters {
        LinkCounters::default()
    }
}

struct OrdinaryEnd {
    ssrc: u32,
    arrived: Queue,
    clock: ClockEstimator,
    commands: Producer<MixerCommand>,
    passages: Consumer<PacketTrace>,
    status: Consumer<RxStatus>,
    measurement: Measurement,
    received: u64,
}

struct CostWorld {
    mixer: Mixer,
    hearing: Hearing,
    ends: Vec<OrdinaryEnd>,
    /// Sends all streams with different SSRCs; a hundred packetizers would fill the caches.
    sender: Packetizer,
    under_way: VecDeque<(Vec<u8>, LocalTime)>,
    captured: LocalTime,
    woken: LocalTime,
    block: [f32; SAMPLES],
    scene: CostScene,
    period: u32,
}

const FORMAT: StreamFormat = StreamFormat {
    codec: None,
    rate: Rate::HZ_48000,
    channels: Channels::STEREO,
    sample: SampleFormat::L24,
    packet: Frames::new(FRAMES as i64),
    payload_type: StreamFormat::default_payload_type(SampleFormat::L24),
};

fn sender(everything: bool) -> Packetizer {
    Packetizer::new(PacketizerConfig {
        wire: PACK,
        format: FORMAT,
        identity: Identity { stream: StreamId(0), sequence: 65_000, timestamp: u32::MAX - 5_000 },
        period: FORMAT.packet,
        stamps: true,
        wall_offset: WALL,
        redundancy: if everything { Layout::copies(1, 2) } else { Layout::NONE },
        presented_after: Span::ZERO,
    })
}

fn stream(number: usize) -> (OrdinaryEnd, MixerInput) {
    let config = JitterBufferConfig::new(RtpUnpack::usual(), FORMAT, LATENCY);
    let mut receiver = JitterBuffer::without_repairer(config);
    receiver.measure_unannounced(RING, false);
    let ssrc = number as u32 + 1;
    let longest = receiver.longest_link_offset();
    let (measurement, tap) = measurement(FORMAT.rate, number, 0, longest, PACKET);
    let (commands, commands_out) = RingBuffer::new(64);
    let (passages, passages_out) = RingBuffer::new(256);
    let (status, status_out) = RingBuffer::new(8);
    let arrived = Queue::default();
    let end = OrdinaryEnd {
        ssrc,
        arrived: Arc::clone(&arrived),
        clock: ClockEstimator::new(),
        commands,
        passages: passages_out,
        status: status_out,
        measurement,
        received: 0,
    };
    let link = Box::new(Memory(arrived));
    let mut incoming =
        MixerInput::new(number, receiver, link, Gain::UNITY, commands_out, passages, status);
    incoming.tap = Some(tap);
    (end, incoming)
}

impl OrdinaryEnd {
    fn bring<'a>(&self, packets: impl Iterator<Item = &'a (Vec<u8>, LocalTime)>) {
        let mut arrived = self.arrived.lock().unwrap();
        arrived.clear();
        for (datagram, at) in packets {
            let mut datagram = datagram.clone();
            datagram[8..12].copy_from_slice(&self.ssrc.to_be_bytes());
            arrived.push((datagram, *at));
        }
    }

    fn exchange(&mut self, now: LocalTime) {
        let there = WallTime::of_local(now - PATH, WALL);
        let exchange = Exchange {
            requested: now - PATH.times(2),
            peer_received: there,
            peer_answered: there,
            answered: now,
            reading_error: Span::ZERO,
        };
        let mapping = self.clock.observe(exchange).unwrap();
        self.notify(MixerCommand::Receive(ReceiveCommand::Clock(self.author(), mapping)));
    }

    fn author(&self) -> Author {
        Author { ssrc: self.ssrc, host: core::net::IpAddr::from(SOURCE.0).into() }
    }

    fn notify(&mut self, command: MixerCommand) {
        self.commands.push(command).unwrap_or_else(|_| panic!("the ring is full"));
    }

    fn beat(&mut self) {
        self.measurement.listen();
        while self.passages.pop().is_ok() {
            self.received += 1;
        }
        while self.status.pop().is_ok() {}
    }
}

impl CostWorld {
    fn new(streams: usize, scene: CostScene) -> Self {
        let (mut ends, inputs): (Vec<OrdinaryEnd>, Vec<MixerInput>) =
            (0..streams).map(stream).unzip();
        ends.iter_mut().for_each(|end| {
            end.notify(MixerCommand::Receive(ReceiveCommand::Announced(end.ssrc, false)))
        });
        let (hearing, ear, mouth) = hearing(FORMAT.rate, 2, Frames::new(48));
        drop(ear);
        let mouth = Some(mouth).filter(|_| scene.everything);
        let room = vec![0.0; 4096 * 2].into_boxed_slice();
        let mixer = Mixer {
            inputs,
            shared: Vec::new(),
            succession: Succession::new(streams, RingBuffer::new(1).1, RingBuffer::new(1).0),
            spares: repairers(streams, 2 * streams).1,
            gains: RingBuffer::new(1).1,
            programs: Programs::new(ProgramRule::Mix, streams),
            zone: None,
            volume: Volume::over(Gain::UNITY, VOLUME_RAMP),
            gain: Gain::UNITY,
            map: ChannelMap::identity(2),
            channels: Channels::STEREO,
            one: room.clone(),
            sum: room,
            passages: Passages::with_capacity(256 * streams),
            mouth,
            xruns: 0,
            lead: Lead::NONE,
            woke: LocalTime::ZERO,
            reported: LocalTime::ZERO,
        };
        let begin = LocalTime::ZERO + Span::from_secs(10);
        Self {
            mixer,
            hearing,
            ends,
            sender: sender(scene.everything),
            under_way: VecDeque::new(),
            captured: begin,
            woken: begin + PACKET,
            block: core::array::from_fn(|index| (index as f32 * 0.37).sin() * 0.5),
            scene,
            period: 0,
        }
    }

    fn period(&mut self) {
        let now = self.woken;
        self.woken += PACKET - Span::from_nanos(self.scene.drift);
        if self.period.is_multiple_of(EXCHANGED) {
            self.ends.iter_mut().for_each(|end| end.exchange(now));
        }
        if self.period == UNSURE {
            self.sender.set_redundancy(self.scene.carried);
        }
        self.send(now);
        // Statuses at fixed periods, unlike with the machine's clock.
        let notifies = self.period.is_multiple_of(TOLD);
        self.mixer.reported = if notifies { LocalTime::ZERO } else { LocalTime::NEVER };
        let (mut samples, meets) = ([0.0; SAMPLES], now + RING);
        let (uncertainty, skipped) = (Span::ZERO, Frames::ZERO);
        let playback = Side { samples: &mut samples, meets, uncertainty, skipped };
        let mut cycle = Cycle { now, capture: Side::absent(), playback, xruns: 0, clock: None };
        let process: &mut dyn Process = &mut self.mixer;
        black_box(process).process(&mut cycle);
        black_box(&samples);
        self.period += 1;
        if self.period.is_multiple_of(BEAT) {
            self.hearing.listen();
            self.ends.iter_mut().for_each(OrdinaryEnd::beat);
        }
    }

    fn send(&mut self, now: LocalTime) {
        while self.captured + PACKET <= now {
            let (capture, taken, under_way) =
                (self.captured, self.captured + PACKET, &mut self.under_way);
            let times = BlockTimes { capture, taken, now: taken };
            self.sender.push(&self.block, times, |packet| {
                under_way.push_back((packet.datagram.to_vec(), taken + PATH));
            });
            self.captured = taken;
        }
        let here = self.under_way.partition_point(|(_, at)| *at <= now);
        self.ends.iter().for_each(|end| end.bring(self.under_way.iter().take(here)));
        self.under_way.drain(..here);
    }
}

fn wanted(name: &str, otherwise: u32) -> u32 {
    std::env::var(name).map_or(otherwise, |number| number.parse().unwrap())
}

fn play(scene: CostScene) -> (Counters, u32) {
    let (periods, streams) = (wanted(PERIODS, 4000), wanted(STREAMS, 1));
    let mut world = CostWorld::new(streams as usize, scene);
    (0..periods).for_each(|_| world.period());
    let (input, end) = (world.mixer.inputs.last().unwrap(), world.ends.last().unwrap());
    let counters = *input.receiver.counters();
    let kept =
        (counters.lost, counters.late, counters.duplicate, counters.resyncs, input.trace_overflow);
    assert_eq!(kept, (0, 0, 0, 0, 0), "{counters:?}");
    assert_eq!(counters.missing_frames, 0, "{counters:?}");
    assert!(end.received + 50 > counters.received, "{} of {counters:?}", end.received);
    let basis = input.receiver.placement().due(world.woken).map(|due| due.basis);
    assert_eq!(basis, Some(Basis::Clock));
    (counters, periods)
}

#[test]
fn cost_full_features_equal_clocks_copies_frames() {
    let (counters, _) = play(CostScene { drift: 0, carried: Layout::NONE, everything: true });
    assert_eq!(counters.resampled_frames, 0);
}

#[test]
fn cost_unmeasured_equal_clocks_copies_frames() {
    let (counters, _) = play(CostScene { drift: 0, carried: Layout::NONE, everything: false });
    assert_eq!(counters.resampled_frames, 0);
}

#[test]
fn cost_full_features_with_redundancy_copies_frames() {
    let (counters, _) =
        play(CostScene { drift: 0, carried: Layout::copies(1, 2), everything: true });
    assert_eq!(counters.resampled_frames, 0);
}

#[test]
fn cost_full_features_card_50_ppm_fast_resamples() {
    let (counters, periods) =
        play(CostScene { drift: 50, carried: Layout::NONE, everything: true });
    let minimum = u64::from(periods.saturating_sub(3000)) * FRAMES as u64;
    assert!(counters.resampled_frames >= minimum, "{counters:?}");
}
