//! A resampler allocates at set-up only.

use tautline_dsp::resample::{Quality, Resampler, Step};
use tautline_trial::{CountingAllocator, allocator_calls};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn nothing_is_allocated_after_set_up() {
    for quality in Quality::ALL {
        let before = allocator_calls();
        let mut resampler = Resampler::new(quality, 3, 48);
        assert!(allocator_calls() > before, "the count counts");
        let (input, mut out) = ([0.25; 3 * 1000], [0.0; 3 * 300]);
        let before = allocator_calls();
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
        assert_eq!(allocator_calls(), before, "{quality}");
    }
}
