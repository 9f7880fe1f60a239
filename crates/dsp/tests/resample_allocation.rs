//! A resampler asks the allocator at set-up and never again.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tautline_dsp::resample::{Quality, Resampler, Step};

thread_local! {
    static ASKED: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is handed to the system's allocator as it came; the count is a plain
// thread-local without a destructor, which allocates nothing itself.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.set(ASKED.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        ASKED.set(ASKED.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn nothing_is_allocated_after_set_up() {
    for quality in Quality::ALL {
        let before = ASKED.get();
        let mut resampler = Resampler::new(quality, 3, 48);
        assert!(ASKED.get() > before, "the count counts");
        let (input, mut out) = ([0.25; 3 * 1000], [0.0; 3 * 300]);
        let before = ASKED.get();
        for ppm in [0.0, 100.0, -500.0, 1e6, -1e6, 0.0] {
            let step = Step::from_ppm(ppm);
            for frames in [1, 48, 300] {
                resampler.push(&input[..3 * resampler.wants(frames, step)]);
                resampler.pull(&mut out[..3 * frames], step);
            }
            resampler.push(&input);
            resampler.pass(&input[..3 * 48]);
        }
        resampler.reset();
        assert_eq!(ASKED.get(), before, "{quality}");
    }
}
