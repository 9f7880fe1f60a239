//! Time marks with and below music.

#![expect(clippy::print_stdout, reason = "how many were found is for docs/performance.md")]
#![expect(clippy::unwrap_used, reason = "a test that cannot read the recording has failed")]

mod music;
#[path = "../conceal_quality/recording.rs"]
mod recording;

use music::Music;
use tautline_dsp::resample::{Quality, Resampler, Step};
use tautline_dsp::timecode::{Finder, FoundMark, MarkStretch, Marker, RunNumber, SPACING};

const RATE: u32 = 48_000;
const RUN: RunNumber = RunNumber::new(0x0CAF_E123);
/// Before it, marks have no known position.
const SETTLE: usize = RATE as usize * 2;

fn found_in(sound: &[f32]) -> Vec<FoundMark> {
    let (mut finder, mut all) = (Finder::of(RUN), Vec::new());
    finder.push(sound, |found| all.push(found));
    all
}

fn rms(sound: &[f32]) -> f64 {
    (sound.iter().map(|sample| f64::from(*sample).powi(2)).sum::<f64>() / sound.len() as f64).sqrt()
}

fn resampled(sound: &[f32], ppm: f64) -> Vec<f32> {
    let mut resampler = Resampler::new(Quality::Best, 1, 480);
    let step = Step::from_ppm(ppm);
    let (mut out, mut block, mut rest) = (Vec::new(), [0.0; 48], sound);
    while resampler.wants(block.len(), step) <= rest.len() {
        let (input, after) = rest.split_at(resampler.wants(block.len(), step));
        resampler.push(input);
        resampler.pull(&mut block, step);
        out.extend_from_slice(&block);
        rest = after;
    }
    out
}

#[derive(Debug, Clone, Copy)]
struct Path {
    /// Relative to the music.
    level_db: f64,
    ppm: f64,
    gain_db: f64,
}

#[derive(Debug, Default)]
struct Outcome {
    played: usize,
    found: usize,
    wrong: usize,
    outside: usize,
    widest: f64,
}

fn through(music: &[f32], path: Path) -> Outcome {
    let mut marks = vec![0.0; music.len() + SPACING];
    Marker::of(RUN).fill(1, &mut marks, |_| {});
    let marks = if path.ppm == 0.0 { marks } else { resampled(&marks, path.ppm) };
    let truth = found_in(&marks);
    let level = 10_f64.powf(path.level_db / 20.0) * rms(music) / rms(&marks);
    let gain = 10_f64.powf(path.gain_db / 20.0);
    let mut state = 77_u32;
    let mut even = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 8) / f64::from(1 << 24)
    };
    let mixed: Vec<f32> = music
        .iter()
        .zip(&marks)
        .map(|(music, mark)| {
            let sound = gain * (f64::from(*music) + level * f64::from(*mark));
            ((sound * 32_768.0 + even() - even()).round() / 32_768.0) as f32
        })
        .collect();
    let end = mixed.len() as i64 - 3 * SPACING as i64;
    let counts = |frame: i64| (SETTLE as i64..end).contains(&frame);
    let played = truth.iter().filter(|mark| counts(mark.frame)).count();
    let mut outcome = Outcome { played, ..Outcome::default() };
    for mark in found_in(&mixed) {
        let of = truth.iter().find(|truth| truth.number == mark.number);
        let error = of.map_or(f64::INFINITY, |truth| {
            (mark.frame - truth.frame) as f64 + mark.fraction - truth.fraction
        });
        if error.abs() > 4.0 {
            outcome.wrong += 1;
        } else if counts(mark.frame) {
            outcome.found += 1;
            outcome.outside += usize::from(error.abs() > mark.uncertainty);
            outcome.widest = outcome.widest.max(mark.uncertainty);
        }
    }
    outcome
}

fn made(seconds: usize, seed: u64) -> Vec<f32> {
    let mut music = Music::new(seed);
    (0..RATE as usize * seconds).map(|_| music.sample()).collect()
}

fn are_found(level_db: f64, share: f64) {
    let music = [("recorded", recording::mono(0.06, 19.9)), ("made", made(40, 5))];
    for (name, music) in &music {
        for ppm in [0.0, 500.0, -500.0] {
            for gain_db in [0.0, -20.0] {
                let outcome = through(music, Path { level_db, ppm, gain_db });
                let Outcome { played, found, wrong, outside, widest } = outcome;
                println!(
                    "{name}, {level_db} dB, {ppm} ppm, {gain_db} dB: {found} of {played}, {outside} \
                     outside of what is stated, which is {widest:.2} frames at most"
                );
                assert!(played > 1700 && found as f64 >= share * played as f64);
                assert!(wrong == 0 && outside * 100 <= found, "{outcome:?}");
            }
        }
    }
}

#[test]
fn marks_as_loud_as_the_music_are_found_999_of_1000() {
    are_found(0.0, 0.999);
}

#[test]
fn marks_10_db_below_the_music_are_found_99_of_100() {
    are_found(-10.0, 0.99);
}

#[test]
fn two_concurrent_runs_are_distinguished() {
    let frames = RATE as usize * 20;
    let (mut ours, mut theirs) = (vec![0.0; frames], vec![0.0; frames]);
    Marker::of(RUN).fill(1, &mut ours, |_| {});
    Marker::of(RunNumber::new(0x0222_2244)).fill(1, &mut theirs[5133..], |_| {});
    let both: Vec<f32> = ours.iter().zip(&theirs).map(|(ours, theirs)| ours + theirs).collect();
    let (mut finder, mut found) = (Finder::of(RUN), Vec::new());
    finder.push(&both, |mark| found.push(mark));
    let first = found_in(&ours)[0];
    for mark in &found {
        let since = i64::from(mark.number - first.number) * SPACING as i64;
        let error = (mark.frame - first.frame - since) as f64 + mark.fraction;
        assert!(error.abs() <= mark.uncertainty, "{mark:?}: {error}");
    }
    println!("{} of {} found, {} others", found.len(), frames / SPACING, finder.foreign());
    assert!(found.len() >= frames / SPACING * 98 / 100, "{}", found.len());
    assert!((100..=2000).contains(&finder.foreign()), "{}", finder.foreign());
}

#[test]
fn below_music_a_slip_moves_the_marks_after_it() {
    for slip in [-7_i64, 31, -200] {
        let music = made(12, 3);
        let mut marks = vec![0.0; music.len()];
        Marker::of(RUN).fill(1, &mut marks, |_| {});
        let level = (rms(&music) / rms(&marks)) as f32;
        let mut sound: Vec<f32> =
            music.iter().zip(&marks).map(|(music, mark)| music + level * mark).collect();
        let middle = RATE as usize * 6;
        if slip < 0 {
            sound.drain(middle..middle + slip.unsigned_abs() as usize);
        } else {
            let again = sound[middle..middle + slip as usize].to_vec();
            sound.splice(middle..middle, again);
        }
        let found = found_in(&sound);
        let place = |mark: &FoundMark| {
            mark.frame - i64::from(mark.number - RUN.first()) * SPACING as i64 - 124
        };
        let (before, after): (Vec<_>, Vec<_>) = found
            .iter()
            .partition(|mark| ((mark.number - RUN.first()) as usize) < middle / SPACING);
        assert!(before.iter().all(|mark| place(mark).abs() <= 1), "{slip}");
        let moved = after.iter().filter(|mark| (place(mark) - slip).abs() <= 1).count();
        println!("{slip}: {} before, {moved} of {} after", before.len(), after.len());
        assert!(moved + 3 >= after.len() && moved >= 560, "{slip}: {moved} of {}", after.len());
    }
}

#[test]
fn music_alone_holds_no_marks() {
    hold_none(60, 2);
}

#[test]
#[ignore = "soak: ten hours of music, some minutes"]
fn ten_hours_of_music_hold_no_marks() {
    hold_none(3600, 10);
}

fn hold_none(seconds: usize, pieces: u64) {
    for seed in 1..=pieces {
        let mut music = Music::new(seed * 7919);
        let voice = Finder::stretched(RUN, MarkStretch::for_voice(RATE));
        let mut finders = [("wide", Finder::of(RUN)), ("voice", voice)];
        let mut block = vec![0.0; RATE as usize];
        for second in 0..seconds {
            block.fill_with(|| music.sample());
            for (name, finder) in &mut finders {
                finder
                    .push(&block, |mark| panic!("{name}, piece {seed}, second {second}: {mark:?}"));
            }
        }
        for (name, finder) in &finders {
            assert_eq!(finder.foreign(), 0, "{name}, piece {seed}");
        }
    }
}
