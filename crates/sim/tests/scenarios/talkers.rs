//! Senders that support only AES67 or AVTP.

use std::collections::VecDeque;

use fastrand::Rng;
use tautline_dsp::format::SampleFormat;
use tautline_proto::clock::{ClockMapping, TaiClock, TaiReading};
use tautline_proto::counters::Counters;
use tautline_proto::device::Settings;
use tautline_proto::jitter_buffer::{JitterBuffer, JitterBufferConfig, PullTimes, ReceiveCommand};
use tautline_proto::latency::LatencyRule;
use tautline_proto::packet::StreamId;
use tautline_proto::packetizer::{BlockTimes, Identity, Packetizer, PacketizerConfig};
use tautline_proto::policy::Context;
use tautline_proto::receive_policy::{ReceivePolicy, ReceivePolicyConfig};
use tautline_proto::redundancy::Layout;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::WireForm;
use tautline_proto::wire::avtp::{Encapsulation, format_of};
use tautline_sim::clock::TrueTime;
use tautline_sim::link::Path;
use tautline_sim::preset::Preset;

// AAF between two programs with their own TAI readings, on one machine and card clock. A late
// listener copies the sound bit for bit.

const RATE: Rate = Rate::HZ_48000;
const PERIOD: Frames = Frames::new(48);
const PERIODS: i64 = 45_000;
const LATENCY: Span = Span::from_millis(60);
/// TAI minus the machine's clock.
const TAI: Span = Span::from_secs(1_795_000_000);
/// Maximum error of reading two clocks in turn, in ns.
const READ: i64 = 2_000;

fn value(frame: i64) -> f32 {
    (frame.rem_euclid(24_000) + 1) as f32 / 32_768.0
}

/// TAI as read once per second.
struct FollowedTai {
    clock: TaiClock,
    rng: Rng,
}

impl FollowedTai {
    fn read(&mut self, local: LocalTime) -> ClockMapping {
        let precision = self.rng.i64(100..READ);
        let error = Span::from_nanos(self.rng.i64(-precision..=precision));
        let precision = Span::from_nanos(precision);
        self.clock.observe(&TaiReading { local, offset: TAI + error, precision, kept: None })
    }
}

fn apply(
    policy: &mut ReceivePolicy,
    receiver: &mut JitterBuffer,
    now: LocalTime,
    tai: ClockMapping,
) {
    let command = &mut |command: ReceiveCommand| {
        receiver.apply(command);
        true
    };
    policy.present_by(tai, &mut Context { now, session: None, command });
}

fn listened(seed: u64) -> (Counters, usize) {
    let mut rng = Rng::with_seed(seed);
    let packet = [Frames::new(6), PERIOD][rng.usize(..2)];
    let form = WireForm::Avtp([Encapsulation::Ethernet, Encapsulation::Udp][rng.usize(..2)]);
    let sample = SampleFormat::L24;
    let (channels, payload_type) = (Channels::MONO, format_of(sample));
    let format = StreamFormat { codec: None, rate: RATE, channels, sample, packet, payload_type };
    let mut sender = Packetizer::new(PacketizerConfig {
        wire: form.pack(),
        format,
        identity: Identity { stream: StreamId(7), sequence: 0, timestamp: 0 },
        period: PERIOD,
        stamps: true,
        wall_offset: TAI,
        redundancy: Layout::NONE,
        presented_after: LATENCY,
    });
    let device = Settings { rate: RATE, channels, period: PERIOD, periods: 2 };
    let mut receiver =
        JitterBuffer::new(JitterBufferConfig::new(form.unpack(None), format, LATENCY));
    let config = ReceivePolicyConfig::new(LatencyRule::Chosen(LATENCY));
    let mut policy = ReceivePolicy::new(config, LATENCY, device, &mut receiver);
    let [mut theirs, mut ours] =
        [(); 2].map(|()| FollowedTai { clock: TaiClock::default(), rng: rng.fork() });
    // The socket opens before the card runs, at any phase of a period.
    let (joins, opens) = (rng.i64(1000..4000), rng.i64(0..50));
    let aside = Span::from_nanos(rng.i64(0..1_000_000));
    let (mut on_the_way, mut wrong) = (VecDeque::new(), 0);
    let mut out = [0.0; PERIOD.as_len()];
    for number in 0..PERIODS {
        let capture = LocalTime::ZERO + RATE.span_of(Frames::new(number * PERIOD.count()));
        let now = capture + RATE.span_of(PERIOD);
        if number % 1000 == 0 {
            sender.set_presentation_clock(theirs.read(now), true);
        }
        if number == joins || number > joins && number % 1000 == joins % 1000 {
            apply(&mut policy, &mut receiver, now, ours.read(now));
        }
        let first = number * PERIOD.count();
        let block: Vec<f32> = (first..first + PERIOD.count()).map(value).collect();
        sender.push(&block, BlockTimes { capture, taken: now, now }, |packet| {
            let late = Span::from_nanos(rng.i64(20_000..400_000));
            on_the_way.push_back((now + late, packet.datagram.to_vec()));
        });
        if number < joins {
            on_the_way.clear();
        }
        if number < joins + opens {
            continue;
        }
        let woke = now + aside;
        while on_the_way.front().is_some_and(|(at, _)| *at <= woke) {
            let Some((at, datagram)) = on_the_way.pop_front() else { break };
            receiver.handle(&datagram, at, woke);
        }
        let meets = woke + RATE.span_of(PERIOD);
        let times = PullTimes { now: woke, meets, skipped: Frames::ZERO, clock: None };
        receiver.pull(&mut out, times, |_| {});
        // The due frame or its neighbour: the position is a whole frame, and TAI readings differ.
        let due = RATE.frames_nearest(meets - LATENCY - LocalTime::ZERO).count();
        let begun = due > (joins + 2) * PERIOD.count() && number > joins + opens + 2;
        let is_due = |alongside: i64| {
            (due + alongside..).zip(&out).all(|(at, received)| *received == value(at))
        };
        wrong += usize::from(begun && ![-1, 0, 1].into_iter().any(is_due));
    }
    (*receiver.counters(), wrong)
}

#[test]
fn talker_on_our_clock_is_copied_by_late_listeners() {
    for seed in 1..=24 {
        let (counters, wrong) = listened(seed);
        let reported = format!("seed {seed}: {wrong} blocks are wrong, {counters:?}");
        assert_eq!((counters.resampled_frames, counters.resyncs, wrong), (0, 0, 0), "{reported}");
        assert_eq!(
            (counters.late, counters.lost, counters.underrun_discarded),
            (0, 0, 0),
            "{reported}"
        );
    }
}

// AAF on every network. Presentation times alone determine playout.

/// Packet lengths: class A, and a card's period.
const PACKETS: [Frames; 2] = [Frames::new(6), PERIOD];
const MINUTE: i64 = 60_000;

type OnTheWay = VecDeque<(LocalTime, usize, Vec<u8>)>;

fn carried(form: WireForm, format: StreamFormat, preset: Preset, seed: u64) -> OnTheWay {
    let mut sender = Packetizer::new(PacketizerConfig {
        wire: form.pack(),
        format,
        identity: Identity { stream: StreamId(7), sequence: 0, timestamp: 0 },
        period: PERIOD,
        stamps: true,
        wall_offset: TAI,
        redundancy: Layout::NONE,
        presented_after: preset.suits(),
    });
    let (mut path, mut arriving) = (Path::new(preset.path(), seed), OnTheWay::new());
    for number in 0..MINUTE {
        let first = number * PERIOD.count();
        let capture = LocalTime::ZERO + RATE.span_of(Frames::new(first));
        let now = capture + RATE.span_of(PERIOD);
        let block: Vec<f32> = (first..first + PERIOD.count()).map(value).collect();
        let leaves = TrueTime::from_nanos(now.as_nanos());
        sender.push(&block, BlockTimes { capture, taken: now, now }, |packet| {
            path.carry(packet.datagram.len(), leaves, |at| {
                let at = LocalTime::from_nanos(at.as_nanos());
                arriving.push_back((at, arriving.len(), packet.datagram.to_vec()));
            });
        });
    }
    arriving.make_contiguous().sort_unstable_by_key(|(at, number, _)| (*at, *number));
    arriving
}

#[test]
fn talkers_sound_is_heard_in_time_at_every_place() {
    let kinds = PACKETS.into_iter().flat_map(|packet| Preset::ALL.map(|preset| (packet, preset)));
    for (seed, (packet, preset)) in (51..).zip(kinds) {
        let encapsulation = [Encapsulation::Ethernet, Encapsulation::Udp][seed as usize % 2];
        let (form, sample) = (WireForm::Avtp(encapsulation), SampleFormat::L24);
        let format = StreamFormat {
            codec: None,
            rate: RATE,
            channels: Channels::MONO,
            sample,
            packet,
            payload_type: format_of(sample),
        };
        let mut arriving = carried(form, format, preset, seed);
        let latency = preset.suits();
        let mut receiver =
            JitterBuffer::new(JitterBufferConfig::new(form.unpack(None), format, latency));
        receiver.set_presentation_clock(ClockMapping::known(TAI, Span::from_micros(1)));
        let (mut out, mut missing, mut astray) = ([0.0; 48], 0, 0);
        for number in 0..MINUTE {
            let now = LocalTime::ZERO + RATE.span_of(Frames::new(number * PERIOD.count()));
            while let Some((at, _, datagram)) = arriving.pop_front_if(|(at, ..)| *at <= now) {
                receiver.handle(&datagram, at, now);
            }
            let times = PullTimes { now, meets: now, skipped: Frames::ZERO, clock: None };
            let pulled = receiver.pull(&mut out, times, |_| {});
            let due = RATE.frames_nearest(now - latency - LocalTime::ZERO).count();
            if due < RATE.hertz().into() || now > LocalTime::ZERO + Span::from_secs(59) {
                continue; // The first second, in which it begins, and what is on the way at the end.
            }
            missing += pulled.missing.count();
            astray +=
                (due..).zip(&out).filter(|(frame, received)| **received != value(*frame)).count()
                    as i64;
        }
        let counters = *receiver.counters();
        let reported = format!(
            "{} in packets of {packet}, seed {seed}: {missing} missing, {astray} astray, {counters:?}",
            preset.name()
        );
        // After each gap, the concealment fades out for 1 ms.
        assert!(astray <= missing + PERIOD.count() * counters.lost as i64, "{reported}");
        assert_eq!(
            (counters.resyncs, counters.late, counters.resampled_frames),
            (0, 0, 0),
            "{reported}"
        );
        assert!(
            counters.received as i64 > MINUTE * (PERIOD.count() / packet.count()) * 9 / 10,
            "{reported}"
        );
    }
}
