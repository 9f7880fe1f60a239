//! Time of finding time marks in 1 s of sound at 48 kHz; 10 ms are 1 % of a core.

use divan::{Bencher, black_box};
use tautline_dsp::timecode::{Finder, MarkStretch, Marker, RunNumber};

const RATE: usize = 48_000;

fn main() {
    divan::main();
}

/// The marks have a peak of 0.126.
fn sound(loud: f32, marks: f32) -> Vec<f32> {
    let (mut sound, mut state) = (vec![0.0; 3 * RATE], 1_u32);
    Marker::new().fill(1, &mut sound, |_| {});
    for (frame, sample) in sound.iter_mut().enumerate() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let noise = (state >> 8) as f32 / (1 << 23) as f32 - 1.0;
        *sample = *sample * marks + loud * ((frame as f32 * 0.03).sin() + 0.4 * noise);
    }
    sound
}

fn second(bencher: Bencher, loud: f32, marks: f32) {
    let (sound, mut finder, mut found) = (sound(loud, marks), Finder::new(), 0);
    finder.push(&sound[..2 * RATE], |_| {});
    // Marks with other numbers would end the run.
    bencher.bench_local(|| {
        finder.push(black_box(&sound[2 * RATE..]), |_| found += 1);
    });
    black_box(found);
}

#[divan::bench]
fn clear_marks(bencher: Bencher) {
    second(bencher, 0.0, 1.0);
}

#[divan::bench]
fn marks_below_other_sound(bencher: Bencher) {
    second(bencher, 0.15, 1.0);
}

#[divan::bench]
fn voice_marks_below_other_sound(bencher: Bencher) {
    let (run, stretch) = (RunNumber::default(), MarkStretch::for_voice(RATE as u32));
    let mut sound = sound(0.15, 0.0);
    let mut marks = vec![0.0; sound.len()];
    Marker::stretched(run, stretch).fill(1, &mut marks, |_| {});
    sound.iter_mut().zip(&marks).for_each(|(sample, mark)| *sample += mark);
    let (mut finder, mut found) = (Finder::stretched(run, stretch), 0);
    finder.push(&sound[..2 * RATE], |_| {});
    bencher.bench_local(|| {
        finder.push(black_box(&sound[2 * RATE..]), |_| found += 1);
    });
    black_box(found);
}

#[divan::bench]
fn sound_without_marks(bencher: Bencher) {
    second(bencher, 0.15, 0.0);
}
