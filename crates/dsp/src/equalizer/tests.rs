use core::f64::consts::{PI, TAU};

use proptest::prelude::*;
use tautline_trial::snapshot;

use super::*;

const RATE: u32 = 48_000;
const FADE: usize = 480;

fn hertz(frequency: f64) -> Frequency {
    Frequency::from_millihertz((frequency * 1000.0) as u32).unwrap()
}

fn gain(db: f64) -> Gain {
    Gain::from_db(db).unwrap()
}

fn band(shape: BandShape, frequency: f64, q: f64) -> Band {
    Band { shape, frequency: hertz(frequency), q }
}

fn tone(frequency: f64, frames: usize) -> Vec<f32> {
    let step = TAU * frequency / f64::from(RATE);
    (0..frames).map(|at| (step * at as f64).sin() as f32 * 0.25).collect()
}

/// Gain in dB of the settled filter at a whole frequency in hertz, over one second.
fn measured(bands: &[Band], frequency: f64) -> f64 {
    let equalizer = Equalizer::new(RATE, bands).unwrap();
    let mut samples = tone(frequency, 2 * RATE as usize);
    EqualizerFilter::<1>::new(equalizer, FADE).apply(&equalizer, &mut samples);
    let (mut sine, mut cosine) = (0.0, 0.0);
    for (at, sample) in samples.iter().enumerate().skip(RATE as usize) {
        let (s, c) = (TAU * frequency * at as f64 / f64::from(RATE)).sin_cos();
        sine += s * f64::from(*sample);
        cosine += c * f64::from(*sample);
    }
    20.0 * (f64::hypot(sine, cosine) * 2.0 / f64::from(RATE) / 0.25).log10()
}

/// Gain in dB of the analogue prototype in the Audio EQ Cookbook, at `frequency` warped by the
/// bilinear transform.
fn prototype(band: &Band, frequency: f64) -> f64 {
    let warped = |hertz: f64| (PI * hertz / f64::from(RATE)).tan();
    let w = warped(frequency) / warped(f64::from(band.frequency.as_millihertz()) / 1000.0);
    let a = |gain: Gain| 10_f64.powf(gain.as_db() / 40.0);
    let q = band.q;
    // Factors of 1, s and s², with s = jw.
    let ([n0, n1, n2], [d0, d1, d2]) = match band.shape {
        BandShape::Peaking(gain) => ([1.0, a(gain) / q, 1.0], [1.0, 1.0 / (a(gain) * q), 1.0]),
        BandShape::LowShelf(gain) => {
            let a = a(gain);
            ([a * a, a * a.sqrt() / q, a], [1.0, a.sqrt() / q, a])
        }
        BandShape::HighShelf(gain) => {
            let a = a(gain);
            ([a, a * a.sqrt() / q, a * a], [a, a.sqrt() / q, 1.0])
        }
        BandShape::HighPass => ([0.0, 0.0, 1.0], [1.0, 1.0 / q, 1.0]),
        BandShape::LowPass => ([1.0, 0.0, 0.0], [1.0, 1.0 / q, 1.0]),
    };
    let magnitude = |c0: f64, c1: f64, c2: f64| f64::hypot(c0 - c2 * w * w, c1 * w);
    20.0 * (magnitude(n0, n1, n2) / magnitude(d0, d1, d2)).log10()
}

#[test]
fn gain_at_the_bands_frequency_is_exact() {
    for (shape, q, db) in [
        (BandShape::Peaking(gain(6.0)), 2.0, 6.0),
        (BandShape::Peaking(gain(-24.0)), 0.3, -24.0),
        (BandShape::LowShelf(gain(10.0)), 0.71, 5.0),
        (BandShape::HighShelf(gain(-10.0)), 0.71, -5.0),
        (BandShape::HighPass, 2.0, 20.0 * 2_f64.log10()),
        (BandShape::LowPass, 0.5, 20.0 * 0.5_f64.log10()),
    ] {
        for frequency in [100.0, 1_000.0, 10_000.0] {
            let measured = measured(&[band(shape, frequency, q)], frequency);
            assert!((measured - db).abs() < 1e-4, "{shape:?} at {frequency}: {measured}");
        }
    }
}

#[test]
fn each_shape_follows_the_cookbook_at_all_frequencies() {
    let boost = gain(9.0);
    for shape in [
        BandShape::Peaking(boost),
        BandShape::LowShelf(boost),
        BandShape::HighShelf(boost),
        BandShape::HighPass,
        BandShape::LowPass,
    ] {
        let band = band(shape, 1_500.0, 1.2);
        for frequency in [300.0, 900.0, 1_500.0, 2_500.0, 9_000.0] {
            let (measured, due) = (measured(&[band], frequency), prototype(&band, frequency));
            assert!((measured - due).abs() < 1e-4, "{shape:?} at {frequency}: {measured}, {due}");
        }
    }
}

#[test]
fn bands_in_series_add_their_decibels() {
    let bands = [
        band(BandShape::HighPass, 80.0, 0.71),
        band(BandShape::Peaking(gain(-8.0)), 250.0, 1.0),
        band(BandShape::HighShelf(gain(4.0)), 4_000.0, 0.71),
    ];
    for frequency in [60.0, 250.0, 1_000.0, 6_000.0] {
        let sum: f64 = bands.iter().map(|band| prototype(band, frequency)).sum();
        assert!((measured(&bands, frequency) - sum).abs() < 1e-4, "{frequency}");
    }
}

#[test]
fn flat_equalizer_keeps_every_bit() {
    let odd = [1.0 / 3.0, -0.0, f32::MIN_POSITIVE / 2.0, -8.0];
    let mut samples = odd;
    let mut filter = EqualizerFilter::<2>::new(Equalizer::FLAT, FADE);
    filter.apply(&Equalizer::FLAT, &mut samples);
    assert_eq!(samples.map(f32::to_bits), odd.map(f32::to_bits));
}

#[test]
fn channels_do_not_mix() {
    let equalizer = Equalizer::new(RATE, &[band(BandShape::LowPass, 500.0, 2.0)]).unwrap();
    let alone = tone(300.0, 4_800);
    let mut both: Vec<f32> = alone.iter().flat_map(|sample| [*sample, 0.0]).collect();
    let mut one = alone;
    EqualizerFilter::<1>::new(equalizer, FADE).apply(&equalizer, &mut one);
    EqualizerFilter::<2>::new(equalizer, FADE).apply(&equalizer, &mut both);
    assert_eq!(both, one.iter().flat_map(|sample| [*sample, 0.0]).collect::<Vec<_>>());
}

#[test]
fn filters_that_rang_out_are_silent() {
    let equalizer = Equalizer::new(RATE, &[band(BandShape::LowPass, 500.0, 2.0)]).unwrap();
    let mut filter = EqualizerFilter::<1>::new(Equalizer::FLAT, FADE);
    let mut block = [0.25; 48];
    filter.apply(&equalizer, &mut block);
    (0..FADE).for_each(|_| filter.apply(&equalizer, &mut [0.0; 48]));
    assert_eq!(filter.now.equalizer, equalizer);
    assert_eq!(filter.now.states, [[[0.0; 2]]; MAX_BANDS], "no subnormal numbers");
}

fn steepest(samples: &[f32]) -> f32 {
    samples.windows(2).map(|two| (two[1] - two[0]).abs()).fold(0.0, f32::max)
}

fn peak(samples: &[f32]) -> f32 {
    samples.iter().fold(0.0, |peak: f32, sample| peak.max(sample.abs()))
}

#[test]
fn changed_bands_fade_without_a_step() {
    let shape = |db| [band(BandShape::Peaking(gain(db)), 440.0, 2.0)];
    let several = [
        band(BandShape::HighPass, 30.0, 0.71),
        band(BandShape::LowShelf(gain(12.0)), 300.0, 0.71),
        band(BandShape::Peaking(gain(-12.0)), 1_000.0, 4.0),
    ];
    let made = |bands: &[Band]| Equalizer::new(RATE, bands).unwrap();
    let (up, down) = (made(&shape(12.0)), made(&shape(-12.0)));
    let (several, pass) = (made(&several), made(&[band(BandShape::LowPass, 100.0, 0.71)]));
    for (from, to) in [
        (Equalizer::FLAT, up),
        (up, down),
        (down, several),
        (several, pass),
        (pass, Equalizer::FLAT),
    ] {
        let mut samples = tone(440.0, 4 * 9_600);
        let mut filter = EqualizerFilter::<1>::new(from, FADE);
        let (before, after) = samples.split_at_mut(2 * 9_600);
        filter.apply(&from, before);
        after.chunks_mut(48).for_each(|block| filter.apply(&to, block));
        let (before, after) = (&samples[9_600..2 * 9_600], &samples[3 * 9_600..]);
        let change = &samples[2 * 9_600 - 1..3 * 9_600];
        let own = steepest(before).max(steepest(after));
        // The responses differ by at most both peaks; the fade's slope is at most 1.5 / FADE.
        let fades = (peak(before) + peak(after)) * 1.5 / FADE as f32;
        assert!(steepest(change) <= own + fades, "{} {own} {fades}", steepest(change));
    }
}

#[test]
fn invalid_bands_are_rejected_with_their_value() {
    let of = |band: Band| Equalizer::new(RATE, &[band]).unwrap_err();
    let peak = BandShape::Peaking(Gain::UNITY);
    for frequency in [9.999, 24_000.0, 30_000.0] {
        let error = EqualizerError::Frequency(hertz(frequency), RATE);
        assert_eq!(of(band(peak, frequency, 1.0)), error);
    }
    for q in [0.0, -1.0, 0.09, 30.1, f64::INFINITY] {
        assert_eq!(of(band(peak, 100.0, q)), EqualizerError::Q(q));
    }
    assert!(matches!(of(band(peak, 100.0, f64::NAN)), EqualizerError::Q(_)));
    for gain in [gain(24.1), gain(-24.1), Gain::SILENCE] {
        let shapes = [BandShape::Peaking, BandShape::LowShelf, BandShape::HighShelf];
        let errors = shapes.map(|shape| of(band(shape(gain), 100.0, 1.0)));
        assert_eq!(errors, [EqualizerError::Gain(gain); 3]);
    }
    let many = [band(peak, 100.0, 1.0); MAX_BANDS + 1];
    assert_eq!(Equalizer::new(RATE, &many), Err(EqualizerError::Bands(11)));
    assert!(Equalizer::new(RATE, &many[1..]).is_ok());
}

#[test]
fn errors_give_the_value_and_the_range() {
    snapshot!(EqualizerError::Bands(11));
    snapshot!(EqualizerError::Frequency(hertz(24_000.0), RATE));
    snapshot!(EqualizerError::Gain(gain(24.1)));
    snapshot!(EqualizerError::Q(31.0));
}

fn any_band() -> impl Strategy<Value = Band> {
    let shape = prop_oneof![
        (-24.0..24.0).prop_map(|db| BandShape::Peaking(gain(db))),
        (-24.0..24.0).prop_map(|db| BandShape::LowShelf(gain(db))),
        (-24.0..24.0).prop_map(|db| BandShape::HighShelf(gain(db))),
        Just(BandShape::HighPass),
        Just(BandShape::LowPass),
    ];
    let frequency = (10.0_f64.ln()..23_999.0_f64.ln()).prop_map(f64::exp);
    (shape, frequency, 0.1..30.0)
        .prop_map(|(shape, frequency, q)| band(shape, frequency.max(10.0), q))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn bands_are_stable_and_ring_out(
        bands in proptest::collection::vec(any_band(), 0..=MAX_BANDS),
        noise in proptest::collection::vec(-8.0_f32..8.0, 4_800),
    ) {
        let equalizer = Equalizer::new(RATE, &bands).unwrap();
        let mut filter = EqualizerFilter::<1>::new(Equalizer::FLAT, FADE);
        let mut samples = noise;
        samples.chunks_mut(48).for_each(|block| filter.apply(&equalizer, block));
        prop_assert!(samples.iter().all(|sample| sample.is_finite()));
        let loudest = samples.iter().fold(1.0_f32, |peak, sample| peak.max(sample.abs()));
        // At 10 Hz and a Q of 30, the envelope falls by 9.1 dB per second.
        let mut silence = vec![0.0; 100 * RATE as usize];
        silence.chunks_mut(4_800).for_each(|block| filter.apply(&equalizer, block));
        let last = &silence[silence.len() - 4_800..];
        prop_assert!(last.iter().all(|sample| sample.abs() < loudest * 1e-3), "{:?}", last[0]);
    }
}
