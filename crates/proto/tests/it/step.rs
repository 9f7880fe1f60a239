//! Packets late because of a step of the sender's time.

use tautline_dsp::format::SampleFormat;
use tautline_proto::endpoint::Author;
use tautline_proto::jitter_buffer::{JitterBuffer, JitterBufferConfig, LateRun, PullTimes};
use tautline_proto::packet::Codings;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, Span, WallTime};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::rtp::{HEADER_BYTES, Header, RtpUnpack};

const SSRC: u32 = 7;
const LATENCY: Span = Span::from_millis(5);

fn millis(millis: i64) -> LocalTime {
    LocalTime::from_nanos(millis * 1_000_000)
}

fn pass(receiver: &mut JitterBuffer, number: u32, now: LocalTime) {
    let header = Header {
        sequence: number as u16,
        timestamp: number * 48,
        ssrc: SSRC,
        marker: false,
        payload_type: 97,
        stamps: None,
    };
    let mut datagram = vec![0; HEADER_BYTES + 48 * 3];
    header.write(&mut datagram);
    receiver.handle(&datagram, now, now);
    pull(receiver, now);
}

fn pull(receiver: &mut JitterBuffer, now: LocalTime) {
    let meets = now + LATENCY - Span::from_millis(3);
    let times = PullTimes { now, meets, skipped: Frames::ZERO, clock: None };
    receiver.pull(&mut [0.0; 48], times, |_| {});
}

#[test]
fn reports_within_a_step_do_not_split_it() {
    let format = StreamFormat {
        codec: None,
        rate: Rate::HZ_48000,
        channels: Channels::MONO,
        sample: SampleFormat::L24,
        packet: Frames::new(48),
        payload_type: 97,
    };
    let unpack = RtpUnpack::taking(Codings::Any);
    let mut receiver = JitterBuffer::new(JitterBufferConfig::new(unpack, format, LATENCY));
    let report = |receiver: &mut JitterBuffer, number: i64, at: i64| {
        let wall = WallTime::from_unix_nanos((1_000_000 + at) * 1_000_000);
        receiver.observe_report(Author::of(SSRC), (number * 48) as u32, wall);
    };
    for number in 0..500 {
        pass(&mut receiver, number as u32, millis(number));
        if number % 100 == 0 {
            report(&mut receiver, number, number);
        }
    }
    // The sender pauses without advancing timestamps. Two reports immediately show the step.
    (500..1_500).for_each(|at| pull(&mut receiver, millis(at)));
    for number in 500..600 {
        let at = number + 1_000;
        pass(&mut receiver, number as u32, millis(at));
        if [501, 502].contains(&number) {
            report(&mut receiver, number, at);
        }
    }
    let Some(LateRun { from, to }) = receiver.status(LocalTime::ZERO).step else {
        panic!("no step");
    };
    assert_eq!(from, millis(1_500));
    assert!(to < millis(1_560), "{to:?}");
}
