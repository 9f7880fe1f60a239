//! How two recordings compare.

use super::*;

fn noise(frames: usize) -> Vec<f32> {
    (0..frames * 2).map(|i| ((i * 7919) % 30_011 + 1) as f32 / 32_768.0).collect()
}

fn judge(sent: &[f32], heard: &[f32]) -> Verdict {
    let sent = Sound { samples: sent.to_vec(), channels: 2, rate: Rate::HZ_48000 };
    super::judge(&sent, heard)
}

#[test]
fn a_recording_that_begins_and_ends_with_silence_is_identical() {
    let sent = [vec![0.0; 20], noise(1000), vec![0.0; 40]].concat();
    let heard = [vec![0.0; 300], noise(1000), vec![0.0; 10]].concat();
    let verdict = judge(&sent, &heard);
    assert!(verdict.is_whole());
    assert_eq!((verdict.frames, verdict.begins), (1000, Some(140)));
    let said = "identical: all 1000 frames, silent ends aside, from frame 140 on (0.003 s)";
    assert_eq!(verdict.to_string(), said);
}

#[test]
fn one_frame_that_differs_is_seen_and_placed() {
    let mut heard = noise(1000);
    heard[1500] += 1.0 / 8_388_608.0;
    let verdict = judge(&noise(1000), &heard);
    assert_eq!((verdict.identical, verdict.holes), (999, Some((750, 750))));
    let said = verdict.to_string();
    assert!(said.ends_with("; 1 missing in the middle, within frames 750 to 750 (0.016 s on)"));
}

#[test]
fn a_recording_that_ends_early_is_not_whole_and_says_where() {
    let silence = vec![0.0; 20];
    for heard in [noise(1000)[..1990].to_vec(), [&noise(1000)[..1990], &silence].concat()] {
        let verdict = judge(&noise(1000), &heard);
        assert!(!verdict.is_whole());
        assert_eq!((verdict.missed_first, verdict.holes, verdict.missed_last), (0, None, 5));
        let said = verdict.to_string();
        assert!(said.ends_with("frames 995 to 999 (0.021 s on) are missing at the end"), "{said}");
    }
}

#[test]
fn a_recording_that_begins_late_is_found_and_says_from_where() {
    let verdict = judge(&noise(1000), &noise(1000)[300..]);
    assert_eq!((verdict.begins, verdict.identical), (Some(-150), 850));
    assert_eq!((verdict.missed_first, verdict.holes, verdict.missed_last), (150, None, 0));
    let said = verdict.to_string();
    assert!(said.contains("from frame 150 of what was sent on (0.003 s)"), "{said}");
    assert!(said.ends_with("frames 0 to 149 (0.000 s on) are missing at the beginning"), "{said}");
}

#[test]
fn what_holds_nothing_of_the_sound_is_not_whole() {
    for heard in [vec![], vec![0.0; 2000]] {
        let verdict = judge(&noise(1000), &heard);
        assert_eq!((verdict.is_whole(), verdict.begins), (false, None));
    }
}

/// What a card plays when at `at` of a sound the latency changes by so many frames, with a fade.
fn spliced(sound: &[f32], at: usize, by: i64) -> Vec<f32> {
    const FADE: usize = 96;
    let on = (at as i64 - by) as usize;
    let fade = (0..FADE * 2).map(|i| {
        let share = (i / 2 + 1) as f32 / (FADE + 1) as f32;
        sound[at * 2 + i] * (1.0 - share) + sound[on * 2 + i] * share
    });
    let head = sound[..at * 2].iter().copied();
    head.chain(fade).chain(sound[(on + FADE) * 2..].iter().copied()).collect()
}

/// Noise that does not repeat.
fn long_noise(frames: usize) -> Vec<f32> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((state >> 8) as f32 - 8_388_608.0) / 8_388_608.0
    };
    (0..frames * 2).map(|_| next()).collect()
}

#[test]
fn a_sound_that_is_moved_in_mid_run_is_found_again_either_way() {
    let sent = long_noise(60_000);
    for by in [1440, -1440, 24_000, -24_000] {
        let verdict = judge(&sent, &spliced(&sent, 30_000, by));
        let [Splice { at, moved }] = verdict.splices[..] else { panic!("{verdict:?}") };
        assert_eq!(moved, by);
        assert_eq!(verdict.missed_last, 0, "{verdict}");
        // What is repeated is whole; what is left out is missing, the fade with it.
        let missing = if by > 0 { 0 } else { by.unsigned_abs() as usize + 96 };
        assert_eq!(verdict.frames - verdict.identical, missing, "{verdict}");
        assert_eq!(at, 30_000 + missing, "{verdict}");
        assert!(!verdict.is_whole());
        let way = if by > 0 { "later" } else { "earlier" };
        let told = format!("ms {way} from there on");
        assert!(verdict.to_string().contains(&told), "{verdict}");
    }
    let verdict = judge(&sent, &spliced(&sent, 30_000, 1440));
    assert!(verdict.to_string().contains("moved at 0.625 s: 30.00 ms later"), "{verdict}");
}

#[test]
fn two_moves_and_a_hole_are_told_apart() {
    let sent = long_noise(90_000);
    let mut heard = spliced(&sent, 60_000, -960);
    heard[80_000..80_096].fill(0.0);
    let heard = spliced(&heard, 20_000, 960);
    let verdict = judge(&sent, &heard);
    let moved: Vec<i64> = verdict.splices.iter().map(|splice| splice.moved).collect();
    assert_eq!((moved, verdict.missed_last), (vec![960, -960], 0), "{verdict}");
    assert_eq!(verdict.frames - verdict.identical, 48 + 960 + 96, "{verdict}");
}

#[test]
fn a_hole_in_a_sound_that_repeats_itself_is_no_move() {
    let bar = long_noise(12_000);
    let sent = [&bar[..], &bar, &bar, &bar, &long_noise(20_000)].concat();
    let mut heard = sent.clone();
    heard[40_000..42_000].fill(0.0);
    let verdict = judge(&sent, &heard);
    assert_eq!((verdict.splices.len(), verdict.holes), (0, Some((20_000, 20_999))), "{verdict}");
}
