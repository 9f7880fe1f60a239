//! Noise of Opus for music: `cargo run --profile dist -p tautline-codec --example opus_quality`,
//! with `--features bundled` for the bundled libopus.
//!
//! Noise to mask is the total NMR of ITU-R BS.1387 with 48 bands. Below −10 dB errors are inaudible
//! to most listeners; above 0 dB they are audible.
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use core::f64::consts::TAU;
use core::ffi::{CStr, c_int};

use opusic_sys as sys;
use rustfft::num_complex::Complex;
use rustfft::{Fft, FftPlanner};

#[path = "../../dsp/tests/conceal_quality/material.rs"]
mod material;

/// In Hz; `material` expects this name.
const RATE: usize = 48_000;
const SECONDS: usize = 4;
const BITRATES: [i32; 6] = [32_000, 64_000, 96_000, 128_000, 192_000, 256_000];
const PACKETS: [(&str, usize); 4] =
    [("2.5 ms", 120), ("5 ms", 240), ("10 ms", 480), ("20 ms", 960)];
/// RFC 6716 §3.2.1.
const MAX_BYTES: i32 = 1275;

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Constant,
    Constrained,
    Variable,
}

struct Coded {
    samples: Vec<f32>,
    delay: usize,
    packet_bytes: Vec<i32>,
}

fn main() {
    // SAFETY: it takes no arguments and returns a static string.
    let version = unsafe { CStr::from_ptr(sys::opus_get_version_string()) }.to_string_lossy();
    let sounds = [
        ("chords, others in each channel", chords()),
        ("chords and drums", music()),
        ("speech, the same in both channels", both(&material::speech(SECONDS))),
        ("noise, other in each channel", noise()),
    ];
    let kbits = BITRATES.map(|bitrate| format!("{} kbit/s", bitrate / 1000));
    println!(
        "| SNR / NMR in dB | packets | {} |\n|---|---|{}",
        kbits.join(" | "),
        "---|".repeat(6)
    );
    for (name, sound) in &sounds {
        for (ptime, packet) in PACKETS {
            let cells = BITRATES.map(|bitrate| {
                let coded = code(sound, packet, bitrate, Mode::Constant);
                format!("{:.1} / {:.1}", snr(sound, &coded), nmr(sound, &coded))
            });
            println!("| {version}: {name} | {ptime} | {} |", cells.join(" | "));
        }
    }
    let modes = ["CBR", "constrained VBR", "VBR"];
    println!("\n| 5 ms packets | asked | {} |\n|---|---|---|---|---|", modes.join(" | "));
    for (name, sound) in &sounds {
        for bitrate in [96_000, 192_000] {
            let cells = [Mode::Constant, Mode::Constrained, Mode::Variable].map(|mode| {
                let coded = code(sound, 240, bitrate, mode);
                let count = coded.packet_bytes.len() as f64;
                let mean =
                    coded.packet_bytes.iter().map(|bytes| f64::from(*bytes)).sum::<f64>() / count;
                let maximum =
                    coded.packet_bytes.iter().max().map_or(0.0, |bytes| f64::from(*bytes));
                let (snr, nmr) = (snr(sound, &coded), nmr(sound, &coded));
                let kbits = mean * 8.0 * RATE as f64 / 240.0 / 1000.0;
                format!("{snr:.1} / {nmr:.1} in {kbits:.0} kbit/s, longest {:.1} ×", maximum / mean)
            });
            println!("| {version}: {name} | {} kbit/s | {} |", bitrate / 1000, cells.join(" | "));
        }
    }
}

fn code(sound: &[f32], packet: usize, bitrate: i32, mode: Mode) -> Coded {
    let rate = RATE as i32;
    let mut error = 0;
    // SAFETY: both accept any numbers, and the result's place is borrowed.
    let (encoder, decoder) = unsafe {
        let encoder = sys::opus_encoder_create(
            rate,
            2,
            sys::OPUS_APPLICATION_RESTRICTED_LOWDELAY,
            &mut error,
        );
        (encoder, sys::opus_decoder_create(rate, 2, &mut error))
    };
    assert_eq!(error, sys::OPUS_OK, "libopus makes no coder");
    let settings = [
        (sys::OPUS_SET_BITRATE_REQUEST, bitrate),
        (sys::OPUS_SET_VBR_REQUEST, c_int::from(mode != Mode::Constant)),
        (sys::OPUS_SET_VBR_CONSTRAINT_REQUEST, c_int::from(mode == Mode::Constrained)),
    ];
    for (request, value) in settings {
        // SAFETY: the encoder is alive; these requests take one number.
        let answer = unsafe { sys::opus_encoder_ctl(encoder, request, value) };
        assert_eq!(answer, sys::OPUS_OK, "libopus refuses {request}");
    }
    let mut delay: i32 = 0;
    let place: *mut i32 = &mut delay;
    // SAFETY: the encoder is alive; this request takes a place for one number.
    unsafe { sys::opus_encoder_ctl(encoder, sys::OPUS_GET_LOOKAHEAD_REQUEST, place) };
    let mut coded = Coded { samples: Vec::new(), delay: delay as usize, packet_bytes: Vec::new() };
    let (mut room, mut out) = ([0; MAX_BYTES as usize], vec![0.0; 2 * packet]);
    for block in sound.chunks_exact(2 * packet) {
        let frames = packet as c_int;
        // SAFETY: both are alive with two channels, and access only what is borrowed.
        let (bytes, decoded) = unsafe {
            let bytes = sys::opus_encode_float(
                encoder,
                block.as_ptr(),
                frames,
                room.as_mut_ptr(),
                MAX_BYTES,
            );
            (
                bytes,
                sys::opus_decode_float(decoder, room.as_ptr(), bytes, out.as_mut_ptr(), frames, 0),
            )
        };
        assert_eq!(decoded, frames, "a packet of {bytes} bytes");
        coded.packet_bytes.push(bytes);
        coded.samples.extend(&out);
    }
    // SAFETY: they are not used after this.
    unsafe {
        sys::opus_encoder_destroy(encoder);
        sys::opus_decoder_destroy(decoder);
    }
    coded
}

fn aligned(sound: &[f32], coded: &Coded, channel: usize) -> (Vec<f32>, Vec<f32>) {
    let of = |samples: &[f32], from: usize| -> Vec<f32> {
        samples.iter().skip(channel).step_by(2).skip(from).copied().collect()
    };
    let (mut sent, received) = (of(sound, RATE / 10), of(&coded.samples, RATE / 10 + coded.delay));
    sent.truncate(received.len());
    (sent, received)
}

fn snr(sound: &[f32], coded: &Coded) -> f64 {
    let (mut signal, mut error) = (0.0, 0.0);
    for channel in 0..2 {
        let (sent, received) = aligned(sound, coded, channel);
        for (sent, received) in sent.iter().zip(&received) {
            signal += f64::from(*sent).powi(2);
            error += f64::from(sent - received).powi(2);
        }
    }
    10.0 * (signal / error).log10()
}

const WINDOW: usize = 2048;
const WIDTH: f64 = 0.5;
const BANDS: usize = 48;
/// In dB, of a full-scale sine.
const FULL_SCALE: f64 = 92.0;

fn nmr(sound: &[f32], coded: &Coded) -> f64 {
    let fft = FftPlanner::new().plan_fft_forward(WINDOW);
    let middles = core::array::from_fn(middle);
    let (mut total, mut count) = (0.0, 0.0);
    for channel in 0..2 {
        let (sent, received) = aligned(sound, coded, channel);
        let error: Vec<f32> = sent.iter().zip(&received).map(|(a, b)| a - b).collect();
        for (sent, error) in sent.chunks_exact(WINDOW).zip(error.chunks_exact(WINDOW)) {
            let (masks, errors) = (masks(&bands(&*fft, sent), &middles), bands(&*fft, error));
            total += errors.iter().zip(&masks).map(|(error, mask)| error / mask).sum::<f64>();
            count += BANDS as f64;
        }
    }
    10.0 * f64::log10(total / count)
}

fn bands(fft: &dyn Fft<f64>, samples: &[f32]) -> [f64; BANDS] {
    let hann = |at: usize| 0.5 - 0.5 * (TAU * at as f64 / WINDOW as f64).cos();
    let windowed = samples.iter().enumerate().map(|(at, x)| (hann(at) * f64::from(*x)).into());
    let mut bins: Vec<Complex<f64>> = windowed.collect();
    fft.process(&mut bins);
    let full = (WINDOW as f64 / 4.0).powi(2) * 1.5;
    let mut energy = [0.0; BANDS];
    for (bin, value) in bins.iter().enumerate().take(WINDOW / 2).skip(1) {
        let band = (bark(bin as f64 * RATE as f64 / WINDOW as f64) / WIDTH) as usize;
        if let Some(energy) = energy.get_mut(band) {
            *energy += value.norm_sqr() / full * 10_f64.powf(FULL_SCALE / 10.0);
        }
    }
    energy
}

/// BS.1387 §2.1.7, §2.1.8, §3.4.1.
fn masks(energy: &[f64; BANDS], middles: &[f64; BANDS]) -> [f64; BANDS] {
    let mut spread = [0.0; BANDS];
    for (at, energy) in energy.iter().enumerate().filter(|(_, energy)| **energy > 0.0) {
        let level = 10.0 * energy.log10();
        let upwards = (24.0 + 230.0 / middles[at] - 0.2 * level).max(1.0);
        for (to, spread) in spread.iter_mut().enumerate() {
            let apart = (to as f64 - at as f64) * WIDTH;
            let less = if apart < 0.0 { -27.0 * apart } else { upwards * apart };
            *spread += 10_f64.powf((level - less) / 10.0);
        }
    }
    core::array::from_fn(|band| {
        let (bark, khz) = ((band as f64 + 0.5) * WIDTH, middles[band] / 1000.0);
        let below = if bark <= 12.0 { 3.0 } else { 0.25 * bark };
        let quiet =
            3.64 * khz.powf(-0.8) - 6.5 * (-0.6 * (khz - 3.3).powi(2)).exp() + 1e-3 * khz.powi(4);
        (spread[band] / 10_f64.powf(below / 10.0)).max(10_f64.powf(quiet / 10.0))
    })
}

/// Zwicker and Terhardt, 1980.
fn bark(hertz: f64) -> f64 {
    13.0 * (0.000_76 * hertz).atan() + 3.5 * (hertz / 7_500.0).powi(2).atan()
}

fn middle(band: usize) -> f64 {
    let wanted = (band as f64 + 0.5) * WIDTH;
    (1..RATE as u32 / 2).map(f64::from).find(|hertz| bark(*hertz) >= wanted).unwrap_or(20_000.0)
}

fn both(mono: &[f32]) -> Vec<f32> {
    mono.iter().flat_map(|sample| [*sample; 2]).collect()
}

fn chords() -> Vec<f32> {
    let mono = material::chords(SECONDS + 1);
    let late = mono.iter().skip(RATE * 6 / 10);
    mono.iter()
        .zip(late)
        .flat_map(|(left, right)| [*right, *left])
        .take(2 * RATE * SECONDS)
        .collect()
}

fn music() -> Vec<f32> {
    let drums = both(&material::drums(SECONDS));
    chords().iter().zip(&drums).map(|(chords, drums)| 0.6 * chords + 0.4 * drums).collect()
}

fn noise() -> Vec<f32> {
    let mut random = fastrand::Rng::with_seed(1);
    (0..2 * RATE * SECONDS).map(|_| 0.2 * (random.f32() - 0.5)).collect()
}
