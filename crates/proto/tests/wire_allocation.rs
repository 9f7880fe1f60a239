//! The wire formats that run in real time allocate nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tautline_dsp::format::SampleFormat;
use tautline_proto::clock::ClockMapping;
use tautline_proto::packet::{Instants, StreamId, Unpack};
use tautline_proto::receiver::{PullTimes, Receiver, ReceiverConfig};
use tautline_proto::redundancy;
use tautline_proto::sender::{BlockTimes, Identity, Sender, SenderConfig};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::WireForm;
use tautline_proto::wire::avtp::{Encapsulation, format_of};
use tautline_proto::wire::ntp::{CompactNtp, CompactSpan, NtpTime};
use tautline_proto::wire::rtcp::*;
use tautline_proto::wire::rtp::*;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: hands everything to the system's allocator; the count is a plain thread-local without a
// destructor, which allocates nothing itself.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of this very function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of this very function.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(run: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    run();
    ALLOCATIONS.get() - before
}

#[test]
fn the_count_sees_an_allocation() {
    assert!(allocations(|| drop(std::hint::black_box(vec![1_u8; 100]))) > 0);
}

#[test]
fn rtp_allocates_nothing() {
    let format = StreamFormat {
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

/// A talker of class A and a listener that counts its frames, through a pause and what is lost: nothing allocates from
/// the first block on.
#[test]
fn aaf_allocates_nothing() {
    const LATENCY: Span = Span::from_millis(20);
    let (rate, sample, period) = (Rate::HZ_48000, SampleFormat::L24, Frames::new(48));
    let format = StreamFormat {
        rate,
        channels: Channels::MONO,
        sample,
        packet: Frames::new(6),
        payload_type: format_of(sample),
    };
    for form in [Encapsulation::Ethernet, Encapsulation::Udp].map(WireForm::Avtp) {
        let wall_offset = Span::from_secs(1_795_000_000);
        let mut sender = Sender::new(SenderConfig {
            wire: form.pack(),
            format,
            identity: Identity { stream: StreamId(7), sequence: 0, timestamp: 0 },
            period,
            stamps: true,
            wall_offset,
            redundancy: redundancy::Layout::NONE,
            presented_after: LATENCY,
        });
        let mut receiver = Receiver::new(ReceiverConfig::new(form.unpack(None), format, LATENCY));
        receiver.set_presentation_clock(ClockMapping::known(wall_offset, Span::from_micros(1)));
        let (block, mut out) = ([0.5; 48], [0.0; 48]);
        let (mut sent, mut heard) = (0_u64, 0_u64);
        let count = allocations(|| {
            for number in 0..1000 {
                let capture = LocalTime::ZERO + rate.span_of(Frames::new(number * 48));
                let now = capture + rate.span_of(period);
                let times = BlockTimes { capture, taken: now, now };
                match (400..450).contains(&number) {
                    true => sender.skip(period, now, |_| {}),
                    false => sender.push(&block, times, |packet| {
                        sent += 1;
                        if sent % 100 != 0 {
                            receiver.handle(packet.datagram, now, now);
                        }
                    }),
                }
                let times = PullTimes { now, meets: now, skipped: Frames::ZERO, clock: None };
                receiver.pull(&mut out, times, |_| heard += 1);
            }
        });
        assert!(heard > 7000, "{form:?}: {heard} packets were heard");
        assert_eq!(count, 0, "{form:?}");
    }
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
