//! Periodic sounds: delays that an onset, ending or envelope proves, and ambiguous ones.

use core::f64::consts::TAU;

use tautline_trial::snapshot;

use super::*;

/// 2.5 s; the sound lasts 1 s from 0.9 s on.
const FRAMES: usize = 120_000;
const ONSET: f64 = 43_200.0;
const LENGTH: f64 = 48_000.0;
const PERIOD: f64 = 160.0;

type Wave = Box<dyn Fn(f64) -> f64>;

fn sine(hertz: f64) -> Wave {
    Box::new(move |at| 0.5 * (TAU * hertz * at / 48_000.0).sin())
}

fn sampled(frames: usize, wave: &Wave) -> Vec<f64> {
    (0..frames).map(|at| wave(at as f64)).collect()
}

fn burst(wave: &Wave) -> Vec<f64> {
    let sample = |at: usize| {
        let at = at as f64 - ONSET;
        if (0.0..LENGTH).contains(&at) { wave(at) } else { 0.0 }
    };
    low_passed(&(0..FRAMES).map(sample).collect::<Vec<_>>(), 20_000.0)
}

fn received(sound: &[f64], way: &Way) -> TapDelays {
    received_with(sound, way, &options())
}

fn received_with(sound: &[f64], way: &Way, options: &AlignOptions) -> TapDelays {
    let [first, second] = noisy(sound, &way.second(sound));
    between(&first, &second, options)
}

fn noisy(first: &[f64], second: &[f64]) -> [Vec<f32>; 2] {
    let mut rng = rng(18);
    [first, second].map(|tap| with_noise(tap, 40.0, &mut rng))
}

fn is_proven(reported: &TapDelays, way: &Way, period: f64) {
    assert!(reported.found().count() >= 2, "{way:?}: {reported:?}");
    assert_eq!(reported.steps, [], "{way:?}: {reported:?}");
    for (at, found) in reported.found() {
        let off = (found.delay.as_f64() - way.delay_at(at.count() as f64)).abs();
        assert!(off < 0.1 + 0.001 * period, "{way:?}: {at:?} {found:?}\n{reported:?}");
        assert!((found.gain / way.gain - 1.0).abs() < 0.05, "{way:?}: {at:?} {found:?}");
    }
    let is_void = |invalid: &InvalidWindow| {
        matches!(
            invalid,
            InvalidWindow::Unlike | InvalidWindow::PastEnd | InvalidWindow::Ambiguous { .. }
        )
    };
    assert!(invalid_rows(reported).into_iter().all(is_void), "{way:?}: {reported:?}");
}

#[test]
fn onset_proves_the_delay_and_polarity_of_a_sine() {
    let sound = burst(&sine(300.0));
    for delay in [0.0, 480.0, 1234.37, -700.5] {
        for gain in [0.5, -0.5] {
            let way = Way { delay, drift: 0.0, gain };
            is_proven(&received(&sound, &way), &way, PERIOD);
        }
    }
}

#[test]
fn envelopes_prove_the_delays_of_periodic_sounds() {
    let square: Wave = Box::new(|at| if at.rem_euclid(PERIOD) < PERIOD / 2.0 { 0.4 } else { -0.4 });
    let two: Wave = Box::new(|at| 0.5 * (sine(300.0)(at) + sine(440.0)(at)));
    let bursts: Wave =
        Box::new(|at| if at.rem_euclid(12_000.0) < 480.0 { sine(1000.0)(at) } else { 0.0 });
    let fade: Wave = Box::new(|at| (at / 24_000.0).min(1.0) * sine(300.0)(at));
    let sines = [50.0, 440.0, 1000.0, 5000.0].map(sine);
    for wave in sines.into_iter().chain([square, two, bursts, fade]) {
        let sound = burst(&wave);
        for gain in [0.5, -0.5] {
            let way = Way { delay: 1234.25, drift: 0.0, gain };
            is_proven(&received(&sound, &way), &way, 960.0);
        }
    }
}

#[test]
fn drifting_clocks_leave_the_onset_of_a_sine_proven() {
    let sound = burst(&sine(300.0));
    for drift in [5e-6, -100e-6] {
        let way = Way { delay: 480.0, drift, gain: 0.5 };
        let reported = received(&sound, &way);
        is_proven(&reported, &way, PERIOD);
        let found = reported.drift.unwrap();
        let off = (found.ppm.as_f64() - 1e6 * drift).abs();
        assert!(off < 2.0 * found.uncertainty.as_f64(), "{drift}: {found:?}");
    }
}

#[test]
fn clicks_further_apart_than_the_range_are_no_rivals() {
    let click = |off: f64| 0.8 * (-(off / 6.0).powi(2)).exp();
    let clicks: Wave = Box::new(move |at| click(at.rem_euclid(24_000.0) - 6000.0));
    let way = Way { delay: 1234.25, drift: 0.0, gain: 0.5 };
    is_proven(&received(&sampled(FRAMES, &clicks), &way), &way, PERIOD);
}

#[test]
fn windows_within_a_sine_carry_on_the_delay_of_its_onset() {
    let sound = burst(&sine(300.0));
    let way = |gain: f64| Way { delay: 480.0, drift: 0.0, gain };
    for gain in [0.5, -0.5] {
        let options = AlignOptions { window: Frames::new(4800), ..options() };
        let reported = received_with(&sound, &way(gain), &options);
        is_proven(&reported, &way(gain), PERIOD);
        let modulo = |at: usize| {
            let delay = reported.windows[at].delay.as_ref();
            delay.unwrap_or_else(|invalid| panic!("{invalid:?}: {reported:?}")).modulo
        };
        assert_eq!((modulo(9), modulo(18)), (None, None), "{reported:?}");
        assert!((modulo(13).unwrap().as_f64() - PERIOD).abs() < 0.05, "{reported:?}");
    }
}

#[test]
fn sine_without_onset_is_ambiguous_modulo_its_period() {
    for (hertz, period) in [(300.0, PERIOD), (440.0, 48_000.0 / 440.0), (1000.0, 48.0)] {
        let sound = sampled(FRAMES, &sine(hertz));
        for (delay, nearest) in [(10.0 * period + 12.5, 12.5), (5.0 * period - 7.25, -7.25)] {
            let second = Way { delay, drift: 0.0, gain: 0.5 }.second(&sound);
            let [first, second] = noisy(&sound[9600..], &second[9600..]);
            let reported = between(&first, &second, &options());
            assert_eq!(reported.found().count(), 0, "{reported:?}");
            let Some(InvalidWindow::Ambiguous { delays, period: Some(found) }) = reported.cause()
            else {
                panic!("{hertz}: {reported:?}")
            };
            assert!((found.as_f64() - period).abs() < 0.05, "{hertz}: {found:?}");
            assert!((delays[0].as_f64() - nearest).abs() < 0.1, "{hertz}: {delays:?}");
            for delay in delays {
                let periods = (delay.as_f64() - nearest) / period;
                assert!((periods - periods.round()).abs() * period < 0.1, "{hertz}: {delays:?}");
            }
            let report = reported.report("channel 1 to 2");
            let row = serde_json::to_value(&report.rows[0]).unwrap();
            let nanos = |frames: f64| frames / 48_000.0 * 1e9;
            let off = |key: &str, frames: f64| (row[key].as_f64().unwrap() - nanos(frames)).abs();
            assert!(off("ambiguous_modulo_ns", period) < 1000.0, "{row}");
            assert!(off("nearest_to_0_ns", nearest) < 2500.0, "{row}");
        }
    }
}

#[test]
fn onset_of_the_second_tap_alone_bounds_its_delay() {
    let (sound, way) =
        (sampled(FRAMES, &sine(300.0)), Way { delay: 1612.5, drift: 0.0, gain: 0.5 });
    // The sound may have begun before the recording.
    let reported = received(&sound, &way);
    let Err(InvalidWindow::Ambiguous { delays, period: Some(_) }) = &reported.windows[0].delay
    else {
        panic!("{reported:?}")
    };
    assert!(delays.iter().all(|delay| delay.as_f64() > 1612.4), "{reported:?}");
    assert!((delays[0].as_f64() - 1612.5).abs() < 0.1, "{reported:?}");
}

#[test]
fn headline_names_periodic_sound_before_silence_and_noise() {
    let delays = [-12.5, 147.5].map(fine).to_vec();
    let ambiguous = InvalidWindow::Ambiguous { delays, period: Some(fine(PERIOD)) };
    let silent = InvalidWindow::Silent(Tap::First);
    let window =
        |invalid: &InvalidWindow| TapWindow { at: Frames::ZERO, delay: Err(invalid.clone()) };
    let of = |invalid_rows: &[&InvalidWindow]| TapDelays {
        rate: Rate::HZ_48000,
        window: Frames::new(24_000),
        windows: invalid_rows.iter().map(|invalid| window(invalid)).collect(),
        steps: Vec::new(),
        drift: None,
    };
    let unlike = InvalidWindow::Unlike;
    assert_eq!(of(&[&silent, &silent, &unlike, &ambiguous]).cause(), Some(&ambiguous));
    assert_eq!(of(&[&silent, &silent, &unlike]).cause(), Some(&unlike));
    assert_eq!(
        of(&[&unlike, &InvalidWindow::EndOfRange, &InvalidWindow::EndOfRange]).cause(),
        Some(&InvalidWindow::EndOfRange)
    );
    assert_eq!(of(&[&silent]).cause(), Some(&silent));
    let report = of(&[&silent, &ambiguous]).report("channel 1 to 2");
    snapshot!(report.rows[0].invalid.as_deref().unwrap_or_default());
}

#[test]
fn dropouts_of_a_sine_leave_its_delay() {
    let sound = burst(&sine(300.0));
    let way = Way { delay: 480.0, drift: 0.0, gain: 0.5 };
    let mut second = way.second(&sound);
    second[66_000..66_480].fill(0.0);
    let [first, second] = noisy(&sound, &second);
    let reported = between(&first, &second, &options());
    for (_, found) in reported.found() {
        assert!((found.delay.as_f64() - 480.0).abs() < 1.0, "{reported:?}");
    }
    assert!(reported.found().count() >= 2, "{reported:?}");
}

#[test]
fn step_within_a_sine_is_known_modulo_its_period() {
    let sound = burst(&sine(300.0));
    let whole = Way { delay: 480.0, drift: 0.0, gain: 0.5 }.second(&sound);
    // The second tap ends within the sound: drops cannot be proven.
    let second: Vec<_> = whole[..60_000].iter().chain(&whole[60_100..80_000]).copied().collect();
    let [first, second] = noisy(&sound, &second);
    let options = AlignOptions { window: Frames::new(4800), ..options() };
    let reported = between(&first[..79_000], &second, &options);
    let [step] = reported.steps[..] else { panic!("{reported:?}") };
    assert!((step.by.as_f64() - 60.0).abs() < 0.5, "{step:?}");
    assert!((step.modulo.unwrap().as_f64() - PERIOD).abs() < 0.05, "{step:?}");
}
