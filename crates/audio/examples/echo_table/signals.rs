//! Two speakers, and a room with loudspeaker and microphone.

use std::f64::consts::{PI, TAU};
use std::io::Cursor;
use std::process::Command;

pub(crate) type AnyError = Box<dyn std::error::Error>;

pub(crate) const RATE: usize = 48_000;
/// Active speech, dBFS.
const SPEECH_LEVEL: f64 = -24.0;
/// Microphone noise, dBFS.
const NOISE_LEVEL: f64 = -80.0;
/// Loudspeaker to microphone.
const DELAY: usize = RATE / 500;

pub(crate) const DOUBLE_TALK: usize = 8;
pub(crate) const ALONE_AGAIN: usize = 12;
pub(crate) const JUMP: usize = 14;
pub(crate) const JUMP_BACK: usize = 18;
pub(crate) const END: usize = 22;

pub(crate) struct Run {
    pub(crate) far: Vec<f32>,
    /// Echo with noise.
    pub(crate) echo: Vec<f32>,
    pub(crate) near: Vec<f32>,
}

impl Run {
    pub(crate) fn new(far: &[f32], near: &[f32], room: &Room) -> Self {
        let path = room.response([0.6, 0.05, 0.02]);
        let jump = room.jump;
        let late = |frame: usize| {
            let jumped = (JUMP * RATE..JUMP_BACK * RATE).contains(&frame);
            frame.checked_sub(DELAY + if jumped { jump } else { 0 })
        };
        let played: Vec<f32> =
            (0..END * RATE).map(|frame| late(frame).map_or(0.0, |frame| far[frame])).collect();
        let mut echo = convolved(&played, &path);
        let mut random = fastrand::Rng::with_seed(4);
        let level = 10_f64.powf(NOISE_LEVEL / 20.0) * 3_f64.sqrt();
        echo.iter_mut().for_each(|sample| *sample += ((random.f64() * 2.0 - 1.0) * level) as f32);
        let speaks = DOUBLE_TALK * RATE..ALONE_AGAIN * RATE;
        let spoken: Vec<f32> = (0..END * RATE)
            .map(|frame| if speaks.contains(&frame) { near[frame - speaks.start] } else { 0.0 })
            .collect();
        let near = convolved(&spoken, &room.response([-0.1, 0.6, 0.1]));
        Self { far: far.to_vec(), echo, near }
    }
}

pub(crate) struct Room {
    pub(crate) name: &'static str,
    /// Metres.
    size: [f64; 3],
    /// RT60 in seconds.
    decay: f64,
    /// Change of the delay, in frames.
    pub(crate) jump: usize,
}

pub(crate) const ROOMS: [Room; 2] = [
    Room { name: "60 ms", size: [3.1, 2.6, 2.4], decay: 0.06, jump: 25 * RATE / 1000 },
    Room { name: "200 ms", size: [5.2, 4.1, 2.7], decay: 0.2, jump: 25 * RATE / 1000 },
];

impl Room {
    /// Impulse response from a source at `offset` metres, with image sources (J. B. Allen and D. A.
    /// Berkley, JASA 65(4), 1979).
    fn response(&self, offset: [f64; 3]) -> Vec<f32> {
        const SOUND: f64 = 343.0;
        const HALF: i64 = 16;
        let [x, y, z] = self.size;
        let surface = 2.0 * (x * y + y * z + z * x);
        // Eyring's formula.
        let absorbed = 1.0 - (-0.161 * x * y * z / (surface * self.decay)).exp();
        let reflects = (1.0 - absorbed).sqrt();
        let microphone = self.size.map(|side| 0.47 * side);
        let length = (self.decay * 1.2 * RATE as f64) as usize;
        let mut response = vec![0.0_f64; length];
        let reach = self.size.map(|side| (self.decay * 1.2 * SOUND / side / 2.0).ceil() as i64);
        let images = |axis: usize| {
            let (side, handles) = (self.size[axis], microphone[axis]);
            (-reach[axis]..=reach[axis]).flat_map(move |fold| {
                [false, true].map(|mirrored| {
                    let source = handles + offset[axis];
                    let place = if mirrored { -source } else { source };
                    let bounces =
                        if mirrored { (fold - 1).abs() + fold.abs() } else { 2 * fold.abs() };
                    (place + 2.0 * fold as f64 * side - handles, bounces)
                })
            })
        };
        for (dx, bounces_x) in images(0) {
            for (dy, bounces_y) in images(1) {
                for (dz, bounces_z) in images(2) {
                    let distance = (dx * dx + dy * dy + dz * dz).sqrt();
                    let at = distance / SOUND * RATE as f64;
                    if at as usize + HALF as usize >= length {
                        continue;
                    }
                    let gain = reflects.powi((bounces_x + bounces_y + bounces_z) as i32) / distance;
                    let whole = at.floor() as i64;
                    for tap in (whole - HALF + 1).max(0)..=whole + HALF {
                        let off = tap as f64 - at;
                        let window = 0.5 + 0.5 * (PI * off / (HALF as f64 + 1.0)).cos();
                        let sinc =
                            if off.abs() < 1e-9 { 1.0 } else { (PI * off).sin() / (PI * off) };
                        response[tap as usize] += gain * window * sinc;
                    }
                }
            }
        }
        // All images add up at 0 Hz, unlike in a real room.
        let pole = 1.0 - TAU * 40.0 / RATE as f64;
        let (mut last, mut out) = (0.0, 0.0);
        let scale = 0.5;
        let passed = response.iter().map(|tap| {
            out = tap - last + pole * out;
            last = *tap;
            (out * scale) as f32
        });
        passed.collect()
    }
}

fn convolved(sound: &[f32], path: &[f32]) -> Vec<f32> {
    const BLOCK: usize = 4096;
    let mut out = vec![0.0; sound.len()];
    for (number, out) in out.chunks_mut(BLOCK).enumerate() {
        let start = number * BLOCK;
        for (tap, gain) in path.iter().enumerate() {
            let from = start as isize - tap as isize;
            let skip = (-from).max(0) as usize;
            if skip >= out.len() {
                break;
            }
            let sound = &sound[(from + skip as isize) as usize..];
            out[skip..].iter_mut().zip(sound).for_each(|(out, sound)| *out += sound * gain);
        }
    }
    out
}

pub(crate) fn speech(voice: &str, text: &str, seconds: usize) -> Result<Vec<f32>, AnyError> {
    let said =
        Command::new("espeak-ng").args(["-v", voice, "-s", "170", "--stdout", text]).output();
    let said = said.map_err(|error| {
        format!("cannot run espeak-ng: {error}\nhint: apt-get install espeak-ng")
    })?;
    // espeak-ng writes a large length, as the stream's is unknown.
    let mut wav = said.stdout;
    let data = wav.len().saturating_sub(44) as u32;
    wav.get_mut(40..44).ok_or("espeak-ng wrote no sound")?.copy_from_slice(&data.to_le_bytes());
    let mut reader = hound::WavReader::new(Cursor::new(wav))?;
    let from = f64::from(reader.spec().sample_rate);
    let samples: Vec<f64> = reader
        .samples::<i16>()
        .map_while(Result::ok)
        .map(|sample| f64::from(sample) / 32768.0)
        .collect();
    let sound = resampled(&samples, from / RATE as f64);
    let sounding: Vec<f64> =
        sound.iter().map(|sample| sample * sample).filter(|power| *power > 1e-7).collect();
    let power = sounding.iter().sum::<f64>() / sounding.len().max(1) as f64;
    let gain = (10_f64.powf(SPEECH_LEVEL / 10.0) / power).sqrt();
    Ok(sound.iter().map(|sample| (sample * gain) as f32).cycle().take(seconds * RATE).collect())
}

/// Windowed sinc, only to higher rates.
fn resampled(samples: &[f64], step: f64) -> Vec<f64> {
    const HALF: isize = 24;
    let count = (samples.len() as f64 / step) as usize;
    let at = |place: isize| {
        usize::try_from(place).ok().and_then(|place| samples.get(place)).copied().unwrap_or(0.0)
    };
    (0..count)
        .map(|frame| {
            let place = frame as f64 * step;
            let whole = place.floor() as isize;
            (whole - HALF + 1..=whole + HALF)
                .map(|tap| {
                    let off = tap as f64 - place;
                    let window = 0.5 + 0.5 * (PI * off / (HALF as f64 + 1.0)).cos();
                    let sinc = if off.abs() < 1e-9 { 1.0 } else { (PI * off).sin() / (PI * off) };
                    at(tap) * window * sinc
                })
                .sum()
        })
        .collect()
}
