mod periodic;
mod sounds;

use fastrand::Rng;

use super::*;
use sounds::{Kind, Way, low_passed, with_noise};

fn options() -> AlignOptions {
    AlignOptions::new(Rate::HZ_48000)
}

fn rng(seed: u64) -> Rng {
    Rng::with_seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

fn taps(way: &Way, frames: usize, seed: u64) -> [Vec<f32>; 2] {
    taps_of(&Kind::White.sound(frames, &mut rng(seed)), way, seed)
}

fn taps_of(sound: &[f64], way: &Way, seed: u64) -> [Vec<f32>; 2] {
    let mut rng = self::rng(!seed);
    [sound.to_vec(), way.second(sound)].map(|tap| with_noise(&tap, 60.0, &mut rng))
}

fn still(delay: f64) -> Way {
    Way { delay, drift: 0.0, gain: 1.0 }
}

fn invalid_rows(reported: &TapDelays) -> Vec<&InvalidWindow> {
    reported.windows.iter().filter_map(|window| window.delay.as_ref().err()).collect()
}

fn errors(reported: &TapDelays, truth: impl Fn(f64) -> f64) -> Vec<f64> {
    let error = |(at, delay): (Frames, &TapDelay)| delay.delay.as_f64() - truth(at.count() as f64);
    reported.found().map(error).collect()
}

fn within(ratios: &[f64]) -> (usize, f64) {
    let inside = ratios.iter().filter(|ratio| **ratio <= 1.0).count();
    (inside, ratios.iter().copied().fold(0.0, f64::max))
}

#[test]
fn align_bound_holds_in_95_percent_and_doubled_in_all_cases() {
    let (mut delays, mut drifts) = (Vec::new(), Vec::new());
    for seed in 0..200 {
        let mut rng = self::rng(seed);
        let kind = Kind::ALL[seed as usize % Kind::ALL.len()];
        let way = Way {
            delay: 4800.0 * rng.f64(),
            drift: 1e-4 * (2.0 * rng.f64() - 1.0),
            gain: if rng.bool() { 1.0 } else { -0.5 },
        };
        let below = 20.0 + 20.0 * rng.f64();
        let sound = kind.sound(54_000, &mut rng);
        let first = with_noise(&sound, below, &mut rng);
        let second = with_noise(&way.second(&sound), below, &mut rng);
        let reported = between(&first, &second, &options());
        assert!(
            reported.windows.len() == 2 && reported.steps.is_empty(),
            "{seed} {kind:?}: {reported:?}"
        );
        let (at, found) =
            reported.found().next().unwrap_or_else(|| panic!("{seed} {kind:?}: {reported:?}"));
        let off = (found.delay.as_f64() - way.delay_at(at.count() as f64)).abs();
        assert!((found.gain / way.gain - 1.0).abs() < 0.02, "{seed} {kind:?}: {reported:?}");
        delays.push(off / found.uncertainty.as_f64());
        let drift = reported.drift.unwrap();
        let off = (drift.ppm.as_f64() - 1e6 * way.drift).abs();
        drifts.push(off / drift.uncertainty.as_f64());
    }
    for (of, ratios) in [("delay", delays), ("drift", drifts)] {
        let (inside, max_delay) = within(&ratios);
        assert!((181..=198).contains(&inside) && max_delay <= 2.0, "{of}: {inside}, {max_delay}");
    }
}

#[test]
fn align_bound_is_tight_for_wideband_noise() {
    let mut rng = self::rng(5);
    for (kind, below, bound) in [(Kind::White, 26.0, 0.001), (Kind::Narrow, 0.0, 0.1)] {
        let sound = kind.sound(54_000, &mut rng);
        let way = still(1234.567);
        let first = with_noise(&sound, below, &mut rng);
        let second = with_noise(&way.second(&sound), below, &mut rng);
        let reported = between(&first, &second, &options());
        assert_eq!(reported.found().count(), 2, "{reported:?}");
        for (_, found) in reported.found() {
            assert!(found.uncertainty.as_f64() < bound, "{kind:?}: {found:?}");
            assert!((found.delay.as_f64() - 1234.567).abs() < 2.0 * bound, "{kind:?}: {found:?}");
        }
    }
}

#[test]
fn a_digital_copy_is_as_late_as_it_is_either_way() {
    let [first, _] = taps(&still(0.0), 96_000, 3);
    for late in [0_usize, 1, 480, 4799] {
        let second: Vec<_> =
            core::iter::repeat_n(0.0, late).chain(first.iter().copied()).take(96_000).collect();
        for (sign, reported) in [
            (1.0, between(&first, &second, &options())),
            (-1.0, between(&second, &first, &options())),
        ] {
            let errors = errors(&reported, |_| sign * late as f64);
            assert!(errors.len() >= 3, "{late}: {reported:?}");
            assert!(errors.iter().all(|off| off.abs() < 1e-4), "{late}: {errors:?}");
            let DelayDrift { ppm, uncertainty } = reported.drift.unwrap();
            assert!(ppm.as_f64().abs() <= uncertainty.as_f64(), "{late}: {reported:?}");
            assert!(uncertainty.as_f64() < 0.01, "{late}: {reported:?}");
        }
    }
}

#[test]
fn uncertainty_of_a_drifting_delay_covers_the_windows() {
    let way = Way { delay: 480.0, drift: -50e-6, gain: 1.0 };
    let [first, second] = taps(&way, 240_000, 3);
    let row = between(&first, &second, &options()).report("taps").rows.remove(0);
    let summary = row.measured.unwrap();
    let half = Span::from_nanos(summary.range_ns.unwrap()).half();
    // 50 ppm of the 4 s between the first and the last of nine windows.
    assert!((half - Span::from_micros(100)).abs() < Span::from_micros(2), "{half}");
    let unsure = row.uncertainty.unwrap();
    assert!((half..half + Span::from_micros(2)).contains(&unsure), "{unsure}");
    let median = row.figures.iter().find(|figure| figure.key == "delay_p50_ns").unwrap();
    assert_eq!(median.value.as_i64(), summary.p50_ns);
}

#[test]
fn offset_of_either_tap_does_not_change_the_delay() {
    let [first, second] = taps(&still(300.5), 96_000, 3);
    let offset = |tap: &[f32], by: f32| tap.iter().map(|sample| sample + by).collect::<Vec<_>>();
    for [one, other] in [[10.0, 0.0], [0.0, -10.0], [10.0, 10.0]] {
        let reported = between(&offset(&first, one), &offset(&second, other), &options());
        let errors = errors(&reported, |_| 300.5);
        assert_eq!(errors.len(), 3, "{one} {other}: {reported:?}");
        assert!(errors.iter().all(|off| off.abs() < 1e-3), "{one} {other}: {errors:?}");
    }
    let silent = between(&offset(&[0.0; 96_000], 0.5), &second, &options());
    assert_eq!(silent.windows[0].delay, Err(InvalidWindow::Silent(Tap::First)));
}

#[test]
fn a_drift_of_500_ppm_is_followed() {
    for drift in [5e-4, -5e-4] {
        let way = Way { delay: 1000.25, drift, gain: 1.0 };
        let [first, second] = taps(&way, 480_000, 9);
        let reported = between(&first, &second, &options());
        assert_eq!(
            (reported.found().count(), reported.steps.len()),
            (19, 0),
            "{:?}",
            invalid_rows(&reported)
        );
        let errors = errors(&reported, |at| way.delay_at(at));
        assert!(errors.iter().all(|off| off.abs() < 1e-3), "{errors:?}");
        let ppm = reported.drift.unwrap().ppm.as_f64();
        assert!((ppm - 1e6 * drift).abs() < 0.01, "{ppm}");
    }
}

#[test]
fn a_sine_is_ambiguous_and_its_candidates_hold_the_truth() {
    for hertz in [440.0, 997.0, 6000.0] {
        let turn = core::f64::consts::TAU * hertz / 48_000.0;
        let sound: Vec<_> = (0..72_000).map(|at| (turn * at as f64).sin()).collect();
        let way = still(100.0);
        let reported = between(
            &with_noise(&sound, 40.0, &mut rng(1)),
            &with_noise(&way.second(&sound), 40.0, &mut rng(2)),
            &AlignOptions { max_delay: Frames::new(150), ..options() },
        );
        for invalid in invalid_rows(&reported) {
            let InvalidWindow::Ambiguous { delays: candidates, period: Some(_) } = invalid else {
                panic!("{hertz}: {invalid:?}")
            };
            // A sine inverted and moved by half a period is the same.
            let half = 24_000.0 / hertz;
            let off = |frames: &FineFrames| {
                let halves = (frames.as_f64() - 100.0) / half;
                (halves - halves.round()).abs() * half
            };
            assert!(candidates.len() > 1, "{hertz}: {candidates:?}");
            assert!(
                candidates.iter().all(|frames| off(frames) < 0.05 * half),
                "{hertz}: {candidates:?}"
            );
        }
        assert_eq!(reported.found().count(), 0, "{hertz}: {reported:?}");
    }
}

#[test]
fn missing_delay_has_a_reason() {
    let [first, second] = taps(&still(300.5), 144_000, 4);
    let [other, _] = taps(&still(0.0), 144_000, 5);
    let silent = vec![0.0; 144_000];
    let why = |first: &[f32], second: &[f32]| {
        let reported = between(first, second, &options());
        assert_eq!((reported.found().count(), reported.drift), (0, None), "{reported:?}");
        invalid_rows(&reported)[0].clone()
    };
    assert_eq!(why(&silent, &second), InvalidWindow::Silent(Tap::First));
    assert_eq!(why(&first, &silent), InvalidWindow::Silent(Tap::Second));
    assert_eq!(why(&first, &other), InvalidWindow::Unlike);
    let near = AlignOptions { max_delay: Frames::new(200), ..options() };
    let reported = between(&first, &second, &near);
    assert_eq!(reported.found().count(), 0, "it lies beyond the range: {reported:?}");
    let reported = between(&first, &second[..120_000 + 100], &options());
    assert!(reported.found().count() >= 4, "{reported:?}");
    let last = reported.windows.last().unwrap();
    assert_eq!(last.delay, Err(InvalidWindow::PastEnd), "{reported:?}");
}

#[test]
fn window_with_unrecorded_sound_is_invalid() {
    let [first, second] = taps(&still(2400.0), 48_000, 6);
    let reported = between(&first, &second, &options());
    assert!(reported.windows[0].delay.is_ok(), "{reported:?}");
    assert_eq!(reported.windows[1].delay, Err(InvalidWindow::PastEnd), "{reported:?}");
}

#[test]
fn polarity_and_gain_are_reported() {
    for gain in [-2.0, 0.1, -0.1] {
        let [first, second] = taps(&Way { delay: 20.5, drift: 0.0, gain }, 72_000, 8);
        let reported = between(&first, &second, &options());
        assert!(reported.found().count() >= 2, "{reported:?}");
        for (_, found) in reported.found() {
            assert!((found.gain / gain - 1.0).abs() < 0.01, "{gain}: {found:?}");
        }
    }
}

#[test]
fn dropped_and_inserted_frames_are_steps_with_their_place() {
    let way = Way { delay: 480.25, drift: 20e-6, gain: 1.0 };
    for at in [100_000_usize, 96_000, 107_999] {
        for by in [1_i64, 48, 960, -1, -48, -960] {
            let [first, whole] = taps(&way, 288_000, 11);
            let cut = at + 480;
            let mut second = whole[..cut].to_vec();
            match by {
                1.. => {
                    second.extend(vec![0.0; by as usize]);
                    second.extend(&whole[cut..]);
                }
                _ => second.extend(&whole[cut + by.unsigned_abs() as usize..]),
            }
            let reported = between(&first, &second, &options());
            let [step] = reported.steps[..] else { panic!("{at} {by}: {reported:?}") };
            assert!((step.by.as_f64() - by as f64).abs() < 0.01, "{at} {by}: {step:?}");
            let off = step.at.count() - at as i64;
            assert!((-8..=8).contains(&off), "{at} {by}: {step:?}");
            let ppm = reported.drift.unwrap().ppm.as_f64();
            assert!((ppm - 20.0).abs() < 0.2, "{at} {by}: {ppm}");
            let truth =
                |frame: f64| way.delay_at(frame) + if frame > at as f64 { by as f64 } else { 0.0 };
            let errors = errors(&reported, truth);
            assert!(errors.len() >= 9, "{at} {by}: {:?}", invalid_rows(&reported));
            assert!(errors.iter().all(|off| off.abs() < 0.01), "{at} {by}: {errors:?}");
        }
    }
}

#[test]
fn taps_with_different_filters_are_still_aligned() {
    let sound = Kind::White.sound(72_000, &mut rng(21));
    let way = still(731.3);
    let mut rng = self::rng(22);
    let first = with_noise(&sound, 40.0, &mut rng);
    let second = with_noise(&low_passed(&way.second(&sound), 3000.0), 40.0, &mut rng);
    let reported = between(&first, &second, &options());
    assert!(reported.found().count() >= 2, "{reported:?}");
    for (_, found) in reported.found() {
        let off = (found.delay.as_f64() - 731.3).abs();
        assert!(off <= 2.0 * found.uncertainty.as_f64(), "{found:?}");
    }
}

#[test]
fn a_recording_shorter_than_a_window_is_one() {
    let [first, second] = taps(&still(10.5), 6000, 13);
    let options = AlignOptions { max_delay: Frames::new(100), ..options() };
    let reported = between(&first, &second, &options);
    assert_eq!((reported.windows.len(), reported.window), (1, Frames::new(6000)), "{reported:?}");
    let errors = errors(&reported, |_| 10.5);
    assert!(errors.len() == 1 && errors[0].abs() < 1e-3, "{reported:?}");
    for frames in [0, 1, 63, 64, 200] {
        let reported = between(&first[..frames], &second[..frames], &options);
        assert!(
            reported.windows.len() <= 1 && reported.found().count() == 0,
            "{frames}: {reported:?}"
        );
    }
}

/// Unrelated 16-bit sines with almost nothing in between.
fn lines(frames: usize, later: f64, seed: u64) -> Vec<f32> {
    let mut rng = self::rng(seed);
    let sines: Vec<_> = (0..60)
        .map(|_| (100.0 + 9900.0 * rng.f64(), core::f64::consts::TAU * rng.f64()))
        .map(|(hertz, phase)| (core::f64::consts::TAU * hertz / 48_000.0, phase))
        .collect();
    let sample = |at: usize| {
        let at = at as f64 - later;
        sines.iter().map(|(turn, phase)| (turn * at + phase).sin()).sum::<f64>() / 120.0
    };
    (0..frames).map(|at| ((sample(at) * 32_768.0).round() / 32_768.0) as f32).collect()
}

#[test]
fn line_spectrum_is_found_with_right_polarity_for_any_window() {
    let second = Rate::HZ_48000.hertz() as usize;
    for seed in 0..3 {
        for later in [0.0, 137.37] {
            let (first, whole) = (lines(6 * second, 0.0, seed), lines(6 * second, later, seed));
            for (millis, gain) in
                [500, 3000, 6000, 20_000].into_iter().flat_map(|w| [(w, 1.0), (w, -1.0)])
            {
                let second: Vec<f32> = whole.iter().map(|sample| gain * sample).collect();
                let window = Rate::HZ_48000.frames_within(Span::from_millis(millis));
                let reported = between(&first, &second, &AlignOptions { window, ..options() });
                let reported_in =
                    format!("{seed}, {later}, {millis}, {gain}: {:?}", invalid_rows(&reported));
                // The last window extends beyond the recording.
                assert!(
                    reported.found().count() + 1 >= reported.windows.len().max(2),
                    "{reported_in}"
                );
                for (_, found) in reported.found() {
                    let off = (found.delay.as_f64() - later).abs();
                    assert!(off < 0.01, "{reported_in}: {found:?}");
                    assert!(
                        (found.gain / f64::from(gain) - 1.0).abs() < 0.01,
                        "{reported_in}: {found:?}"
                    );
                }
            }
        }
    }
}
