//! Short counters keep their order across wraps.

use proptest::prelude::*;
use tautline_proto::wrap::{Unwrapper, Wrapped, rtp_timestamp};

fn starting_at(value: u32, bits: u32) -> Unwrapper {
    Unwrapper::starting_at(Wrapped { value, bits })
}

/// A wrapped counter that moves by `steps` extends correctly.
fn follows(bits: u32, first: u32, steps: &[i64]) -> Result<(), TestCaseError> {
    let range = 1_i64 << bits;
    let mut unwrapper = starting_at(first, bits);
    let start = i64::from(first) % range;
    let (mut truth, mut highest) = (start, start);
    for step in steps {
        truth = highest + step;
        let wrapped = truth.rem_euclid(range) as u32;
        prop_assert_eq!(unwrapper.peek(wrapped), truth);
        prop_assert_eq!(unwrapper.extend(wrapped), truth);
        highest = highest.max(truth);
        prop_assert_eq!(unwrapper.highest(), highest);
    }
    prop_assert!(truth <= highest);
    Ok(())
}

#[test]
fn a_week_of_packets_is_counted_across_every_wrap() {
    let mut unwrapper = starting_at(65_530, 16);
    for count in 65_530..65_530 + 3_000_000_i64 {
        assert_eq!(unwrapper.extend(Wrapped::of(count, 16).value), count);
    }
}

#[test]
fn a_timestamp_just_before_the_first_lies_before_it() {
    let timestamp = starting_at(3, 32);
    assert_eq!(timestamp.peek(u32::MAX), -1);
    assert_eq!(rtp_timestamp(-1), u32::MAX);
    assert_eq!(timestamp.highest(), 3, "a look changes nothing");
}

#[test]
fn half_the_range_ahead_is_behind() {
    assert_eq!(starting_at(0, 16).peek(0x7FFF), 0x7FFF);
    assert_eq!(starting_at(0, 16).peek(0x8000), -0x8000);
}

proptest! {
    #[test]
    fn sequence_numbers_come_back_whole(
        first in any::<u16>(),
        steps in prop::collection::vec(-0x8000_i64..0x8000, 0..500),
    ) {
        follows(16, first.into(), &steps)?;
    }

    #[test]
    fn counts_of_a_byte_come_back_whole(
        first in 0_u32..256,
        steps in prop::collection::vec(-0x80_i64..0x80, 0..500),
    ) {
        follows(8, first, &steps)?;
    }

    #[test]
    fn timestamps_come_back_whole(
        first in any::<u32>(),
        steps in prop::collection::vec(-0x8000_0000_i64..0x8000_0000, 0..500),
    ) {
        follows(32, first, &steps)?;
    }

    #[test]
    fn order_survives_the_wrap(base in any::<u16>(), ahead in 1_u16..0x4000, between in 0_u16..0x4000) {
        let unwrapper = starting_at(base.into(), 16);
        let earlier = unwrapper.peek(base.wrapping_add(between).into());
        let later = unwrapper.peek(base.wrapping_add(between).wrapping_add(ahead).into());
        prop_assert_eq!(later - earlier, i64::from(ahead));
    }
}
