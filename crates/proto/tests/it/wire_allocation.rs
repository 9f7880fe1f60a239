//! Real-time wire formats do not allocate.

use tautline_dsp::format::SampleFormat;
use tautline_proto::clock::ClockMapping;
use tautline_proto::crf_follower::{CrfCounters, CrfFollower, CrfNews, CrfState};
use tautline_proto::jitter_buffer::{JitterBuffer, JitterBufferConfig, PullTimes, Received};
use tautline_proto::packet::{Instants, Invalid, StreamId, Unpack};
use tautline_proto::packetizer::{BlockTimes, Identity, Packetizer, PacketizerConfig};
use tautline_proto::redundancy;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, Span, WallTime};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::WireForm;
use tautline_proto::wire::avtp::crf::{CrfHead, CrfInvalid};
use tautline_proto::wire::avtp::{Encapsulation, format_of};
use tautline_proto::wire::ntp::{CompactNtp, CompactSpan, NtpTime};
use tautline_proto::wire::rtcp::*;
use tautline_proto::wire::rtp::*;
use tautline_trial::allocator_calls;

fn allocations(run: impl FnOnce()) -> u64 {
    let before = allocator_calls();
    run();
    allocator_calls() - before
}

#[test]
fn rtp_allocates_nothing() {
    let format = StreamFormat {
        codec: None,
        rate: Rate::HZ_48000,
        channels: Channels::STEREO,
        sample: SampleFormat::L24,
        packet: Frames::new(1),
        payload_type: 97,
    };
    let stamps = SenderStamps {
        capture: NtpTime::from_unix_nanos(1),
        instants: Some(Instants { taken: Span::from_micros(1), ..Instants::default() }),
    };
    let header = Header {
        sequence: 1,
        timestamp: 2,
        ssrc: 3,
        marker: false,
        payload_type: 97,
        stamps: Some(stamps),
    };
    let mut datagram = [0; STAMPED_HEADER_BYTES + 6];
    let count = allocations(|| {
        header.write(&mut datagram);
        let packet = Packet::parse(&datagram).unwrap();
        let unpacked = RtpUnpack::default().unpack(&datagram).unwrap();
        assert_eq!(unpacked.frames(&format, Frames::new(1)), Ok(Frames::new(1)));
        assert_eq!(packet.sender, Some(stamps));
        for len in 0..datagram.len() {
            let _whatever = Packet::parse(&datagram[..len]);
        }
    });
    assert_eq!(count, 0);
}

const RATE: Rate = Rate::HZ_48000;
const LATENCY: Span = Span::from_millis(20);
const PERIOD: Frames = Frames::new(48);
/// TAI minus the local clock.
const WALL: Span = Span::from_secs(1_795_000_000);

fn aaf() -> StreamFormat {
    let sample = SampleFormat::L24;
    let (packet, payload_type) = (Frames::new(6), format_of(sample));
    StreamFormat { codec: None, rate: RATE, channels: Channels::MONO, sample, packet, payload_type }
}

fn talker(form: WireForm, sequence: u16) -> Packetizer {
    Packetizer::new(PacketizerConfig {
        wire: form.pack(),
        format: aaf(),
        identity: Identity { stream: StreamId(7), sequence, timestamp: 0 },
        period: PERIOD,
        stamps: true,
        wall_offset: WALL,
        redundancy: redundancy::Layout::NONE,
        presented_after: LATENCY,
    })
}

fn listener(form: WireForm, only: Option<StreamId>) -> JitterBuffer {
    let mut receiver =
        JitterBuffer::new(JitterBufferConfig::new(form.unpack(only), aaf(), LATENCY));
    receiver.set_presentation_clock(ClockMapping::known(WALL, Span::from_micros(1)));
    receiver
}

/// Class A with pauses, losses and restarts, with and without `mr`.
#[test]
fn aaf_allocates_nothing() {
    for form in [Encapsulation::Ethernet, Encapsulation::Udp].map(WireForm::Avtp) {
        let mut receiver = listener(form, None);
        let mut senders = [0, 117, 50].map(|sequence| talker(form, sequence));
        let (block, mut out) = ([0.5; 48], [0.0; 48]);
        let (mut sent, mut received) = (0_u64, 0_u64);
        let count = allocations(|| {
            for number in 0..1000 {
                let sender = &mut senders[usize::from(number >= 700) + usize::from(number >= 850)];
                let capture = LocalTime::ZERO + RATE.span_of(Frames::new(number * 48));
                let now = capture + RATE.span_of(PERIOD);
                let times = BlockTimes { capture, taken: now, now };
                match number {
                    400..450 => sender.skip(PERIOD, now, |_| {}),
                    680..700 | 830..850 => {}
                    _ => sender.push(&block, times, |packet| {
                        sent += 1;
                        if sent % 100 != 0 {
                            receiver.handle(packet.datagram, now, now);
                        }
                    }),
                }
                let times = PullTimes { now, meets: now, skipped: Frames::ZERO, clock: None };
                receiver.pull(&mut out, times, |_| received += 1);
            }
        });
        assert!(received > 7000, "{form:?}: {received} packets were heard");
        let counters = receiver.counters();
        let counted = (counters.media_clock_restarts, counters.resyncs, counters.on_probation);
        assert_eq!(counted, (2, 3, 1), "{form:?}: {counters:?}");
        assert_eq!(count, 0, "{form:?}");
    }
}

/// A reason, and a change of a PDU that causes it. Returns the new length.
type Refusal = (&'static str, fn(&mut [u8]) -> usize);

const REFUSED: [Refusal; 13] = [
    ("truncated", |_| 23),
    ("version", |pdu| but(pdu, 1, 0x90)),
    ("format", |pdu| but(pdu, 16, 9)),
    ("empty", |pdu| but(pdu, 21, 0)),
    ("partial-frame", |pdu| but(pdu, 21, 17)),
    ("oversized", |pdu| {
        pdu[20..22].copy_from_slice(&24_000_u16.to_be_bytes());
        pdu.len()
    }),
    ("subtype", |pdu| but(pdu, 0, 4)),
    ("unnamed", |pdu| but(pdu, 1, 0x01)),
    ("untimed", |pdu| but(pdu, 1, 0x80)),
    ("other-stream", |pdu| but(pdu, 11, 8)),
    ("sound-beyond-end", |pdu| but(pdu, 21, 19)),
    ("rate", |pdu| but(pdu, 17, 0x70)),
    ("channels", |pdu| but(pdu, 18, 2)),
];

fn but(pdu: &mut [u8], at: usize, is: u8) -> usize {
    pdu[at] = is;
    42
}

#[test]
fn aaf_that_is_refused_allocates_nothing_whatever_the_reason() {
    for (encapsulation, before) in [(Encapsulation::Ethernet, 0), (Encapsulation::Udp, 4)] {
        let form = WireForm::Avtp(encapsulation);
        let (mut sender, mut receiver) = (talker(form, 0), listener(form, Some(StreamId(7))));
        let (block, mut out, mut refused) = ([0.5; 48], [0.0; 48], [0; 13]);
        let mut room = vec![0; before + 24 + 24_000];
        let count = allocations(|| {
            for number in 0..200 {
                let capture = LocalTime::ZERO + RATE.span_of(Frames::new(number * 48));
                let now = capture + RATE.span_of(PERIOD);
                sender.push(&block, BlockTimes { capture, taken: now, now }, |packet| {
                    receiver.handle(packet.datagram, now, now);
                    for ((reason, change), refused) in REFUSED.iter().zip(&mut refused) {
                        room[..packet.datagram.len()].copy_from_slice(packet.datagram);
                        let len = before + change(&mut room[before..]);
                        let received = receiver.handle(&room[..len], now, now);
                        let is = |invalid: Invalid| invalid.name() == *reason;
                        *refused +=
                            u64::from(matches!(received, Received::Invalid(why) if is(why)));
                    }
                });
                let times = PullTimes { now, meets: now, skipped: Frames::ZERO, clock: None };
                receiver.pull(&mut out, times, |_| {});
            }
        });
        assert_eq!(refused, [1600; 13], "{encapsulation:?}: {REFUSED:?}");
        let counters = receiver.counters();
        assert_eq!((counters.received, counters.lost, counters.invalid), (1600, 0, 13 * 1600));
        assert_eq!(count, 0, "{encapsulation:?}");
    }
}

#[test]
fn crf_allocates_nothing() {
    const HEAD: CrfHead = CrfHead {
        stream: StreamId(7),
        number: 0,
        restarts: false,
        uncertain: false,
        nominal: RATE,
        interval: 96,
    };
    let at = |packet: i64| LocalTime::ZERO + HEAD.nominal_span(2 * packet);
    let written = |head: CrfHead, packet: i64, set: Span| {
        let first = WallTime::of_local(at(packet), WALL + set);
        head.write(&[first, first + head.nominal_span(1)])
    };
    let packets: Vec<(i64, Vec<u8>)> = (0..2000_i64)
        .map(|packet| match packet % 50 {
            7 | 21 => packet - 1,
            20 => packet + 1,
            _ => packet,
        })
        .filter(|packet| packet % 50 != 30)
        .map(|packet| {
            let (restarts, uncertain) = (packet >= 500, (700..900).contains(&packet));
            let head = CrfHead { number: packet as u8, restarts, uncertain, ..HEAD };
            let set = if packet < 1200 { Span::ZERO } else { Span::from_micros(300) };
            (packet, written(head, packet, set))
        })
        .collect();
    let good = &packets[0].1;
    let but = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        bytes
    };
    let refused: [Vec<u8>; CrfInvalid::COUNT] = [
        but(&|bytes| bytes.truncate(19)),
        but(&|bytes| bytes[0] = 2),
        but(&|bytes| bytes[1] |= 0x10),
        but(&|bytes| bytes[1] &= 0x7F),
        but(&|bytes| bytes[11] = 8),
        but(&|bytes| bytes[3] = 2),
        but(&|bytes| bytes[12] = 1 << 5),
        but(&|bytes| bytes[15] = 0x81),
        but(&|bytes| bytes[19] = 0),
        but(&|bytes| bytes[17] = 12),
        but(&|bytes| bytes[17] = 24),
        but(&|bytes| bytes[28..36].fill(0)),
    ];
    let (mut follower, mut news) =
        (CrfFollower::new(Encapsulation::Ethernet, Some(StreamId(7)), RATE), CrfNews::default());
    let count = allocations(|| {
        for (packet, bytes) in &packets {
            let now = at(*packet);
            follower.handle(bytes, now);
            refused.iter().for_each(|bytes| follower.handle(bytes, now));
            news.follow(&follower.standing(now), now);
        }
    });
    let standing = follower.standing(at(2000));
    assert_eq!(standing.invalid, [packets.len() as u64; CrfInvalid::COUNT]);
    let CrfCounters {
        received,
        lost,
        reordered,
        duplicate,
        uncertain_clock: uncertain,
        on_probation: doubted,
        jumps,
        media_clock_restarts: restarts,
    } = standing.counters;
    assert_eq!(received, packets.len() as u64);
    let happened = [lost, reordered, duplicate, uncertain, doubted, jumps, restarts];
    assert!(!happened.contains(&0), "{:?}", standing.counters);
    assert_eq!((count, standing.state), (0, CrfState::Received));
}

#[test]
fn rtcp_allocates_nothing() {
    let last_report = CompactNtp::from_bits(1);
    let delay = CompactSpan::from_bits(2);
    let block = ReportBlock {
        ssrc: 1,
        fraction_lost: 0,
        cumulative_lost: 0,
        highest_sequence: 0,
        jitter: 0,
        last_report,
        delay,
    };
    let report = RtcpReport {
        sender: Some(SenderInfo {
            ntp: NtpTime::default(),
            rtp_timestamp: 0,
            packets: 0,
            octets: 0,
        }),
        blocks: &[block; 31],
        cname: "taut@studio",
        reference_time: Some(NtpTime::default()),
        delays: &[DelaySince { ssrc: 1, last_reference: last_report, delay }; 3],
        bye: true,
        ..RtcpReport::new(1)
    };
    let mut buffer = [0; 2048];
    let mut items = 0;
    let count = allocations(|| {
        let len = report.write(&mut buffer).unwrap();
        Compound::parse(&buffer[..len]).unwrap().visit(|_, _| items += 1);
        for cut in 0..len {
            let _whatever = Compound::parse(&buffer[..cut]);
        }
    });
    assert_eq!((count, items), (0, 1 + 31 + 1 + 1 + 3 + 1));
}
