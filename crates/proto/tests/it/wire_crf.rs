//! CRF: round trips, standard fields, and invalid packets.

use proptest::prelude::*;
use tautline_proto::packet::StreamId;
use tautline_proto::time::{Span, WallTime};
use tautline_proto::units::Rate;
use tautline_proto::wire::avtp::Encapsulation;
use tautline_proto::wire::avtp::crf::{CRF_HEADER_BYTES, CrfHead, CrfInvalid, CrfPacket};

const HEAD: CrfHead = CrfHead {
    stream: StreamId(0xAABB_CCDD_EEFF_0001),
    number: 0xFE,
    restarts: true,
    uncertain: true,
    nominal: Rate::HZ_48000,
    interval: 96,
};
const FIRST: i64 = 0x1234_5678_9ABC_DEF0;

/// One interval apart.
fn times(head: &CrfHead, count: i64) -> Vec<WallTime> {
    (0..count).map(|at| WallTime::from_unix_nanos(FIRST) + head.nominal_span(at)).collect()
}

fn read(bytes: &[u8]) -> Result<CrfPacket<'_>, CrfInvalid> {
    CrfPacket::read(Encapsulation::Ethernet, bytes)
}

#[test]
fn fields_lie_where_the_standard_has_them() {
    let bytes = HEAD.write(&times(&HEAD, 2));
    let expected = [
        0x04, // subtype: CRF
        0x89, // sv, version 0, mr, tu
        0xFE, // sequence_num
        0x01, // type: AUDIO_SAMPLE
        0xAA, 0xBB, 0xCC, 0xDD, 0xEE, 0xFF, 0x00, 0x01, // stream_id
        0x00, 0x00, 0xBB, 0x80, // pull, base_frequency
        0x00, 0x10, // crf_data_length
        0x00, 0x60, // timestamp_interval
    ];
    assert_eq!(bytes[..CRF_HEADER_BYTES], expected);
    assert_eq!(bytes[20..28], FIRST.to_be_bytes());
    assert_eq!(bytes[28..], (FIRST + 2_000_000).to_be_bytes());
}

#[test]
fn inconsistent_crf_is_refused_with_its_reason() {
    let written = HEAD.write(&times(&HEAD, 6));
    let but = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = written.clone();
        change(&mut bytes);
        bytes
    };
    for (bytes, reason) in [
        (Vec::new(), CrfInvalid::Truncated),
        (but(&|b| b.truncate(19)), CrfInvalid::Truncated),
        (but(&|b| b[0] = 2), CrfInvalid::Subtype),
        (but(&|b| b[1] |= 0x10), CrfInvalid::Version),
        (but(&|b| b[1] &= 0x7F), CrfInvalid::Unnamed),
        (but(&|b| b[3] = 2), CrfInvalid::Type),
        (but(&|b| b[12] = 1 << 5), CrfInvalid::Pull),
        (but(&|b| b[15] = 0x81), CrfInvalid::Frequency),
        (but(&|b| (b[18], b[19]) = (0, 0)), CrfInvalid::Interval),
        // 65,280 events at 48,000 per second.
        (but(&|b| (b[18], b[19]) = (0xFF, 0)), CrfInvalid::Interval),
        (but(&|b| b[17] = 0), CrfInvalid::Length),
        (but(&|b| b[17] = 44), CrfInvalid::Length),
        (but(&|b| b[17] = 56), CrfInvalid::BeyondEnd),
        // 1 ms late, before its predecessor, and after 2262.
        (but(&|b| b[33] ^= 0x10), CrfInvalid::Times),
        (but(&|b| b[28..36].fill(0)), CrfInvalid::Times),
        (but(&|b| (0..6).for_each(|at| b[20 + 8 * at] |= 0x80)), CrfInvalid::Times),
    ] {
        assert_eq!(read(&bytes).map(|packet| packet.head), Err(reason), "{bytes:02x?}");
    }
    let padded = but(&|b| b.extend([0; 20]));
    assert_eq!(read(&padded).map(|packet| packet.times().len()), Ok(6));
    assert!(CrfInvalid::NAMES[CrfInvalid::Times.index()] == "times");
}

proptest! {
    #[test]
    fn written_avtp_header_is_read(
        stream: u64,
        number: u8,
        restarts: bool,
        uncertain: bool,
        rate in proptest::sample::select(Rate::SUPPORTED.to_vec()),
        interval in 1..8000_u16,
        first in 0..i64::MAX / 2,
        count in 1..180_i64,
        ppm in -500..500_i64,
    ) {
        let nominal = Rate::new(rate).unwrap();
        let head = CrfHead { stream: StreamId(stream), number, restarts, uncertain, nominal, interval };
        let first = WallTime::from_unix_nanos(first);
        let apart = |at| head.nominal_span(at) + Span::from_nanos(head.nominal_span(at).as_nanos() * ppm / 1_000_000);
        let times: Vec<_> = (0..count).map(|at| first + apart(at)).collect();
        let mut bytes = head.write(&times);
        let read = CrfPacket::read(Encapsulation::Ethernet, &bytes).unwrap();
        prop_assert_eq!(read.head, head);
        prop_assert_eq!(read.times().collect::<Vec<_>>(), times);
        bytes.splice(0..0, [0, 0, 0, 7]);
        prop_assert_eq!(CrfPacket::read(Encapsulation::Udp, &bytes).unwrap().head, head);
    }

    #[test]
    fn arbitrary_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        for encapsulation in [Encapsulation::Ethernet, Encapsulation::Udp] {
            let _ = CrfPacket::read(encapsulation, &bytes);
        }
    }
}
