//! Effects of invalid input pass.

use tautline_dsp::resample::{Quality, Resampler, Step};

use crate::measure::sine;

/// `wrong` is at frame 500.
fn with_and_without(quality: Quality, wrong: f32) -> [Vec<f32>; 2] {
    let right = sine(0.03, 2000);
    let mut damaged = right.clone();
    damaged[500] = wrong;
    [damaged, right]
        .map(|input| crate::measure::resampled(quality, Step::from_ppm(300.0), 0, &input))
}

#[test]
fn nan_is_gone_after_twice_the_delay() {
    for quality in Quality::ALL {
        for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let [damaged, right] = with_and_without(quality, wrong);
            let differs = |frame: &usize| damaged[*frame].to_bits() != right[*frame].to_bits();
            let found: Vec<_> = (0..right.len()).filter(differs).collect();
            // Frame 500 becomes 500 / 1.0003.
            assert!(found.iter().all(|frame| frame.abs_diff(500) <= quality.half()), "{found:?}");
            assert!(!found.is_empty() && found.len() <= 2 * quality.half());
        }
    }
}

#[test]
fn frames_not_pushed_are_silence() {
    let (step, mut out) = (Step::from_ppm(100.0), [9.0; 2 * 48]);
    let mut resampler = Resampler::new(Quality::Balanced, 2, 48);
    resampler.push(&[0.5; 2 * 20]);
    resampler.pull(&mut out, step);
    let mut filled = [0.0; 2 * 48];
    let mut other = Resampler::new(Quality::Balanced, 2, 48);
    other.push(&[0.5; 2 * 20]);
    other.push(&vec![0.0; 2 * other.wants(48, step)]);
    other.pull(&mut filled, step);
    assert_eq!(out, filled);
    let mut long = vec![9.0; 2 * 1000];
    resampler.pull(&mut long, Step::ONE);
    assert!(long[100..].iter().all(|sample| *sample == 0.0));
}

#[test]
fn more_than_there_is_room_for_moves_the_place_past_the_oldest() {
    let input: Vec<f32> = (0..5000).map(|frame| frame as f32).collect();
    let room = 2 * 48 + Quality::LowDelay.half();
    for first in [1, 50, room, 3000] {
        let mut resampler = Resampler::new(Quality::LowDelay, 1, 48);
        resampler.push(&input[..first]);
        resampler.push(&input[first..]);
        assert_eq!(resampler.ahead(), room);
        let mut out = [0.0; 48];
        resampler.pull(&mut out, Step::ONE);
        assert_eq!(out, input[5000 - room..][..48]);
    }
}

#[test]
fn a_reset_forgets_all_that_was() {
    let mut used = Resampler::new(Quality::Best, 2, 48);
    for _ in 0..20 {
        used.push(&[0.7; 2 * 48]);
        used.pull(&mut [0.0; 2 * 48], Step::from_ppm(-700.0));
    }
    used.set_fraction(77);
    used.reset();
    assert_eq!((used.ahead(), used.fraction()), (0, 0));
    let (mut one, mut other) = ([0.0; 2 * 48], [0.0; 2 * 48]);
    for (resampler, out) in
        [(&mut used, &mut one), (&mut Resampler::new(Quality::Best, 2, 48), &mut other)]
    {
        resampler.push(&[0.3; 2 * 100]);
        resampler.pull(out, Step::from_ppm(900.0));
    }
    assert_eq!(one, other);
}

#[test]
fn no_channels_and_no_frames_do_nothing() {
    let mut resampler = Resampler::new(Quality::Balanced, 0, 0);
    resampler.push(&[]);
    resampler.pull(&mut [], Step::MAX);
    resampler.pass(&[]);
    assert_eq!((resampler.ahead(), resampler.wants(0, Step::MAX)), (0, 0));
}
