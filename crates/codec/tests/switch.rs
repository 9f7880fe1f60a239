//! Coding changes within a stream. Energy above 12 kHz indicates a click.
#![expect(clippy::unwrap_used, reason = "an encoder that is missing here is a failure")]

use core::f64::consts::TAU;

use rustfft::FftPlanner;
use rustfft::num_complex::Complex;
use tautline_codec::{decoder, encoders};
use tautline_dsp::format::SampleFormat;
use tautline_proto::clock::ClockMapping;
use tautline_proto::endpoint::Author;
use tautline_proto::jitter_buffer::{JitterBuffer, JitterBufferConfig, PullTimes};
use tautline_proto::packet::{Codings, StreamId};
use tautline_proto::packetizer::{BlockTimes, Identity, Packetizer, PacketizerConfig};
use tautline_proto::redundancy::Layout;
use tautline_proto::stream::{Coding, StreamFormat};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::rtp::{PACK, RtpUnpack};

const RATE: Rate = Rate::HZ_48000;
const IDENTITY: Identity = Identity { stream: StreamId(1), sequence: 0, timestamp: 0 };
const WALL: Span = Span::from_secs(1_700_000_000);
const PERIOD: i64 = 240;
const L24: Coding = Coding { sample: SampleFormat::L24, codec: None };

fn tone(frame: i64) -> f32 {
    (TAU * 440.0 * frame as f64 / 48_000.0).sin() as f32
}

fn received([from, to]: [(Coding, i64); 2], before: i64) -> Vec<f32> {
    let format = |(coding, packet): (Coding, i64)| StreamFormat {
        rate: RATE,
        channels: Channels::MONO,
        sample: coding.sample,
        codec: coding.codec,
        packet: Frames::new(packet),
        payload_type: StreamFormat::usual_payload_type(coding.sample, coding.codec),
    };
    let (period, latency) = (Frames::new(PERIOD), Span::from_millis(60));
    let config = PacketizerConfig {
        wire: PACK,
        format: format(from),
        identity: IDENTITY,
        period,
        stamps: true,
        wall_offset: WALL,
        redundancy: Layout::NONE,
        presented_after: Span::ZERO,
    };
    let encoders = encoders(&format(from), None).unwrap();
    let mut sender = Packetizer::compressing(config, encoders);
    let mut receiver = JitterBuffer::new(JitterBufferConfig {
        decoders: Some(decoder),
        ..JitterBufferConfig::new(RtpUnpack::taking(Codings::ByConvention), format(from), latency)
    });
    let clock = ClockMapping::known(WALL, Span::from_micros(20));
    receiver.set_clock(Author::of(IDENTITY.stream.ssrc()), clock);
    let (start, mut sound) = (LocalTime::from_nanos(1_000_000_000), Vec::new());
    for first in (0..before + 24_000).step_by(PERIOD as usize) {
        if first == before {
            let new = format(to);
            assert!(sender.set_format(new.packet, new.coding(), new.payload_type));
        }
        let capture = start + RATE.span_of(Frames::new(first));
        let now = capture + RATE.span_of(period);
        let block: Vec<f32> = (first..first + PERIOD).map(tone).collect();
        sender.push(&block, BlockTimes { capture, taken: now, now }, |packet| {
            receiver.handle(packet.datagram, now, now);
        });
        let mut out = [0.0; PERIOD as usize];
        let times = PullTimes { now, meets: now, skipped: Frames::ZERO, clock: None };
        receiver.pull(&mut out, times, |_| {});
        sound.extend(out);
    }
    sound
}

/// In dB relative to a full-scale sine.
fn treble(sound: &[f32]) -> Vec<f64> {
    let window = |at: usize| 0.5 - 0.5 * (TAU * at as f64 / 512.0).cos();
    let full: f64 = (0..512).map(|at| window(at).powi(2) / 2.0).sum();
    let fft = FftPlanner::new().plan_fft_forward(512);
    let energy = |frames: &[f32]| {
        let windowed = frames.iter().zip(0..).map(|(s, at)| f64::from(*s) * window(at));
        let mut bins: Vec<_> = windowed.map(|re| Complex { re, im: 0.0 }).collect();
        fft.process(&mut bins);
        let above = bins[128..256].iter().map(Complex::norm_sqr).sum::<f64>();
        10.0 * (above * 2.0 / 512.0 / full).log10()
    };
    sound.windows(512).step_by(64).map(energy).collect()
}

#[test]
fn change_of_coding_is_no_click() {
    let opus = Coding::OPUS;
    let cases = [
        ("l24 to opus", [(L24, 240), (opus, 240)], -45.0),
        ("opus to l24", [(opus, 240), (L24, 240)], -45.0),
        ("l24 to opus-voice", [(L24, 240), (Coding::OPUS_VOICE, 960)], -45.0),
        ("opus-voice to l24", [(Coding::OPUS_VOICE, 960), (L24, 240)], -45.0),
        ("opus to opus-voice", [(opus, 240), (Coding::OPUS_VOICE, 960)], -45.0),
        ("opus-voice to opus", [(Coding::OPUS_VOICE, 960), (opus, 240)], -45.0),
    ];
    for (name, codings, maximum) in cases {
        let mut worst = f64::NEG_INFINITY;
        for before in [24_000, 24_960, 25_920, 26_880, 27_840] {
            let sound = received(codings, before);
            let around = before as usize + 1_440..before as usize + 5_760;
            worst = treble(&sound[around]).into_iter().fold(worst, f64::max);
        }
        println!("{name}: {worst:.1} dB");
        assert!(worst <= maximum, "{name}: {worst:.1} dB");
    }
}
