//! Time of concealment in blocks of 48 frames: 1 ms at 48 kHz.

use divan::{Bencher, black_box};
use tautline_dsp::conceal::Concealer;

const FRAMES: usize = 48;
const CHANNELS: [usize; 5] = [1, 2, 8, 16, 64];

fn main() {
    divan::main();
}

fn sound(channels: usize) -> Vec<f32> {
    let mut state = 1_u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..48_000 * channels)
        .map(|at| {
            let (frame, channel) = ((at / channels) as f32, (at % channels) as f32);
            (frame * (0.02 + 0.003 * channel)).sin() * 0.4 + 0.01 * noise()
        })
        .collect()
}

/// The copy into the history.
#[divan::bench(args = CHANNELS)]
fn sound_that_passes(bencher: Bencher, channels: usize) {
    let mut concealer = Concealer::new(channels, 48_000);
    let mut block = sound(channels)[..FRAMES * channels].to_vec();
    bencher.bench_local(|| concealer.sound(black_box(&mut block)));
}

/// Fits models.
#[divan::bench(args = CHANNELS)]
fn hole_that_begins(bencher: Bencher, channels: usize) {
    let mut concealer = Concealer::new(channels, 48_000);
    let mut sound = sound(channels);
    let mut block = vec![0.0; FRAMES * channels];
    concealer.sound(&mut sound);
    bencher
        .with_inputs(|| concealer.clone())
        .bench_local_refs(|concealer| concealer.conceal(black_box(&mut block)));
}

#[divan::bench(args = CHANNELS)]
fn hole_that_goes_on(bencher: Bencher, channels: usize) {
    let mut concealer = Concealer::new(channels, 48_000);
    let mut sound = sound(channels);
    let mut block = vec![0.0; FRAMES * channels];
    concealer.sound(&mut sound);
    concealer.conceal(&mut block);
    bencher
        .with_inputs(|| concealer.clone())
        .bench_local_refs(|concealer| concealer.conceal(black_box(&mut block)));
}

/// 5 % of the 1 ms packets: 10 ms are 1 % of a core.
#[divan::bench(args = CHANNELS)]
fn second_with_five_percent_lost(bencher: Bencher, channels: usize) {
    let mut concealer = Concealer::new(channels, 48_000);
    let mut sound = sound(channels);
    bencher.bench_local(|| {
        for (number, block) in sound.chunks_exact_mut(FRAMES * channels).enumerate() {
            if number % 20 == 19 {
                concealer.conceal(black_box(block));
            } else {
                concealer.sound(black_box(block));
            }
        }
    });
}
