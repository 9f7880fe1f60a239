//! Packets with other bytes per frame than expected.

use tautline_dsp::format::{SampleFormat, encode};
use tautline_proto::evidence::Contradiction;
use tautline_proto::jitter_buffer::{JitterBuffer, JitterBufferConfig, PullTimes};
use tautline_proto::packet::Codings;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::rtp::{HEADER_BYTES, Header, RtpUnpack};

const PERIOD: usize = 48;
const LATENCY: Span = Span::from_millis(5);

fn receiver(sample: SampleFormat, channels: Channels) -> JitterBuffer {
    let format = StreamFormat {
        codec: None,
        rate: Rate::HZ_48000,
        channels,
        sample,
        packet: Frames::from_len(PERIOD),
        payload_type: 97,
    };
    JitterBuffer::new(JitterBufferConfig::new(RtpUnpack::taking(Codings::Any), format, LATENCY))
}

/// Output for packets of 1 ms. Samples of frame `n` are n / 2²⁰.
fn play(
    receiver: &mut JitterBuffer,
    (sample, carried): (SampleFormat, usize),
    numbers: core::ops::Range<u32>,
) -> Vec<f32> {
    let mut played = Vec::new();
    for number in numbers {
        let header = Header {
            sequence: number as u16,
            timestamp: number * PERIOD as u32,
            ssrc: 7,
            marker: number == 0,
            payload_type: 97,
            stamps: None,
        };
        let mut datagram = vec![0; HEADER_BYTES + PERIOD * carried * sample.bytes()];
        header.write(&mut datagram);
        let samples: Vec<f32> = (0..PERIOD * carried)
            .map(|at| (number as usize * PERIOD + at / carried) as f32 / (1 << 20) as f32)
            .collect();
        encode(sample, &samples, &mut datagram[HEADER_BYTES..]);
        let now = LocalTime::from_nanos(1_000_000 * (i64::from(number) + 1));
        receiver.handle(&datagram, now, now);
        let mut block = vec![0.0; PERIOD * receiver.format().channels.count()];
        let times = PullTimes {
            now,
            meets: now + LATENCY - Span::from_millis(3),
            skipped: Frames::ZERO,
            clock: None,
        };
        receiver.pull(&mut block, times, |_| {});
        if receiver.is_muted() {
            block.fill(0.0);
        }
        played.extend(block);
    }
    played
}

#[test]
fn packets_of_another_size_per_frame_are_muted_and_reported() {
    let cases = [
        (SampleFormat::F32, 2, SampleFormat::L24, 2),
        (SampleFormat::L24, 2, SampleFormat::L16, 6),
    ];
    for (read, channels, sent, carried) in cases {
        let mut receiver = receiver(read, Channels::new(channels).unwrap());
        let played = play(&mut receiver, (sent, carried), 0..100);
        let noise = played.iter().position(|sample| *sample != 0.0);
        assert_eq!(noise, None, "{sent:?} as {read:?}");
        let proven = Contradiction::FrameBytes(sent.bytes() * carried);
        assert_eq!(receiver.status(LocalTime::ZERO).contradiction, Some(proven));
    }
}

#[test]
fn a_card_that_drops_frames_contradicts_nothing() {
    let mut receiver = receiver(SampleFormat::L24, Channels::STEREO);
    play(&mut receiver, (SampleFormat::L24, 2), 0..50);
    for (sequence, frames) in [(50, 12), (51, 24)] {
        let mut datagram = vec![0; HEADER_BYTES + PERIOD * 6];
        let header = Header {
            sequence,
            timestamp: u32::from(sequence) * PERIOD as u32 + frames,
            ssrc: 7,
            marker: false,
            payload_type: 97,
            stamps: None,
        };
        header.write(&mut datagram);
        let now = LocalTime::from_nanos(1_000_000 * (i64::from(sequence) + 1));
        receiver.handle(&datagram, now, now);
        assert!(!receiver.is_muted());
    }
    assert_eq!(receiver.status(LocalTime::ZERO).contradiction, None);
}

#[test]
fn one_channel_is_played_on_all() {
    let mut receiver = receiver(SampleFormat::L24, Channels::STEREO);
    let played = play(&mut receiver, (SampleFormat::L24, 1), 0..100);
    let (frames, _) = played.as_chunks::<2>();
    assert_eq!(frames.iter().position(|[left, right]| left != right), None);
    let sound = &frames[50 * PERIOD..];
    assert!(sound.windows(2).all(|pair| (pair[1][0] - pair[0][0]) * (1 << 20) as f32 == 1.0));
    let played = play(&mut receiver, (SampleFormat::L24, 2), 100..200);
    let (frames, _) = played.as_chunks::<2>();
    assert!(frames[50 * PERIOD..].windows(2).all(|pair| pair[1][0] > pair[0][0]));
    assert_eq!(receiver.status(LocalTime::ZERO).contradiction, None);
}
