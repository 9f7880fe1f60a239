//! Resampled sines.

use tautline_dsp::resample::{Quality, Step};

use crate::measure::{fit, furthest_gain_db, resampled, sine, steady};

const RATES: [f64; 2] = [48_000.0, 44_100.0];

fn bound_db(quality: Quality) -> f64 {
    match quality {
        Quality::LowDelay => -90.0,
        Quality::Balanced => -115.0,
        Quality::Best => -130.0,
    }
}

/// For docs/performance.md: `cargo test -p tautline-dsp --test resample distortion -- --nocapture`.
#[test]
fn distortion_and_noise_stay_below_the_bound_of_each_quality() {
    println!(
        "| quality | delay | rate | 1 kHz | 10 kHz | 15 kHz | 18 kHz | 20 kHz | gain at 20 kHz |"
    );
    for (quality, rate) in Quality::ALL.into_iter().flat_map(|each| RATES.map(|rate| (each, rate)))
    {
        let delay = quality.half() as f64 / rate * 1e6;
        print!("| {quality} | {} frames, {delay:.0} µs | {rate:.0} Hz |", quality.half());
        for hertz in [1000.0, 10_000.0, 15_000.0, 18_000.0, 20_000.0] {
            let fits =
                [100.0, -500.0].map(|ppm| (ppm, steady(quality, rate, hertz, Step::from_ppm(ppm))));
            let worst = fits.iter().map(|(_, fit)| fit.distortion_db()).fold(f64::MIN, f64::max);
            print!(" {worst:.1} dB |");
            for (ppm, fit) in fits.iter().filter(|_| rate == 48_000.0 && hertz <= 15_000.0) {
                let (found, gain) = (fit.distortion_db(), fit.gain_db());
                let what = format!("{quality}, {hertz} Hz, {ppm} ppm");
                assert!(found <= bound_db(quality), "{what}: {found} dB");
                assert!(gain.abs() < 0.01, "{what}: gain {gain} dB");
            }
        }
        println!(" {:+.3} dB |", furthest_gain_db(quality, rate, 20_000.0));
    }
}

#[test]
fn no_sine_to_15_khz_is_an_exception() {
    let step = Step::from_ppm(-500.0);
    let ratio = step.bits() as f64 / Step::ONE.bits() as f64;
    for quality in Quality::ALL {
        for hertz in (250..=15_000).step_by(250) {
            let frequency = f64::from(hertz) / 48_000.0;
            // Resolves images 24 Hz from the sine.
            let out = resampled(quality, step, 0, &sine(frequency, 24_000));
            let found = fit(&out[100..], frequency * ratio).distortion_db();
            assert!(found <= bound_db(quality), "{quality}, {hertz} Hz: {found} dB");
        }
    }
}

#[test]
fn response_is_flat_to_20_khz_at_every_fraction() {
    for quality in Quality::ALL {
        for hertz in (1000..=20_000).step_by(1000) {
            let gain = furthest_gain_db(quality, 48_000.0, f64::from(hertz));
            assert!(gain.abs() <= 0.1, "{quality}, {hertz} Hz: {gain} dB");
        }
    }
}

#[test]
fn the_best_is_flat_to_20_khz_at_44100_hz_too() {
    for hertz in (1000..=20_000).step_by(1000) {
        let gain = furthest_gain_db(Quality::Best, 44_100.0, f64::from(hertz));
        assert!(gain.abs() <= 0.1, "{hertz} Hz: {gain} dB");
    }
}

#[test]
fn low_delay_is_a_quarter_of_a_millisecond_at_48_khz() {
    assert!(Quality::LowDelay.half() * 1000 <= 48_000 / 4);
}

#[test]
fn sine_lies_at_its_estimated_phase() {
    for quality in Quality::ALL {
        for fraction in [1_u32 << 20, 1 << 30, 1 << 31, 3 << 30, u32::MAX] {
            for frequency in [0.01, 0.1, 0.3] {
                let out = resampled(quality, Step::ONE, fraction, &sine(frequency, 2000));
                let found = fit(&out[100..], frequency).turn / frequency;
                let place = 100.0 + f64::from(fraction) / 2_f64.powi(32);
                let turns = (found - place) * frequency;
                let error = (turns - turns.round()) / frequency;
                assert!(error.abs() < 1e-4, "{quality}, {fraction}, {frequency}: {error} frames");
            }
        }
    }
}
