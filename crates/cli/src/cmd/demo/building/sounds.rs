//! Synthesised music and chime, at 48 kHz.

use core::f32::consts::TAU;
use std::path::Path;

use crate::failure::Failure;

pub(super) const RATE: usize = 48_000;

/// Plucked chords, two channels. They repeat without a gap: the last notes end at the start.
pub(super) fn music(frames_per_note: usize, transposed: f32) -> Vec<[f32; 2]> {
    /// Semitones above 220 Hz.
    const NOTES: [f32; 16] =
        [3.0, 7.0, 10.0, 15.0, 0.0, 3.0, 7.0, 12.0, -4.0, 0.0, 3.0, 8.0, -2.0, 2.0, 5.0, 10.0];
    let mut sound = vec![[0.0; 2]; NOTES.len() * frames_per_note];
    let length = sound.len();
    for (number, note) in NOTES.iter().enumerate() {
        let hertz = 220.0 * ((note + transposed) / 12.0).exp2();
        let right = number as f32 / (NOTES.len() - 1) as f32;
        for frame in 0..RATE {
            let sample = 0.12 * struck(frame, hertz, 0.25, &[(1.0, 1.0), (2.0, 0.4), (3.0, 0.15)]);
            let [left_sum, right_sum] = &mut sound[(number * frames_per_note + frame) % length];
            *left_sum += sample * (1.0 - 0.5 * right);
            *right_sum += sample * (0.5 + 0.5 * right);
        }
    }
    sound
}

/// Two bells. The noise of the first strike makes the start exact to a fraction of a frame.
pub(super) fn chime() -> Vec<f32> {
    const BELL: [(f32, f32); 4] = [(1.0, 1.0), (2.76, 0.5), (5.4, 0.25), (8.93, 0.12)];
    let second = RATE / 2;
    let mut noise = 1_u32;
    let sample = |frame: usize| {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let strike = noise.cast_signed() as f32 / (1_u32 << 31) as f32;
        let strike = 0.4 * strike * (-(frame as f32) / 480.0).exp();
        let after = frame.checked_sub(second);
        let second = after.map_or(0.0, |frame| struck(frame, 523.25, 0.5, &BELL));
        strike + 0.25 * (struck(frame, 659.26, 0.5, &BELL) + second)
    };
    (0..2 * RATE).map(sample).collect()
}

/// Partials as multiples of the frequency, with their levels. The tone ends after three decay
/// times.
fn struck(frame: usize, hertz: f32, decay_s: f32, partials: &[(f32, f32)]) -> f32 {
    let seconds = frame as f32 / RATE as f32;
    let tone = |(multiple, level): &(f32, f32)| {
        level
            * (TAU * (hertz * multiple * seconds).fract()).sin()
            * (-seconds * multiple / decay_s).exp()
    };
    partials.iter().map(tone).sum()
}

/// Writes a WAV file of 16 bits.
pub(super) fn write<const CHANNELS: usize>(
    path: &Path,
    sound: impl IntoIterator<Item = [f32; CHANNELS]>,
) -> Result<(), Failure> {
    let samples = sound.into_iter().flatten();
    let data: Vec<u8> =
        samples.flat_map(|sample| ((sample * 32767.0) as i16).to_le_bytes()).collect();
    let (channels, rate, length) = (CHANNELS as u16, RATE as u32, data.len() as u32);
    let mut file =
        [&b"RIFF"[..], &(36 + length).to_le_bytes(), b"WAVEfmt ", &16_u32.to_le_bytes()].concat();
    file.extend([1_u16, channels].map(u16::to_le_bytes).as_flattened());
    file.extend([rate, rate * u32::from(channels) * 2].map(u32::to_le_bytes).as_flattened());
    file.extend([channels * 2, 16].map(u16::to_le_bytes).as_flattened());
    file.extend([&b"data"[..], &length.to_le_bytes(), &data].concat());
    super::super::write(path, &file)
}
