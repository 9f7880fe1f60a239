//! MAAP: round trips and standard fields.

use proptest::prelude::*;
use tautline_proto::wire::avtp::maap::{GroupRange, MESSAGE_BYTES, MaapKind, MaapMessage, POOL};

#[test]
fn fields_lie_where_the_standard_has_them() {
    let requested = GroupRange { first: POOL.at(0x1234), count: 2 };
    let conflict = GroupRange::only(POOL.at(0x1235));
    let bytes = MaapMessage { kind: MaapKind::Defend, requested, conflict }.write();
    let expected = [
        0xFE, // subtype: MAAP
        0x02, // sv, version 0, message_type: defend
        0x08, 0x10, // maap_version 1, maap_data_length 16
        0, 0, 0, 0, 0, 0, 0, 0, // stream_id
        0x91, 0xE0, 0xF0, 0x00, 0x12, 0x34, 0x00, 0x02, // requested_start_address, _count
        0x91, 0xE0, 0xF0, 0x00, 0x12, 0x35, 0x00, 0x01, // conflict_start_address, _count
    ];
    assert_eq!(bytes, expected);
}

#[test]
fn invalid_maap_message_is_not_read() {
    let good = MaapMessage::about(MaapKind::Probe, GroupRange::only(POOL.first)).write();
    let read = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.to_vec();
        change(&mut bytes);
        MaapMessage::read(&bytes).is_some()
    };
    assert!(read(&|_| {}));
    assert!(read(&|b| b.extend([0; 18])), "padding of a short frame");
    assert!(read(&|b| (b[2], b[3]) = (0x10, 0x20)), "a later version with more fields");
    assert!(!read(&|b| b.truncate(MESSAGE_BYTES - 1)));
    assert!(!read(&|b| b.clear()));
    assert!(!read(&|b| b[0] = 0x02));
    assert!(!read(&|b| b[1] |= 0x10), "another version of AVTP");
    assert!(!read(&|b| b[1] = 0) && !read(&|b| b[1] = 4), "unknown message types");
    assert!(!read(&|b| b[3] = 15));
}

proptest! {
    #[test]
    fn shared_addresses_of_ranges_are_symmetric(
        one in any::<[u8; 6]>(), count in any::<u16>(), by in -70_000_i64..70_000, other in any::<u16>(),
    ) {
        let number = |at: [u8; 6]| at.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        let moved = (number(one) as i64 + by).clamp(0, (1 << 48) - 1) as u64;
        let first = core::array::from_fn(|byte| moved.to_be_bytes()[byte + 2]);
        let (a, b) = (GroupRange { first: one, count }, GroupRange { first, count: other });
        let shared = a.shared_with(&b);
        prop_assert_eq!(shared, b.shared_with(&a));
        let has = |range: &GroupRange, at: u64| {
            (number(range.first)..number(range.first) + u64::from(range.count)).contains(&at)
        };
        for at in [number(one), moved, number(one) + 9, moved + 9] {
            prop_assert_eq!(has(&a, at) && has(&b, at), shared.is_some_and(|shared| has(&shared, at)));
        }
    }
}
