//! The wire formats that run in real time allocate nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tautline_dsp::format::SampleFormat;
use tautline_proto::packet::{Instants, Unpack};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Rate};
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
