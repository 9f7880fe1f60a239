use core::f64::consts::TAU;
use std::path::Path;

use tautline_proto::units::Rate;

/// Peak of the sounds: −12 dBFS.
const PEAK: f64 = 0.25;
/// Frequencies of the tones in Hz. No period is a whole number of frames, so each position is
/// unique.
const TONES: [f64; 2] = [997.31, 1499.77];
const PARTS: [f64; 3] = [3.0, 1.5, 1.5];
/// Lowest frequency of sweeps in Hz. They end at 0.4 of the rate.
const LOWEST: f64 = 40.0;
/// Fade of sweeps in seconds. They must not start suddenly.
const FADE: f64 = 0.01;

pub(super) const KNOWN_SECONDS: u32 = 6;

/// Stereo WAV: sine, logarithmic sweep and white noise, different per channel.
pub(super) fn write_known(path: &Path, rate: Rate, bits: u16) -> Result<(), hound::Error> {
    let spec = hound::WavSpec {
        channels: TONES.len() as u16,
        sample_rate: rate.hertz(),
        bits_per_sample: bits,
        sample_format: hound::SampleFormat::Int,
    };
    let mut file = hound::WavWriter::create(path, spec)?;
    let mut random = fastrand::Rng::with_seed(1);
    let full = f64::from(1_u32 << (bits - 1));
    let hertz = f64::from(rate.hertz());
    for frame in 0..KNOWN_SECONDS * rate.hertz() {
        for channel in 0..TONES.len() {
            let sample = sample(f64::from(frame) / hertz, channel, hertz, &mut random);
            file.write_sample((PEAK * sample * full).round() as i32)?;
        }
    }
    file.finalize()
}

fn sample(at: f64, channel: usize, rate: f64, random: &mut fastrand::Rng) -> f64 {
    let [tones, sweep, _] = PARTS;
    let (swept, left) = (at - tones, tones + sweep - at);
    if swept < 0.0 {
        return (TAU * TONES[channel] * at).sin();
    }
    if left < 0.0 {
        return 2.0 * random.f64() - 1.0;
    }
    let at = if channel == 0 { swept } else { left };
    let octaves = (0.4 * rate / LOWEST).ln();
    let phase = TAU * LOWEST * sweep / octaves * ((at / sweep * octaves).exp() - 1.0);
    phase.sin() * (swept.min(left) / FADE).min(1.0)
}
