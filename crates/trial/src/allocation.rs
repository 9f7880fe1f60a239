//! A counting allocator, to test that code allocates nothing or frees everything.
#![expect(unsafe_code, reason = "the trait of a global allocator is unsafe")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};

/// Bytes allocated minus bytes freed by all threads.
static ALL: AtomicI64 = AtomicI64::new(0);

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static LIVE: Cell<i64> = const { Cell::new(0) };
}

/// The system allocator with per-thread counters, for `#[global_allocator]`.
pub struct CountingAllocator;

// SAFETY: the system's allocator gets every request. The thread-local counters do not allocate.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        LIVE.set(LIVE.get() + layout.size() as i64);
        ALL.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        CALLS.set(CALLS.get() + 1);
        LIVE.set(LIVE.get() - layout.size() as i64);
        ALL.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

pub fn allocator_calls() -> u64 {
    CALLS.get()
}

/// Bytes allocated minus bytes freed by the current thread.
pub fn live_bytes() -> i64 {
    LIVE.get()
}

/// Bytes allocated minus bytes freed by all threads.
pub fn live_bytes_of_all() -> i64 {
    ALL.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: CountingAllocator = CountingAllocator;

    #[test]
    fn allocations_and_frees_are_counted() {
        let (calls, live) = (allocator_calls(), live_bytes());
        let block = std::hint::black_box(vec![0_u8; 100]);
        assert_eq!((allocator_calls() - calls, live_bytes() - live), (1, 100));
        drop(block);
        assert_eq!((allocator_calls() - calls, live_bytes() - live), (2, 0));
    }
}
