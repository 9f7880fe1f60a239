use super::*;

const RATE: u32 = 48_000;

fn words(seed: u64, seconds: usize) -> Vec<f32> {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut level, mut last) = (0.0, 0.0);
    let word = |frame: usize| {
        if frame.is_multiple_of(2880) {
            level = [0.02, 0.3, 0.1, 0.0, 0.2][random.usize(..5)];
        }
        last += 0.3 * (random.f32() * 2.0 - 1.0 - last);
        last * level
    };
    (0..seconds * RATE as usize).map(word).collect()
}

fn received(sound: &[f32], seed: u64, delay: impl Fn(usize) -> usize) -> Vec<f32> {
    let mut random = fastrand::Rng::with_seed(seed);
    let taps: Vec<f32> = (0..600)
        .map(|tap| 0.1 * (-(tap as f32) / 150.0).exp() * (random.f32() * 2.0 - 1.0))
        .collect();
    let at = |frame: usize, late: usize| frame.checked_sub(late).map_or(0.0, |frame| sound[frame]);
    (0..sound.len())
        .map(|frame| {
            let late = delay(frame);
            taps.iter().enumerate().map(|(tap, gain)| gain * at(frame, late + tap)).sum()
        })
        .collect()
}

fn power(sound: &[f32]) -> f64 {
    sound.iter().map(|sample| f64::from(*sample).powi(2)).sum()
}

fn less(before: &[f32], after: &[f32], tenths: core::ops::Range<usize>) -> f64 {
    let frames = tenths.start * 4800..tenths.end * 4800;
    10.0 * (power(&before[frames.clone()]) / power(&after[frames])).log10()
}

#[test]
fn captured_sound_is_bit_exact_without_playback() {
    let mut canceller = EchoCanceller::new(RATE, 1, 1);
    let near = words(1, 4);
    let mut played = vec![0.0; near.len()];
    played[48_000..96_000].copy_from_slice(&words(2, 1));
    let mut captured = near.clone();
    for (captured, played) in captured.chunks_mut(120).zip(played.chunks(120)) {
        canceller.process(captured, played);
    }
    assert_eq!(captured[..48_000], near[..48_000]);
    assert_ne!(captured[48_000..96_000], near[48_000..96_000]);
    assert_eq!(captured[144_000..], near[144_000..]);
}

#[test]
fn playback_begins_without_a_click() {
    let mut canceller = EchoCanceller::new(RATE, 1, 1);
    let played = words(3, 1);
    let near: Vec<f32> = (0..48_000).map(|frame| 0.5 * (frame as f32 * 0.01).sin()).collect();
    let mut captured = near.clone();
    for (at, (captured, played)) in captured.chunks_mut(120).zip(played.chunks(120)).enumerate() {
        let silence = [0.0; 120];
        canceller.process(captured, if at < 100 { &silence } else { played });
    }
    let steps = captured.windows(2).map(|two| (two[1] - two[0]).abs());
    let highest = steps.fold(0.0, f32::max);
    assert!(highest < 0.03, "{highest}");
}

#[test]
fn jumps_of_the_delay_are_followed_within_half_a_second() {
    let played = words(4, 12);
    let jumps = |frame: usize| if (5 * 48_000..8 * 48_000).contains(&frame) { 1600 } else { 100 };
    let echo = received(&played, 5, jumps);
    let mut left = echo.clone();
    let mut canceller = EchoCanceller::new(RATE, 1, 1);
    for (captured, played) in left.chunks_mut(96).zip(played.chunks(96)) {
        canceller.process(captured, played);
    }
    for tenths in [40..50, 55..80, 85..110] {
        let less = less(&echo, &left, tenths.clone());
        assert!(less > 25.0, "{tenths:?}: {less:.1} dB less");
    }
}

#[test]
fn a_room_that_changes_is_learned_again() {
    let played = words(6, 10);
    let (one, other) = (received(&played, 7, |_| 100), received(&played, 8, |_| 100));
    let echo = [&one[..5 * 48_000], &other[5 * 48_000..]].concat();
    let mut left = echo.clone();
    let mut canceller = EchoCanceller::new(RATE, 1, 1);
    for (captured, played) in left.chunks_mut(120).zip(played.chunks(120)) {
        canceller.process(captured, played);
    }
    let less = less(&echo, &left, 80..100);
    assert!(less > 25.0, "{less:.1} dB less");
}

#[test]
fn both_microphones_are_rid_of_both_loudspeakers_at_any_rate() {
    for rate in [8000, 16_000, 44_100] {
        let sides = [words(9, 6), words(10, 6)];
        let echo: Vec<Vec<f32>> = (0..2)
            .map(|mic| {
                let ways =
                    [0, 1].map(|side| received(&sides[side], 20 + 2 * mic + side as u64, |_| 50));
                ways[0].iter().zip(&ways[1]).map(|(one, other)| one + other).collect()
            })
            .collect();
        let both = |sides: [&[f32]; 2]| -> Vec<f32> {
            sides[0].iter().zip(sides[1]).flat_map(|(one, other)| [*one, *other]).collect()
        };
        let (played, echo) = (both([&sides[0], &sides[1]]), both([&echo[0], &echo[1]]));
        let mut left = echo.clone();
        let mut canceller = EchoCanceller::new(rate, 2, 2);
        for (captured, played) in left.chunks_mut(2 * 77).zip(played.chunks(2 * 77)) {
            canceller.process(captured, played);
        }
        let less = less(&echo, &left, 100..120);
        assert!(less > 20.0, "{rate} Hz: {less:.1} dB less");
    }
}
