//! Places of output frames.

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use tautline_dsp::resample::{Quality, Resampler, Step};

use crate::measure::{fit, sine, tolerance};

const BLOCK: usize = 48;

#[test]
fn place_is_exact_after_ten_million_frames() {
    let mut resampler = Resampler::new(Quality::LowDelay, 1, BLOCK);
    let (mut place, mut pushed) = (0_u128, 0);
    let (input, mut out) = ([0.0; 2 * BLOCK], [0.0; BLOCK]);
    for block in 0..10_000_000 / BLOCK as u64 {
        let step = Step::from_bits(Step::ONE.bits() - 4_000_000 + block * 7919 % 8_000_001);
        let wanted = resampler.wants(BLOCK, step);
        resampler.push(&input[..wanted]);
        pushed += wanted as u128;
        resampler.pull(&mut out, step);
        place += BLOCK as u128 * u128::from(step.bits());
        let ahead = (resampler.ahead() as u128) << 32;
        assert_eq!((pushed << 32) - ahead + u128::from(resampler.fraction()), place, "{block}");
    }
}

#[test]
fn position_is_exact_after_a_million_frames() {
    let (frequency, step) = (0.1, Step::from_ppm(-123.4));
    let input = sine(frequency, 10_000);
    let mut resampler = Resampler::new(Quality::Best, 1, BLOCK);
    // The sine repeats every 10 frames.
    let (mut out, mut pushed) = ([0.0; BLOCK], 0);
    let (mut late, mut begin) = (vec![], 0.0);
    for block in 0..1_050_000 / BLOCK {
        if block == 1_000_000 / BLOCK {
            let fraction = f64::from(resampler.fraction()) / 2_f64.powi(32);
            begin = (pushed - resampler.ahead()) as f64 + fraction;
        }
        for _ in 0..resampler.wants(BLOCK, step) {
            resampler.push(&[input[pushed % input.len()]]);
            pushed += 1;
        }
        resampler.pull(&mut out, step);
        if block >= 1_000_000 / BLOCK {
            late.extend(out);
        }
    }
    let ratio = step.bits() as f64 / Step::ONE.bits() as f64;
    let turns = fit(&late, frequency * ratio).turn - begin * frequency;
    let error = (turns - turns.round()) / frequency;
    assert!(error.abs() < 1e-6, "{error} frames");
}

#[test]
fn a_swept_step_changes_the_pitch_smoothly() {
    let frequency = 0.02;
    let input = sine(frequency, 60_000);
    for quality in Quality::ALL {
        let mut resampler = Resampler::new(quality, 1, BLOCK);
        let (mut rest, mut place, mut out) = (&input[..], 0_u64, [0.0; BLOCK]);
        let mut greatest = 0.0_f64;
        for block in 0_u32..1200 {
            let step = Step::from_ppm(1000.0 * (f64::from(block) / 100.0).sin());
            let (now, later) = rest.split_at(resampler.wants(BLOCK, step));
            rest = later;
            resampler.push(now);
            resampler.pull(&mut out, step);
            for sample in out {
                let turns = (place as f64 / 2_f64.powi(32) * frequency).fract();
                let error = f64::from(sample) - (turns * std::f64::consts::TAU).sin();
                greatest = greatest.max(if block > 1 { error.abs() } else { 0.0 });
                place += step.bits();
            }
        }
        assert!(greatest < tolerance(quality), "{quality}: {greatest}");
    }
}

/// Numerical Recipes (Press et al., 2007, 7.1).
fn noise(count: usize) -> Vec<f32> {
    let next = |state: &u32| Some(state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    let states = std::iter::successors(Some(1), next);
    states.map(|state| (state as i32) as f32 / 2_f32.powi(31)).take(count).collect()
}

fn formula(quality: Quality, channels: usize, input: &[f32], place: u64, channel: usize) -> f64 {
    let (whole, fraction) = ((place >> 32) as i64, (place as u32) as f64 / 2_f64.powi(32));
    let half = quality.half() as i64;
    (whole - half..=whole + half)
        .map(|frame| {
            let index = usize::try_from(frame).ok().map(|frame| frame * channels + channel);
            let sample = index.and_then(|index| input.get(index)).copied().unwrap_or(0.0);
            f64::from(sample) * quality.weight((frame - whole) as f64 - fraction)
        })
        .sum()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        // Earlier failures run first.
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(
            "tests/resample.proptest-regressions",
        ))),
        ..ProptestConfig::default()
    })]
    #[test]
    fn resampling_in_any_pieces_matches_the_formula(
        quality in prop::sample::select(Quality::ALL.to_vec()),
        channels in 1..6_usize,
        longest in 1..100_usize,
        fraction: u32,
        // Frames pushed beyond need, frames pulled, and step.
        pieces in prop::collection::vec((0..12_usize, 0..100_usize, -70_000_000_i64..70_000_000), 1..20),
    ) {
        let noise = noise(12_000);
        let mut resampler = Resampler::new(quality, channels, longest);
        resampler.set_fraction(fraction);
        let (mut place, mut pushed) = (u64::from(fraction), 0);
        for (more, length, step) in pieces {
            let length = length.min(longest);
            // Some pieces at exactly one.
            let step = if step % 4 == 0 { 0 } else { step };
            let step = Step::from_bits(Step::ONE.bits().saturating_add_signed(step));
            let wanted = resampler.wants(length, step);
            // At most the available room.
            let more = more.min(2 * longest + quality.half() - resampler.ahead() - wanted);
            resampler.push(&noise[pushed * channels..(pushed + wanted + more) * channels]);
            pushed += wanted + more;
            let mut out = vec![9.0; length * channels];
            resampler.pull(&mut out, step);
            for (index, sample) in out.iter().enumerate() {
                let at = place + (index / channels) as u64 * step.bits();
                let expected = formula(quality, channels, &noise, at, index % channels);
                let error = f64::from(*sample) - expected;
                prop_assert!(error.abs() < 5e-6, "{}: {} is not {}", at, sample, expected);
            }
            place += length as u64 * step.bits();
            let now = ((pushed - resampler.ahead()) as u64) << 32;
            prop_assert_eq!(now + u64::from(resampler.fraction()), place);
        }
    }
}
