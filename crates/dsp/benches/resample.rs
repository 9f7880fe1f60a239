//! Time of resampling a block of 48 frames: 1 ms at 48 kHz.

use divan::{Bencher, black_box};
use tautline_dsp::resample::{Quality, Resampler, Step};

const FRAMES: usize = 48;

fn main() {
    divan::main();
}

fn noise(channels: usize) -> Vec<f32> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..4 * FRAMES * channels).map(|_| next()).collect()
}

fn blocks(bencher: Bencher, quality: Quality, channels: usize, step: Step) {
    let mut resampler = Resampler::new(quality, channels, FRAMES);
    let (input, mut out) = (noise(channels), vec![0.0; FRAMES * channels]);
    bencher.bench_local(|| {
        let wanted = resampler.wants(FRAMES, step);
        resampler.push(black_box(&input[..wanted * channels]));
        resampler.pull(black_box(&mut out), step);
    });
}

#[divan::bench(args = Quality::ALL)]
fn stereo(bencher: Bencher, quality: Quality) {
    blocks(bencher, quality, 2, Step::from_ppm(100.0));
}

#[divan::bench(args = Quality::ALL)]
fn eight_channels(bencher: Bencher, quality: Quality) {
    blocks(bencher, quality, 8, Step::from_ppm(100.0));
}

#[divan::bench(args = Quality::ALL)]
fn sixty_four_channels(bencher: Bencher, quality: Quality) {
    blocks(bencher, quality, 64, Step::from_ppm(100.0));
}

#[divan::bench]
fn stereo_copied(bencher: Bencher) {
    blocks(bencher, Quality::Balanced, 2, Step::ONE);
}
