//! Under test: AAF of AVTP on every network: presentation times alone say when sound is heard, whatever packets go
//! through, and what does not come costs no other frame its place.

use std::collections::VecDeque;

use tautline_dsp::format::SampleFormat;
use tautline_proto::clock::ClockMapping;
use tautline_proto::jitter_buffer::{JitterBuffer, JitterBufferConfig, PullTimes};
use tautline_proto::packet::StreamId;
use tautline_proto::packetizer::{BlockTimes, Identity, Packetizer, PacketizerConfig};
use tautline_proto::redundancy::Layout;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::WireForm;
use tautline_proto::wire::avtp::{Encapsulation, format_of};
use tautline_sim::clock::TrueTime;
use tautline_sim::link::Path;
use tautline_sim::preset::Preset;

const RATE: Rate = Rate::HZ_48000;
const PERIOD: Frames = Frames::new(48);
/// In a packet: of class A, and as much as a card hands over.
const PACKETS: [Frames; 2] = [Frames::new(6), PERIOD];
const MINUTE: i64 = 60_000;
/// TAI less the monotonic clock of either host.
const TAI: Span = Span::from_secs(1_795_000_000);

/// A frame as no other for half a second: its number.
fn value(frame: i64) -> f32 {
    (frame.rem_euclid(24_000) + 1) as f32 / 32_768.0
}

/// Datagrams on the way: when they arrive, and which they are.
type OnTheWay = VecDeque<(LocalTime, usize, Vec<u8>)>;

/// What is sent in a minute, in the order of its arrival.
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
fn a_talkers_sound_is_heard_at_its_time_at_every_place() {
    let kinds = PACKETS.into_iter().flat_map(|packet| Preset::ALL.map(|preset| (packet, preset)));
    for (seed, (packet, preset)) in (51..).zip(kinds) {
        let encapsulation = [Encapsulation::Ethernet, Encapsulation::Udp][seed as usize % 2];
        let (form, sample) = (WireForm::Avtp(encapsulation), SampleFormat::L24);
        let format = StreamFormat {
            coder: None,
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
                (due..).zip(&out).filter(|(frame, heard)| **heard != value(*frame)).count() as i64;
        }
        let counters = *receiver.counters();
        let told = format!(
            "{} in packets of {packet}, seed {seed}: {missing} missing, {astray} astray, {counters:?}",
            preset.name()
        );
        // For a millisecond after each gap what goes on in its place fades into what is there.
        assert!(astray <= missing + PERIOD.count() * counters.lost as i64, "{told}");
        assert_eq!(
            (counters.resyncs, counters.late, counters.resampled_frames),
            (0, 0, 0),
            "{told}"
        );
        assert!(
            counters.received as i64 > MINUTE * (PERIOD.count() / packet.count()) * 9 / 10,
            "{told}"
        );
    }
}
