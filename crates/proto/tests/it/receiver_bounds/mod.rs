//! Under test: a receiver that is told anything, in any order, at any time. It must not panic,
//! wrap a sum, allocate, or give what is no sound.

mod operations;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use tautline_trial::allocator_calls;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        // Those that failed once are tried first.
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(
            "tests/receiver_bounds.proptest-regressions",
        ))),
        ..ProptestConfig::default()
    })]
    #[test]
    fn a_receiver_keeps_its_bounds_whatever_it_is_told(
        bytes in prop::collection::vec(any::<u8>(), 0..3000),
    ) {
        operations::play(&bytes, allocator_calls);
    }
}

#[test]
#[ignore = "soak: ten million operations"]
fn ten_million_operations_in_any_order_break_no_bound() {
    let (mut operations, mut seed) = (0, 0_u64);
    while operations < 10_000_000 {
        seed += 1;
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let bytes: Vec<u8> = (0..8192)
            .map(|_| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                (random >> 32) as u8
            })
            .collect();
        // Told before, so that the last one told is the one that failed.
        eprint!("\rseed {seed}, {operations} operations so far");
        operations += operations::play(&bytes, allocator_calls);
    }
    eprintln!();
}

#[test]
fn what_once_broke_a_bound_breaks_none() {
    let once = include_bytes!("../../../../../fuzz/seeds/receiver/an-arrival-292-years-ago");
    operations::play(once, allocator_calls);
}
