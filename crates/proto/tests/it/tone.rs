//! One card captures a tone, and another plays it at a different rate.

use core::f64::consts::TAU;

use tautline_dsp::format::SampleFormat;
use tautline_dsp::resample::Quality;
use tautline_proto::clock::ClockMapping;
use tautline_proto::endpoint::Author;
use tautline_proto::jitter_buffer::{JitterBuffer, JitterBufferConfig, PullTimes};
use tautline_proto::packet::{Codings, StreamId};
use tautline_proto::packetizer::{BlockTimes, Identity, Packetizer, PacketizerConfig};
use tautline_proto::redundancy::Layout;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Ppm, Rate};
use tautline_proto::wire::rtp::{PACK, RtpUnpack};

const RATE: Rate = Rate::HZ_48000;
const PERIOD: Frames = Frames::new(48);
const LATENCY: Span = Span::from_millis(5);
const WALL: Span = Span::from_secs(1_700_000_000);
const IDENTITY: Identity = Identity { stream: StreamId(1), sequence: 0, timestamp: 0 };
const HERTZ: f64 = 997.0;
const AMPLITUDE: f64 = 0.5;

fn tone(at: LocalTime) -> f32 {
    (AMPLITUDE * (TAU * HERTZ * (at.as_nanos() as f64 / 1e9)).sin()) as f32
}

fn played(card: Ppm, quality: Quality, seconds: i64) -> Vec<(f64, f32)> {
    let format = StreamFormat {
        codec: None,
        rate: RATE,
        channels: Channels::MONO,
        sample: SampleFormat::F32,
        packet: PERIOD,
        payload_type: StreamFormat::default_payload_type(SampleFormat::F32),
    };
    let mut sender = Packetizer::new(PacketizerConfig {
        wire: PACK,
        format,
        identity: IDENTITY,
        period: PERIOD,
        stamps: true,
        wall_offset: WALL,
        redundancy: Layout::NONE,
        presented_after: Span::ZERO,
    });
    let mut receiver = JitterBuffer::new(JitterBufferConfig {
        resampler: quality,
        ..JitterBufferConfig::new(RtpUnpack::taking(Codings::Exactly), format, LATENCY)
    });
    receiver.set_clock(
        Author::of(IDENTITY.stream.ssrc()),
        ClockMapping::known(WALL, Span::from_micros(20)),
    );
    let mut sound = Vec::new();
    let (start, mut blocks) = (LocalTime::from_nanos(1_000_000_000), 0);
    for captured in 0..seconds * 1000 {
        let capture = start + RATE.span_of(Frames::new(captured * PERIOD.count()));
        let block: Vec<f32> = (0..PERIOD.count())
            .map(|index| tone(capture + RATE.span_of(Frames::new(index))))
            .collect();
        let now = capture + RATE.span_of(PERIOD);
        let times = BlockTimes { capture, taken: now, now };
        sender.push(&block, times, |packet| {
            receiver.handle(packet.datagram, now, now);
        });
        // The card wakes one period before its block meets the DAC.
        loop {
            let meets = |frames| {
                let shown = RATE.span_of(Frames::new(frames));
                start + card.unstretch(shown) + Span::from_millis(2)
            };
            let first = blocks * PERIOD.count();
            if meets(first) - RATE.span_of(PERIOD) > now {
                break;
            }
            let mut out = [0.0; 48];
            let times = PullTimes { now, meets: meets(first), skipped: Frames::ZERO, clock: None };
            receiver.pull(&mut out, times, |_| {});
            for (sample, frame) in out.iter().zip(first..) {
                sound.push((meets(frame).as_nanos() as f64 / 1e9, *sample));
            }
            blocks += 1;
        }
    }
    assert_eq!(receiver.counters().missing_frames, 0);
    sound
}

/// Least-squares fit: amplitude, delay in seconds, and residual in decibels.
fn received(sound: &[(f64, f32)]) -> (f64, f64, f64) {
    let (mut sines, mut cosines, mut both) = (0.0, 0.0, 0.0);
    let (mut with_sine, mut with_cosine) = (0.0, 0.0);
    for (at, sample) in sound {
        let (sine, cosine) = (TAU * HERTZ * at).sin_cos();
        (sines, cosines, both) =
            (sines + sine * sine, cosines + cosine * cosine, both + sine * cosine);
        with_sine += f64::from(*sample) * sine;
        with_cosine += f64::from(*sample) * cosine;
    }
    let determinant = sines * cosines - both * both;
    let sine = (with_sine * cosines - with_cosine * both) / determinant;
    let cosine = (with_cosine * sines - with_sine * both) / determinant;
    let half = sound.len() as f64 / 2.0;
    let amplitude = sine.hypot(cosine);
    let late = (-cosine).atan2(sine) / (TAU * HERTZ);
    let left: f64 = sound
        .iter()
        .map(|(at, sample)| {
            let phase = TAU * HERTZ * at;
            (f64::from(*sample) - sine * phase.sin() - cosine * phase.cos()).powi(2)
        })
        .sum();
    (amplitude, late, 10.0 * (left / (half * amplitude * amplitude)).log10())
}

#[test]
fn tone_is_unchanged_and_on_time() {
    for (quality, noise) in
        [(Quality::LowDelay, -85.0), (Quality::Balanced, -105.0), (Quality::Best, -105.0)]
    {
        for ppm in [-500.0, -20.0, 300.0] {
            let sound = played(Ppm::from_f64(ppm), quality, 42);
            let (amplitude, late, left) = received(&sound[sound.len() - 96_000..]);
            let reported =
                format!("{quality}, {ppm} ppm: {amplitude}, {late} s late, {left:.1} dB left");
            assert!((amplitude / AMPLITUDE - 1.0).abs() < 0.0002, "{reported}");
            let cycles = ((late - LATENCY.as_nanos() as f64 / 1e9) * HERTZ).rem_euclid(1.0);
            let error = (cycles - cycles.round()) / HERTZ;
            assert!(error.abs() < 50e-9, "{error} s; {reported}");
            assert!(left < noise, "{reported}");
        }
    }
}
