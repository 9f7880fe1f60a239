//! Speaker to microphone: echo, noise as loud as the sweep, polarity.

use tautline_trial::snapshot;

use super::cases::cycle;
use super::*;

const SWEEPS: usize = 24;
const BLOCK: usize = 48;

fn side(block: usize, samples: &mut [f32]) -> Side<'_> {
    let meets = instant(LocalTime::from_nanos(1_000_000_000), block * BLOCK);
    Side { samples, meets, uncertainty: UNSURE, skipped: Frames::ZERO }
}

fn measured(frames: usize, spoil: fn(&mut Vec<f32>)) -> MeasuredDelay {
    measured_without(0..0, frames, spoil)
}

fn measured_without(
    skipped: core::ops::Range<usize>,
    frames: usize,
    spoil: fn(&mut Vec<f32>),
) -> MeasuredDelay {
    let sweeper = Sweeper::at_level(SETTINGS.rate, Marker::LEVEL_DB);
    let (mut plays, mut marks) = player::player(&SETTINGS, PlayedSound::Sweeps(sweeper));
    let search = MarkSearch::Sweeps(Box::new(SweepFinder::at(SETTINGS.rate)));
    let (mut handles, mut ear) = recorder::recorder(&SETTINGS, 0, search);
    let mut sound = vec![0.0; 2 * SWEEPS * spacing()];
    for (block, samples) in sound.chunks_exact_mut(2 * BLOCK).enumerate() {
        plays.process(&mut cycle(Side::absent(), side(block, samples)));
    }
    sound.splice(0..0, core::iter::repeat_n(0.0, 2 * frames));
    spoil(&mut sound);
    let mut judge = Judge::new(SETTINGS.rate, LocalTime::ZERO)
        .with_marks(spacing(), Marker::LEVEL_DB)
        .with_sweeps()
        .with_room(2 * SWEEPS);
    marks.read(|played| judge.played(played));
    for (block, samples) in sound.chunks_exact_mut(2 * BLOCK).enumerate() {
        if skipped.contains(&block) {
            continue;
        }
        let lacks = if block == skipped.end { skipped.len() * BLOCK } else { 0 };
        let received = Side { skipped: Frames::from_len(lacks), ..side(block, samples) };
        handles.process(&mut cycle(received, Side::absent()));
        let runs = ear.listen();
        ear.find(runs, |received| judge.received(received));
    }
    let outcome = judge.finish(ear.end());
    let mut found = MeasuredDelay::new([SETTINGS; 2], None, outcome);
    found.best_unclear_db = ear.best_unclear_db();
    found
}

fn is_found(found: &MeasuredDelay, frames: usize) {
    let row = &found.marks;
    let known = SETTINGS.rate.span_of(Frames::from_len(frames)).as_nanos();
    let (median, unsure) =
        (row.measured().p50_ns.unwrap(), row.uncertainty.median().unwrap().as_nanos());
    assert!((median - known).abs() <= unsure - 6_000, "{row:?}");
    assert!(row.measured().count >= 21 && row.missed == 0, "{row:?}");
    assert_eq!((row.dropped_frames, row.repeated_frames, row.bit_exact()), (0, 0, None), "{row:?}");
}

fn with_noise(sound: &mut [f32]) {
    let mut random = fastrand::Rng::with_seed(9);
    // A sweep's mean square is 3/16 of its squared peak; noise in both channels.
    let peak = 10_f64.powf(Marker::LEVEL_DB / 20.0);
    let maximum = peak * (3.0_f64 / 16.0).sqrt() * 3.0_f64.sqrt();
    sound.iter_mut().for_each(|sample| *sample += (maximum * (2.0 * random.f64() - 1.0)) as f32);
}

#[test]
fn sweep_is_found_to_a_twentieth_frame_and_30_db_clear() {
    for frames in [0, 1, 240, 20_001] {
        let found = measured(frames, |_| {});
        is_found(&found, frames);
        assert!(
            found.marks.uncertainty.median().unwrap().as_nanos() < 6_000 + 1_042 + 200,
            "{found:?}"
        );
        assert!(found.marks.min_clear_db.unwrap() > 30.0, "{:?}", found.marks);
        assert!(found.marks.min_confidence.unwrap() > 0.999, "{:?}", found.marks);
    }
}

#[test]
fn a_sweep_is_found_in_noise_that_is_as_loud_as_it_is() {
    let found = measured(2000, |sound| with_noise(sound));
    is_found(&found, 2000);
    let clear = found.marks.min_clear_db.unwrap();
    assert!((15.0..40.0).contains(&clear), "{:?}", found.marks);
}

#[test]
fn echoes_lower_the_ratio_and_the_strongest_path_counts() {
    let found = measured(480, |sound| {
        for at in (2 * 700..sound.len()).rev() {
            sound[at] += 0.5 * sound[at - 2 * 300] + 0.25 * sound[at - 2 * 700];
        }
    });
    is_found(&found, 480);
    let clear = found.marks.min_clear_db.unwrap();
    assert!((clear - 6.0).abs() < 0.3, "{:?}", found.marks);
}

#[test]
fn inverted_polarity_is_reported_even_in_noise() {
    let found = measured(480, |sound| {
        sound.iter_mut().for_each(|sample| *sample *= -0.5);
        with_noise(sound);
    });
    is_found(&found, 480);
    assert!((found.marks.gain.unwrap() + 0.5 * 0.1259).abs() < 0.005, "{:?}", found.marks);
    assert!(text(&found).contains("polarity: turned"), "{found:?}");
}

#[test]
fn noise_alone_is_an_invalid_row_with_the_best_ratio() {
    let found = measured(480, |sound| {
        sound.fill(0.0);
        with_noise(sound);
    });
    let report = found.report(["speaker", "microphone"]);
    let why = report.rows[0].invalid.clone().unwrap();
    snapshot!(why);
}

fn spacing() -> usize {
    sweep::spacing(SETTINGS.rate)
}

fn swept(mark: u32) -> (Played, JudgedMark) {
    let (played, received) = at(mark, 1000);
    let frame = i64::from(mark) * spacing() as i64;
    let at = LocalTime::ZERO + SETTINGS.rate.span_of(Frames::new(frame));
    let played = Played { frame, at, ..played };
    (played, JudgedMark { frame: frame as f64, at: at + Span::from_micros(1000), ..received })
}

#[test]
fn missed_sweep_is_counted_despite_an_undue_received_one() {
    let mut judge = Judge::new(SETTINGS.rate, LocalTime::ZERO)
        .with_marks(spacing(), Marker::LEVEL_DB)
        .with_sweeps();
    for mark in 0..10 {
        judge.played(swept(mark).0);
        if mark != 4 {
            judge.received(swept(mark).1);
        }
    }
    // The last sweep was heard but not due.
    let end = swept(10).0.at + Span::from_micros(1001);
    let outcome = judge.finish(end);
    assert_eq!((outcome.played, outcome.missed, outcome.delay.count()), (9, 1, 9));
}

#[test]
fn card_drift_with_missed_sweeps_is_no_drop_or_repeat() {
    for ppm in [150.0, -150.0] {
        let mut judge = Judge::new(SETTINGS.rate, LocalTime::ZERO)
            .with_marks(spacing(), Marker::LEVEL_DB)
            .with_sweeps();
        for mark in 0..100 {
            let (played, mut received) = swept(mark);
            received.frame *= 1.0 + ppm / 1e6;
            judge.played(played);
            if mark % 10 == 0 {
                judge.received(received);
            }
        }
        let outcome = judge.finish(LocalTime::NEVER);
        assert_eq!((outcome.dropped_frames, outcome.repeated_frames), (0, 0), "{ppm}");
        assert!((outcome.drift_ppm.unwrap() - ppm).abs() < 0.01, "{ppm}");
    }
}

#[test]
fn delay_of_400_ms_is_measured_at_96_khz() {
    for rate in [44_100, 48_000, 96_000, 192_000] {
        let rate = Rate::new(rate).unwrap();
        let spacing = rate.span_of(Frames::from_len(sweep::spacing(rate)));
        assert!(spacing > Span::from_millis(600), "{rate}: {spacing:?}");
    }
    let (rate, delay) = (Rate::new(96_000).unwrap(), Span::from_millis(400));
    let mut sweeper = Sweeper::at_level(rate, Marker::LEVEL_DB);
    let mut finder = SweepFinder::at(rate);
    let mut judge = Judge::new(rate, LocalTime::ZERO)
        .with_marks(sweep::spacing(rate), Marker::LEVEL_DB)
        .with_sweeps();
    let mut sound = vec![0.0; 5 * sweep::spacing(rate)];
    sweeper.fill(1, &mut sound, |placed| {
        let at = LocalTime::ZERO + rate.span_of(Frames::from_len(placed.frame));
        let frame = placed.frame as i64;
        judge.played(Played {
            number: placed.number,
            frame,
            at,
            uncertainty: UNSURE,
            ..Played::default()
        });
    });
    finder.push(&sound, |sweep| {
        let at = LocalTime::ZERO + rate.span_of(Frames::new(sweep.frame)) + delay;
        let frame = sweep.frame as f64;
        judge.received(JudgedMark { frame, at, clear_db: Some(sweep.clear_db), ..swept(0).1 });
    });
    let outcome = judge.finish(LocalTime::NEVER);
    assert!(outcome.delay.count() >= 4, "{outcome:?}");
    let found = outcome.delay.summary();
    for found in [found.min_ns, found.max_ns] {
        assert!((found.unwrap() - delay.as_nanos()).abs() < 10_000, "{outcome:?}");
    }
    let note = MarkKind::Sweep.note(rate).unwrap();
    assert!(note.contains("683 ms longer") && note.contains("fewer than 14 "), "{note}");
    assert_eq!(MarkKind::Wide.note(rate), None);
}

#[test]
fn sweep_before_skipped_frames_is_found() {
    let blocks = |frame: usize| (9 * spacing() + 17_000 + frame) / BLOCK;
    let found = measured_without(blocks(0)..blocks(spacing()), 0, |_| {});
    let Outcome { missed, dropped_frames, .. } = found.marks;
    let measured = found.marks.measured();
    assert_eq!((missed, dropped_frames), (1, 0), "{found:?}");
    assert!(measured.count >= 21, "{found:?}");
}

#[test]
fn sweeps_played_after_the_duration_do_not_count() {
    let options = DelayOptions {
        configured: None,
        settle: Span::ZERO,
        duration: Some(Span::from_secs(1)),
        scheduler: Scheduler::Other,
        channel: 0,
        mark: MarkKind::Sweep,
        level_db: Marker::LEVEL_DB,
    };
    let two = SETTINGS.rate.span_of(Frames::from_len(2 * spacing()));
    let ends = options.ends(LocalTime::ZERO, SETTINGS.rate);
    assert_eq!(ends - LocalTime::ZERO, Span::from_secs(1) + two);
    // 3 s of card time; the first sweep precedes the measurement.
    let (output, input) = Loop { frames: 240, blocks: 3000, ..Loop::default() }.cards();
    let found = measure(output, input, &options, &Stop::default()).unwrap();
    let (measured, Outcome { played, missed, .. }) = (found.marks.measured(), &found.marks);
    assert_eq!((measured.count, *played, *missed), (1, 1, 0), "{found:?}");
    assert_eq!(measured.max_ns.map(|delay| (delay + 500_000) / 1_000_000), Some(5), "{found:?}");
    snapshot!(remarks(&found.clone().report(["here", "there"])));
}
