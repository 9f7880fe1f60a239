use tautline_dsp::resample::{Quality, Resampler, Step};

use crate::measure::{sine, tolerance};

const BLOCK: usize = 48;

/// Including special values.
fn bits(channels: usize, frames: usize) -> Vec<f32> {
    let odd = [0.0, -0.0, f32::MIN_POSITIVE / 8.0, f32::MAX, -1.0, f32::INFINITY];
    let sample = |index: usize| (index as f32).mul_add(1e-4, -1.0);
    (0..channels * frames)
        .map(|index| odd.get(index % 37).copied().unwrap_or(sample(index)))
        .collect()
}

#[test]
fn sound_on_one_clock_is_bit_exact_and_immediate() {
    for (quality, channels) in Quality::ALL.into_iter().zip([1, 2, 7]) {
        let input = bits(channels, 50 * BLOCK);
        let mut resampler = Resampler::new(quality, channels, BLOCK);
        let mut out = vec![9.0; BLOCK * channels];
        for block in input.chunks(BLOCK * channels) {
            assert_eq!(resampler.wants(BLOCK, Step::ONE), BLOCK);
            resampler.push(block);
            resampler.pull(&mut out, Step::ONE);
            let same = out.iter().zip(block).all(|(out, block)| out.to_bits() == block.to_bits());
            assert!(same, "{quality}, {channels} channels");
            assert_eq!((resampler.ahead(), resampler.fraction()), (0, 0));
        }
    }
}

/// Returns the output and each frame's place in 2^-32 frames.
fn in_and_out(quality: Quality, input: &[f32], passing: bool) -> (Vec<f32>, Vec<u64>) {
    let mut resampler = Resampler::new(quality, 1, BLOCK);
    let (mut out, mut places, mut rest, mut pushed) = (vec![], vec![], input, 0);
    // A block of 64 returns to fraction 0 exactly.
    let steps = [Step::ONE, Step::from_bits(65 << 26), Step::from_bits(63 << 26), Step::ONE];
    for (index, step) in steps.into_iter().cycle().enumerate() {
        let length = if step == Step::ONE { 37 + index % 11 } else { 64 };
        for piece in [length - length / 2, length / 2] {
            let mut block = vec![0.0; piece];
            let wanted = resampler.wants(piece, step);
            let Some((now, later)) = rest.split_at_checked(wanted) else { return (out, places) };
            rest = later;
            let place = ((pushed - resampler.ahead()) as u64) << 32;
            let place = place + u64::from(resampler.fraction());
            places.extend((0..piece as u64).map(|frame| place + frame * step.bits()));
            pushed += wanted;
            if passing && step == Step::ONE && resampler.ahead() == 0 {
                assert_eq!(wanted, piece);
                resampler.pass(now);
                block.copy_from_slice(now);
            } else {
                resampler.push(now);
                resampler.pull(&mut block, step);
            }
            out.extend(block);
        }
        assert_eq!(resampler.fraction(), 0, "the test's blocks end on a frame");
    }
    (out, places)
}

#[test]
fn going_over_from_copying_and_back_does_not_click() {
    let frequency = 0.02;
    let input = sine(frequency, 40_000);
    for (quality, passing) in
        Quality::ALL.into_iter().flat_map(|each| [(each, false), (each, true)])
    {
        let (out, places) = in_and_out(quality, &input, passing);
        assert!(out.len() > 39_000 && places.iter().any(|place| *place as u32 != 0));
        // Except the first after silence.
        for (sample, place) in out.iter().zip(&places).skip(100) {
            let turns = (*place as f64 / 2_f64.powi(32) * frequency).fract();
            let error = f64::from(*sample) - (turns * std::f64::consts::TAU).sin();
            assert!(
                error.abs() < tolerance(quality),
                "{quality}, passing {passing}, {place}: {error}"
            );
        }
        // The sine's own second difference is (2 sin π frequency)².
        let maximum = (2.0 * (frequency * std::f64::consts::PI).sin()).powi(2) * 1.05;
        for three in out[100..].windows(3) {
            let bend = f64::from(three[0]) - 2.0 * f64::from(three[1]) + f64::from(three[2]);
            assert!(bend.abs() < maximum, "{quality}, passing {passing}: {three:?}");
        }
    }
}

#[test]
fn copying_with_frames_ahead_is_as_exact() {
    let input = bits(2, 2000);
    let mut resampler = Resampler::new(Quality::Balanced, 2, BLOCK);
    resampler.push(&input[..40]);
    let (mut out, mut rest) = (vec![], &input[40..]);
    while let Some((block, later)) = rest.split_at_checked(2 * BLOCK) {
        resampler.push(block);
        let mut pulled = [0.0; 2 * BLOCK];
        resampler.pull(&mut pulled, Step::ONE);
        assert_eq!(resampler.ahead(), 20);
        out.extend(pulled);
        rest = later;
    }
    assert!(out.iter().zip(&input).all(|(out, input)| out.to_bits() == input.to_bits()));
}
