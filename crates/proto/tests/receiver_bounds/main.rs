//! Under test: a receiver that is told anything, in any order, at any time. It must not panic,
//! wrap a sum, allocate, or give what is no sound.

mod operations;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every request goes to the system's allocator as it came; the count is beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations() -> usize {
    ALLOCATIONS.get()
}

#[test]
fn the_count_of_allocations_counts() {
    let before = allocations();
    drop(std::hint::black_box(vec![1, 2, 3]));
    assert_eq!(allocations(), before + 1);
}

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
        operations::play(&bytes, allocations);
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
        operations += operations::play(&bytes, allocations);
    }
    eprintln!();
}

#[test]
fn what_once_broke_a_bound_breaks_none() {
    let once = include_bytes!("../../../../fuzz/seeds/receiver/an-arrival-292-years-ago");
    operations::play(once, allocations);
}
