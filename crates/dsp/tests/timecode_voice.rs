//! Time marks through voice paths.

#![expect(clippy::print_stdout, reason = "how many were found is for docs/performance.md")]

use std::io::Write;
use std::process::{Command, Stdio};

use tautline_dsp::timecode::{Finder, FoundMark, MarkStretch, Marker, PlacedMark, RunNumber};

const RATE: u32 = 48_000;
const RUN: RunNumber = RunNumber::new(0x0777_1234);
const SECONDS: usize = 30;
/// Before it, marks have no known position.
const SETTLE: usize = RATE as usize * 2;

fn marks() -> (Vec<f32>, Vec<PlacedMark>) {
    let (mut sound, mut placed) = (vec![0.0; RATE as usize * SECONDS], Vec::new());
    Marker::stretched(RUN, MarkStretch::for_voice(RATE))
        .fill(1, &mut sound, |mark| placed.push(mark));
    (sound, placed)
}

fn found_in(sound: &[f32]) -> Vec<FoundMark> {
    let mut finder = Finder::stretched(RUN, MarkStretch::for_voice(RATE));
    let mut all = Vec::new();
    finder.push(sound, |found| all.push(found));
    all
}

/// Share within the uncertainty of one delay, and that delay in frames.
fn judge(name: &str, sound: &[f32]) -> (f64, f64) {
    let (_, placed) = marks();
    let end = sound.len() - 3 * MarkStretch::for_voice(RATE).spacing();
    let counts = |mark: &&PlacedMark| (SETTLE..end).contains(&mark.frame);
    let played = placed.iter().filter(counts).count();
    let delays: Vec<(f64, f64)> = found_in(sound)
        .iter()
        .filter_map(|found| {
            let of = placed.iter().filter(counts).find(|mark| mark.number == found.number)?;
            let delay = (found.frame - of.frame as i64) as f64 + found.fraction;
            Some((delay, found.uncertainty))
        })
        .collect();
    let mut sorted: Vec<f64> = delays.iter().map(|(delay, _)| *delay).collect();
    sorted.sort_by(f64::total_cmp);
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
    let within = delays.iter().filter(|(delay, unsure)| (delay - median).abs() <= *unsure).count();
    let widest = delays.iter().map(|(_, unsure)| *unsure).fold(0.0, f64::max);
    println!(
        "{name}: {} of {played} found, {within} within what they say, {widest:.2} frames at most, of \
         {median:.2}",
        delays.len()
    );
    assert!(within * 100 >= delays.len() * 95, "{within} of {}", delays.len());
    (delays.len() as f64 / played as f64, median)
}

#[test]
fn marks_for_voices_are_found_on_their_frame() {
    let (share, delay) = judge("as they are", &marks().0);
    assert!(share == 1.0 && delay.abs() < 0.02, "{share} {delay}");
}

/// 3.4 kHz at 8 kHz, 8-bit µ-law.
fn telephone(sound: &[f32], minimum: f64) -> Vec<f32> {
    // Biquads of the audio EQ cookbook.
    let filter = |sound: Vec<f32>, hertz: f64, is_high: bool| -> Vec<f32> {
        let turn = core::f64::consts::TAU * hertz / f64::from(RATE);
        let (alpha, cos) = (turn.sin() / core::f64::consts::SQRT_2, turn.cos());
        let edge = if is_high { -(1.0 + cos) } else { 1.0 - cos };
        let (b0, a0) = (edge.abs() / 2.0, 1.0 + alpha);
        let (mut x, mut y) = ([0.0; 2], [0.0; 2]);
        let pass = |sample: f32| {
            let now = f64::from(sample);
            let sum = b0 * now + edge * x[0] + b0 * x[1] + 2.0 * cos * y[0] - (1.0 - alpha) * y[1];
            (x, y) = ([now, x[0]], [sum / a0, y[0]]);
            y[0] as f32
        };
        sound.into_iter().map(pass).collect()
    };
    let mut sound = sound.to_vec();
    for (hertz, is_high) in [(minimum, true), (3400.0, false), (3400.0, false)] {
        sound = filter(sound, hertz, is_high);
    }
    let coarse = |sample: f32| {
        let squeezed = (1.0 + 255.0 * sample.abs()).ln() / 256_f32.ln();
        let step = (squeezed * 127.0).round() / 127.0;
        ((256_f32.powf(step) - 1.0) / 255.0).copysign(sample)
    };
    let low: Vec<f32> = sound.iter().step_by(6).map(|sample| coarse(*sample)).collect();
    // As in a cheap converter: held, then smoothed.
    let held = low.iter().flat_map(|sample| [*sample; 6]).collect();
    filter(filter(held, 3400.0, false), 3400.0, false)
}

#[test]
fn marks_for_voices_are_found_through_a_telephone() {
    for minimum in [300.0, 200.0, 100.0, 20.0] {
        let (share, _) =
            judge(&format!("telephone from {minimum} Hz"), &telephone(&marks().0, minimum));
        assert!(share >= 0.99, "{share}");
    }
}

fn through_opus(sound: &[f32], hertz: u32, bits: u32) -> Option<Vec<f32>> {
    let bytes: Vec<u8> = sound.iter().flat_map(|sample| sample.to_le_bytes()).collect();
    let raw = ["-f", "f32le", "-ac", "1", "-ar", "48000", "-i", "-"].map(str::to_owned);
    let (hertz, bits) = (hertz.to_string(), bits.to_string());
    let coded =
        ["-ar", &hertz, "-c:a", "libopus", "-application", "voip", "-b:a", &bits, "-f", "ogg", "-"];
    let ogg = ffmpeg(raw.into_iter().chain(coded.map(str::to_owned)), bytes)?;
    let decoded = ["-f", "ogg", "-i", "-", "-f", "f32le", "-ac", "1", "-ar", "48000", "-"];
    let bytes = ffmpeg(decoded.map(str::to_owned).into_iter(), ogg)?;
    let samples = bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    Some(samples.collect())
}

fn ffmpeg(words: impl Iterator<Item = String>, input: Vec<u8>) -> Option<Vec<u8>> {
    let mut child = Command::new("ffmpeg")
        .args(["-hide_banner", "-loglevel", "error"])
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut stdin = child.stdin.take()?;
    let writing = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().ok()?;
    writing.join().ok()?.ok()?;
    (output.status.success() && !output.stdout.is_empty()).then_some(output.stdout)
}

#[test]
fn marks_for_voices_are_found_through_opus() {
    for (hertz, bits) in [(48_000, 24_000), (8_000, 24_000), (8_000, 12_000)] {
        let Some(sound) = through_opus(&marks().0, hertz, bits) else {
            // Same as `tautline_trial::skipped`, whose crate depends on this one.
            let said = "SKIPPED (package): marks_for_voices_are_found_through_opus: ffmpeg with \
                        libopus is not installed\n";
            std::io::stderr().write_all(said.as_bytes()).unwrap();
            return;
        };
        let (share, _) = judge(&format!("opus, {hertz} Hz, {bits} bit/s"), &sound);
        assert!(share >= 0.99, "{share}");
    }
}
