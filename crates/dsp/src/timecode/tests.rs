use proptest::prelude::*;

use super::*;

fn marks(frames: usize) -> (Vec<f32>, Vec<(u32, i64)>) {
    let (mut sound, mut placed) = (vec![0.0; frames], Vec::new());
    Marker::new().fill(1, &mut sound, |mark| placed.push((mark.number, mark.frame as i64)));
    (sound, placed)
}

fn found_in(sound: &[f32]) -> Vec<FoundMark> {
    let (mut finder, mut all) = (Finder::new(), Vec::new());
    finder.push(sound, |found| all.push(found));
    all
}

fn sound_at(place: f64) -> f64 {
    if place < 0.0 {
        return 0.0;
    }
    let number = place as usize / SPACING;
    wave(chips_of(RunNumber::default(), number as u32), place - (number * SPACING) as f64)
}

fn received(frames: usize, delay: f64, ppm: f64, gain: f64) -> Vec<f32> {
    let step = 1.0 - ppm / 1e6;
    (0..frames).map(|frame| (gain * sound_at((frame as f64 - delay) * step)) as f32).collect()
}

fn place_of(number: u32, delay: f64, ppm: f64) -> f64 {
    (number as usize * SPACING + CENTRE) as f64 / (1.0 - ppm / 1e6) + delay
}

fn noise(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed | 1;
    move || {
        // The sum of twelve uniform numbers is nearly normal.
        let mut sum = -6.0;
        for _ in 0..12 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            sum += (state >> 11) as f64 / (1_u64 << 53) as f64;
        }
        sum
    }
}

#[test]
fn every_mark_that_is_played_is_found_on_its_very_frame() {
    let (sound, placed) = marks(SPACING * 40);
    let found = found_in(&sound);
    assert_eq!(found.len(), 39, "the last has no frames after it");
    for (found, (number, frame)) in found.iter().zip(placed) {
        assert_eq!((found.number, found.frame), (number, frame));
        assert!(found.fraction.abs() < 0.001, "{found:?}");
        assert!(found.confidence > 0.9999 && (found.gain - 0.125_9).abs() < 1e-4, "{found:?}");
    }
}

#[test]
fn numbers_begin_again_after_the_last() {
    assert_eq!(chips_of(RunNumber::default(), NUMBERS), chips_of(RunNumber::default(), 0));
    assert_eq!(chips_of(RunNumber::default(), NUMBERS + 7), chips_of(RunNumber::default(), 7));
    assert_ne!(chips_of(RunNumber::default(), NUMBERS - 1), chips_of(RunNumber::default(), 0));
}

#[test]
fn no_part_of_any_two_marks_looks_like_a_sync() {
    let mut minimum = SYNC_CHIPS as u32;
    for number in (0..NUMBERS).step_by(37) {
        let (this, next) =
            (chips_of(RunNumber::default(), number), chips_of(RunNumber::default(), number + 1));
        for begin in 1..CHIPS {
            let window = (this >> begin) | (next << (CHIPS - begin));
            let differ = ((window as u64 ^ SYNC) & (u64::MAX >> 1)).count_ones();
            minimum = minimum.min(differ.min(SYNC_CHIPS as u32 - differ));
        }
    }
    assert!(minimum > finder::MAX_WRONG, "{minimum}");
}

#[test]
fn silence_noise_and_tones_hold_no_marks() {
    let mut normal = noise(7);
    let frames = 48_000 * 5;
    let white: Vec<f32> = (0..frames).map(|_| (0.1 * normal()) as f32).collect();
    assert_eq!(found_in(&white), []);
    assert_eq!(found_in(&vec![0.0; frames]), []);
    let mut sine = vec![0.0; frames];
    crate::signal::Sine::new("997".parse().unwrap(), 48_000).fill(1, &mut sine);
    assert_eq!(found_in(&sine), []);
}

fn marks_of(run: RunNumber, frames: usize) -> Vec<f32> {
    let mut sound = vec![0.0; frames];
    Marker::of(run).fill(1, &mut sound, |_| {});
    sound
}

#[test]
fn marks_of_another_run_are_counted_and_not_found() {
    let (ours, theirs) = (RunNumber::new(0x0ABC_DE11), RunNumber::new(0x0123_4512));
    let mut sound = marks_of(theirs, SPACING * 20);
    let begin = sound.len() as i64;
    sound.extend(marks_of(ours, SPACING * 20));
    let mut finder = Finder::of(ours);
    let mut found = Vec::new();
    finder.push(&sound, |mark| found.push(mark));
    assert_eq!(finder.foreign(), 20);
    let numbers: Vec<u32> = found.iter().map(|mark| mark.number).collect();
    assert_eq!(numbers, (0..19).map(|mark| ours.first() + mark).collect::<Vec<_>>());
    assert_eq!(found[0].frame, begin + CENTRE as i64);
}

#[test]
fn a_single_mark_of_another_run_is_noise() {
    let mut sound = marks_of(RunNumber::new(7), SPACING);
    sound.extend(vec![0.0; SPACING * 20]);
    let mut finder = Finder::of(RunNumber::new(8));
    finder.push(&sound, |mark| panic!("{mark:?}"));
    assert_eq!(finder.foreign(), 0);
}

#[test]
fn a_dropped_frame_moves_the_marks_after_it_by_one() {
    let (mut sound, _) = marks(SPACING * 10);
    sound.remove(SPACING * 4 + 300);
    let found = found_in(&sound);
    let steps: Vec<i64> = found.windows(2).map(|two| two[1].frame - two[0].frame).collect();
    assert_eq!(steps, [480, 480, 480, 480, 479, 480, 480, 480]);
}

#[test]
fn a_mark_with_a_hole_fits_less_or_is_none() {
    let (mut sound, _) = marks(SPACING * 6);
    sound[SPACING * 2 + 300..][..24].fill(0.0);
    sound[SPACING * 4 + 40..][..240].fill(0.0);
    let found = found_in(&sound);
    let numbers: Vec<u32> = found.iter().map(|found| found.number).collect();
    assert!(!numbers.contains(&4), "{numbers:?}");
    for found in found {
        // If the hole removed whole bits, the CRC rejects the number.
        assert_eq!(found.confidence > 0.999, found.number != 2, "{found:?}");
    }
}

#[test]
fn how_the_sound_is_cut_into_blocks_changes_nothing() {
    let sound = received(SPACING * 30, 77.31, 120.0, -0.3);
    let whole = found_in(&sound);
    let (mut finder, mut all) = (Finder::new(), Vec::new());
    let mut rest = sound.as_slice();
    for len in (1..).map(|block| block * 7 % 97 + 1) {
        let (block, after) = rest.split_at(len.min(rest.len()));
        finder.push(block, |found| all.push(found));
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    assert_eq!(all, whole);
    assert_eq!(all.len(), 29);
}

#[test]
fn resampled_mark_position_is_exact_to_0_01_frame() {
    use crate::resample::{Quality, Resampler, Step};
    for (quality, ppm) in
        [(Quality::LowDelay, 500.0), (Quality::Best, -500.0), (Quality::Balanced, 30.0)]
    {
        let (sound, _) = marks(SPACING * 50);
        let mut resampler = Resampler::new(quality, 1, 480);
        let step = Step::from_ppm(ppm);
        let (mut out, mut block, mut rest) = (Vec::new(), [0.0; 48], sound.as_slice());
        while resampler.wants(block.len(), step) <= rest.len() {
            let (input, after) = rest.split_at(resampler.wants(block.len(), step));
            resampler.push(input);
            resampler.pull(&mut block, step);
            out.extend_from_slice(&block);
            rest = after;
        }
        let found = found_in(&out);
        assert!(found.len() >= 48, "{}", found.len());
        let first = found[0].frame as f64 + found[0].fraction;
        for found in &found {
            let advance = f64::from(found.number) * SPACING as f64 / (1.0 + ppm / 1e6);
            let error = found.frame as f64 + found.fraction - first - advance;
            assert!(error.abs() <= 0.01, "{found:?} {error}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn marks_survive_gain_polarity_delay_drift_and_quantisation(
        delay in 0.0..2000.0_f64, ppm in -500.0..500.0_f64, loudness in -50.0..0.0_f64,
        inverted: bool, bits in 16..=24_u32,
    ) {
        let gain = 10_f64.powf(loudness / 20.0) * if inverted { -1.0 } else { 1.0 };
        let mut sound = received(SPACING * 20, delay, ppm, gain);
        let scale = f64::from(1_u32 << (bits - 1));
        for sample in &mut sound {
            *sample = ((f64::from(*sample) * scale).round() / scale) as f32;
        }
        let found = found_in(&sound);
        prop_assert!(found.len() >= 13);
        for (number, found) in found.iter().enumerate() {
            prop_assert_eq!(found.number, number as u32);
            let error = found.frame as f64 + found.fraction - place_of(found.number, delay, ppm);
            prop_assert!(error.abs() <= found.uncertainty, "{found:?} is off by {error}");
            prop_assert!(found.uncertainty < 0.3, "{found:?}");
            prop_assert_eq!(found.gain < 0.0, inverted);
            prop_assert!((found.gain / gain - 1.0).abs() < 0.02, "{found:?} for {gain}");
        }
    }

    #[test]
    fn position_in_noise_is_within_its_bound(
        seed: u64, delay in 0.0..480.0_f64, below in 3.0..40.0_f64,
    ) {
        let mut normal = noise(seed);
        let mut sound = received(SPACING * 20, delay, 0.0, 0.1);
        let loud = 0.1 * 10_f64.powf(-below / 20.0);
        sound.iter_mut().for_each(|sample| *sample += (loud * normal()) as f32);
        let found = found_in(&sound);
        prop_assert!(below < 10.0 || found.len() >= 18, "{} at {below}", found.len());
        for found in found {
            let error = found.frame as f64 + found.fraction - place_of(found.number, delay, 0.0);
            prop_assert!(error.abs() <= found.uncertainty, "{found:?} is off by {error}");
        }
    }
}
