mod cases;
mod joined;
mod report;
mod sweeps;

use tautline_trial::snapshot;

use std::sync::mpsc::{Receiver, Sender, channel};

use tautline_proto::device::{Cycle, DeviceError, Ended, Flow, Process, Settings, Side};
use tautline_proto::time::Frames;
use tautline_proto::units::Channels;

use super::*;

const SETTINGS: Settings = Settings {
    rate: Rate::HZ_48000,
    channels: Channels::STEREO,
    period: Frames::new(48),
    periods: 2,
};
const UNSURE: Span = Span::from_micros(3);

/// Two cards and a cable of `frames` frames; time passes by the frame.
struct Loop {
    frames: i64,
    blocks: usize,
    spoil: fn(&mut Vec<f32>),
}

impl Default for Loop {
    fn default() -> Self {
        Self { frames: 0, blocks: 400, spoil: |_| {} }
    }
}

struct Plays {
    cable: Sender<Vec<f32>>,
    blocks: usize,
    start: LocalTime,
}

struct Hears {
    cable: Receiver<Vec<f32>>,
    delay: i64,
    start: LocalTime,
    spoil: fn(&mut Vec<f32>),
}

impl Loop {
    fn cards(&self) -> (Box<dyn Device>, Box<dyn Device>) {
        let (there, here) = channel();
        let start = now();
        (
            Box::new(Plays { cable: there, blocks: self.blocks, start }),
            Box::new(Hears { cable: here, delay: self.frames, start, spoil: self.spoil }),
        )
    }

    fn measure(&self) -> MeasuredDelay {
        let options = DelayOptions {
            configured: None,
            settle: Span::ZERO,
            duration: None,
            scheduler: Scheduler::Other,
            channel: 0,
            mark: MarkKind::Wide,
            level_db: Marker::LEVEL_DB,
        };
        // The run number: some pairs of numbers hide most marks of the other run.
        fastrand::seed(1);
        let (output, input) = self.cards();
        measure(output, input, &options, &Stop::default()).unwrap()
    }
}

fn instant(start: LocalTime, frame: usize) -> LocalTime {
    start + SETTINGS.rate.span_of(Frames::from_len(frame))
}

impl Device for Plays {
    fn settings(&self) -> Settings {
        SETTINGS
    }

    fn run(&mut self, mut process: Box<dyn Process>, _stop: &Stop) -> (Box<dyn Process>, Ended) {
        for block in 0..self.blocks {
            let mut samples = vec![0.0; 96];
            let meets = instant(self.start, block * 48);
            let side =
                Side { samples: &mut samples, meets, uncertainty: UNSURE, skipped: Frames::ZERO };
            let mut cycle = Cycle {
                now: meets,
                capture: Side::absent(),
                playback: side,
                xruns: 0,
                clock: None,
            };
            assert_eq!(process.process(&mut cycle), Flow::Continue);
            self.cable.send(samples).unwrap();
        }
        self.cable = channel().0;
        (process, Ended::Finished)
    }
}

impl Device for Hears {
    fn settings(&self) -> Settings {
        SETTINGS
    }

    fn run(&mut self, mut process: Box<dyn Process>, _stop: &Stop) -> (Box<dyn Process>, Ended) {
        let mut sound = vec![0.0; self.delay as usize * 2];
        sound.extend(self.cable.iter().flatten());
        (self.spoil)(&mut sound);
        for (block, samples) in sound.chunks_exact_mut(96).enumerate() {
            let meets = instant(self.start, block * 48);
            let side = Side { samples, meets, uncertainty: UNSURE, skipped: Frames::ZERO };
            let mut cycle = Cycle {
                now: meets,
                capture: side,
                playback: Side::absent(),
                xruns: 0,
                clock: None,
            };
            process.process(&mut cycle);
        }
        (process, Ended::Finished)
    }
}

fn row(report: &MeasuredDelay) -> &Outcome {
    &report.marks
}

fn remarks(report: &crate::report::LabReport) -> String {
    let invalid_rows = report.rows.iter().filter_map(|row| row.invalid.clone());
    invalid_rows.chain(report.notes.iter().cloned()).collect::<Vec<_>>().join("\n")
}

fn text(report: &MeasuredDelay) -> String {
    report.clone().report(["here", "there"]).to_string()
}

#[test]
fn a_known_delay_is_read_back_within_its_uncertainty() {
    for frames in [0, 1, 240, 4801] {
        let report = Loop { frames, ..Loop::default() }.measure();
        let row = row(&report);
        let known = SETTINGS.rate.span_of(Frames::new(frames)).as_nanos();
        let unsure = row.uncertainty.median().unwrap().as_nanos();
        let median = row.measured().p50_ns.unwrap();
        assert!((median - known).abs() <= unsure, "{frames}: {report:?}");
        assert!((6_000..7_000).contains(&unsure), "both devices and the search: {unsure}");
        assert_eq!((row.missed, row.repeated), (0, 0), "{report:?}");
        assert_eq!((row.dropped_frames, row.repeated_frames), (0, 0), "{report:?}");
        assert!(row.played >= 28, "{report:?}");
        assert!(row.drift_ppm.is_none() && row.min_confidence.unwrap() > 0.9999, "{report:?}");
    }
}

#[test]
fn frames_that_were_dropped_or_repeated_on_the_way_are_counted() {
    let spoil = |sound: &mut Vec<f32>| {
        // Between two marks: elsewhere it would damage a number.
        sound.drain(20_156..20_162);
        let again = sound[28_790..28_794].to_vec();
        sound.splice(28_794..28_794, again);
    };
    let report = Loop { spoil, ..Loop::default() }.measure();
    assert_eq!((row(&report).dropped_frames, row(&report).repeated_frames), (3, 2), "{report:?}");
    assert_eq!(row(&report).missed, 0, "{report:?}");
}

#[test]
fn a_mark_that_was_silenced_on_the_way_is_missed() {
    let spoil = |sound: &mut Vec<f32>| sound[9_600..10_000].fill(0.0);
    let report = Loop { spoil, ..Loop::default() }.measure();
    assert_eq!(row(&report).missed, 1, "{report:?}");
    assert_eq!((row(&report).dropped_frames, row(&report).repeated_frames), (0, 0), "{report:?}");
}

#[test]
fn silence_misses_all_marks_and_invents_no_figures() {
    let spoil = |sound: &mut Vec<f32>| sound.fill(0.0);
    let report = Loop { spoil, ..Loop::default() }.measure();
    assert!(!report.marks.received_any());
    assert!(row(&report).missed >= 38, "{report:?}");
    snapshot!(remarks(&report.clone().report(["here", "there"])));
}

#[test]
fn inverted_and_softer_sound_is_reported() {
    let spoil = |sound: &mut Vec<f32>| sound.iter_mut().for_each(|sample| *sample *= -0.5);
    let report = Loop { spoil, ..Loop::default() }.measure();
    assert!((row(&report).gain.unwrap() + 0.0629).abs() < 1e-3, "{report:?}");
    assert!(text(&report).contains("polarity: turned"), "{report:?}");
}

#[test]
fn a_device_that_goes_ends_the_measurement_with_its_sentence() {
    struct Goes;
    impl Device for Goes {
        fn settings(&self) -> Settings {
            SETTINGS
        }
        fn run(&mut self, process: Box<dyn Process>, _: &Stop) -> (Box<dyn Process>, Ended) {
            let [tried, answer, hint] = ["a", "b", "c"].map(str::to_owned);
            (process, Ended::Gone(DeviceError { tried, answer, hint }))
        }
    }
    let (_, handles) = Loop::default().cards();
    let options = DelayOptions {
        configured: None,
        settle: Span::ZERO,
        duration: None,
        scheduler: Scheduler::Other,
        channel: 0,
        mark: MarkKind::Wide,
        level_db: Marker::LEVEL_DB,
    };
    let error = measure(Box::new(Goes), handles, &options, &Stop::default()).unwrap_err();
    assert_eq!(error.to_string(), "a: b\nhint: c");
}

fn at(mark: u32, delay_micros: i64) -> (Played, JudgedMark) {
    let frame = i64::from(mark) * 480 + 124;
    let played = LocalTime::ZERO + SETTINGS.rate.span_of(Frames::new(frame));
    let number = mark % tautline_dsp::timecode::NUMBERS;
    (
        Played { number, frame, at: played, ..Played::default() },
        JudgedMark {
            number,
            frame: frame as f64,
            alongside: 0.0,
            at: played + Span::from_micros(delay_micros),
            uncertainty: Span::ZERO,
            clock: Span::ZERO,
            confidence: 1.0,
            gain: 0.1,
            words: 0,
            clear_db: None,
        },
    )
}

fn judged(marks: impl Iterator<Item = JudgedMark>) -> Outcome {
    let mut judge = Judge::new(SETTINGS.rate, LocalTime::ZERO).with_room(20);
    (0..20).for_each(|mark| judge.played(at(mark, 0).0));
    marks.for_each(|mark| judge.received(mark));
    judge.finish(LocalTime::NEVER)
}

#[test]
fn mark_with_the_number_of_a_neighbour_is_rejected() {
    // In mark 10, an xrun changed the number: of a 10 ms path, it leaves no delay.
    for (number, missed) in [(11, 1), (12, 1), (9, 1)] {
        let outcome = judged((0..20).map(|mark| {
            let received = at(mark, 10_000).1;
            if mark == 10 { JudgedMark { number, ..received } } else { received }
        }));
        let values = outcome.delays.values().iter().map(|(_, delay)| delay.as_nanos());
        assert_eq!(values.clone().min(), values.max(), "{number}: {outcome:?}");
        assert_eq!((outcome.missed, outcome.delay.count()), (missed, 19), "{number}");
        let slips = (outcome.dropped_frames, outcome.repeated_frames);
        assert_eq!(slips, (0, 0), "{number}: {outcome:?}");
        // With a lower number, it is a repeated mark.
        let lower = u64::from(number < 10);
        assert_eq!((outcome.misread, outcome.repeated), (1 - lower, lower), "{number}");
    }
    // The last mark cannot be confirmed.
    let last = judged((0..19).map(|mark| JudgedMark { number: mark + mark / 18, ..at(mark, 0).1 }));
    assert_eq!((last.misread, last.delay.count()), (1, 18), "{last:?}");
}

#[test]
fn whole_marks_dropped_for_good_are_dropped_frames() {
    let outcome = judged((0..18).map(|mark| {
        let received = at(mark, 10_000).1;
        JudgedMark { number: if mark < 10 { mark } else { mark + 2 }, ..received }
    }));
    assert_eq!((outcome.dropped_frames, outcome.repeated_frames), (960, 0), "{outcome:?}");
    assert_eq!((outcome.misread, outcome.missed), (0, 2), "{outcome:?}");
}

#[test]
fn cards_that_drift_apart_drop_and_repeat_nothing() {
    for ppm in [500.0, -500.0, 100.0] {
        let mut judge = Judge::new(SETTINGS.rate, LocalTime::ZERO);
        for mark in 0..2000 {
            let (played, mut received) = at(mark, 5000);
            received.frame *= 1.0 + ppm / 1e6;
            judge.played(played);
            judge.received(received);
        }
        let outcome = judge.finish(LocalTime::NEVER);
        assert_eq!((outcome.dropped_frames, outcome.repeated_frames), (0, 0), "{ppm}");
        assert!((outcome.drift_ppm.unwrap() - ppm).abs() < 0.01, "{ppm}");
    }
}

#[test]
fn marks_for_voices_are_measured_as_others_are() {
    let options = DelayOptions {
        configured: None,
        settle: Span::ZERO,
        duration: None,
        scheduler: Scheduler::Other,
        channel: 0,
        mark: MarkKind::Voice,
        level_db: -30.0,
    };
    let card = Box::new(Duplex { frames: 4801, blocks: 2000 });
    let report = measure_both_ways(card, &options, &Stop::default()).unwrap();
    let row = row(&report);
    let known = SETTINGS.rate.span_of(Frames::new(4801)).as_nanos();
    let (median, unsure) =
        (row.measured().p50_ns.unwrap(), row.uncertainty.median().unwrap().as_nanos());
    assert!((median - known).abs() <= unsure && unsure < 10_000, "{report:?}");
    assert_eq!((row.missed, row.dropped_frames, row.repeated_frames), (0, 0, 0), "{report:?}");
    assert!(
        row.measured().count >= 29 && text(&report).contains("sound, dBFS: -30.0"),
        "{report:?}"
    );
}

#[test]
fn changes_of_the_lowest_bits_are_reported() {
    let verdict = |spoil: fn(&mut Vec<f32>)| {
        let report = Loop { spoil, ..Loop::default() }.measure();
        (row(&report).bit_exact(), row(&report).exactness.and_then(Exactness::name))
    };
    assert_eq!(verdict(|_| {}), (Some(true), None));
    assert_eq!(verdict(|sound| sound.fill(0.0)), (None, None));
    let turned = verdict(|sound| sound.iter_mut().for_each(|sample| *sample = -*sample));
    assert_eq!(turned, (Some(false), Some("polarity")));
    let softer = verdict(|sound| sound.iter_mut().for_each(|sample| *sample *= 0.7));
    assert_eq!(softer, (Some(false), Some("gain")));
    let dithered = verdict(|sound| {
        let mut random = fastrand::Rng::with_seed(3);
        sound.iter_mut().for_each(|sample| *sample += random.i32(-1..=1) as f32 / 32_768.0);
    });
    assert_eq!(dithered, (Some(false), Some("other")));
}

#[test]
fn marks_that_were_not_played_are_of_others() {
    let mut judge = Judge::new(SETTINGS.rate, LocalTime::ZERO + Span::from_millis(50));
    for mark in 100..120 {
        let (played, received) = at(mark, 1000);
        judge.played(played);
        judge.received(received);
    }
    for mark in [7, 99, 120, 5000] {
        judge.received(at(mark, 1000).1);
    }
    let outcome = judge.finish(LocalTime::NEVER);
    assert_eq!((outcome.delay.count(), outcome.foreign, outcome.missed), (20, 4, 0));
}

#[test]
fn marks_of_another_run_are_reported_and_not_measured() {
    let spoil = |sound: &mut Vec<f32>| {
        let mut marker = tautline_dsp::timecode::Marker::of(RunNumber::new(77));
        marker.fill(2, &mut sound[19_200..], |_| {});
    };
    let report = Loop { spoil, ..Loop::default() }.measure();
    assert_eq!(row(&report).foreign, 19, "{report:?}");
    // Found marks depend on the random run number.
    let (measured, Outcome { missed, played, .. }) = (row(&report).measured(), row(&report));
    assert!(measured.count >= 19, "{report:?}");
    assert_eq!(measured.count + missed, *played, "{report:?}");
    assert_eq!((row(&report).repeated, row(&report).dropped_frames), (0, 0), "{report:?}");
    snapshot!(remarks(&report.clone().report(["here", "there"])));
}

#[test]
fn frames_that_were_skipped_are_no_drift() {
    for skipped in [576.0, -576.0] {
        let mut judge = Judge::new(SETTINGS.rate, LocalTime::ZERO);
        for mark in 0..800 {
            let (played, mut received) = at(mark, 5000);
            received.frame *= 1.0 + 30e-6;
            if mark >= 300 {
                received.frame += skipped;
            }
            judge.played(played);
            judge.received(received);
        }
        let outcome = judge.finish(LocalTime::NEVER);
        assert_eq!(outcome.dropped_frames + outcome.repeated_frames, 576);
        assert!((outcome.drift_ppm.unwrap() - 30.0).abs() < 0.01, "{:?}", outcome.drift_ppm);
    }
}

#[test]
fn numbers_may_wrap_while_marks_are_under_way() {
    let last = tautline_dsp::timecode::NUMBERS;
    let mut judge = Judge::new(SETTINGS.rate, LocalTime::ZERO);
    for mark in last - 5..last + 5 {
        judge.played(at(mark, 0).0);
    }
    for mark in last - 5..last + 5 {
        judge.received(at(mark, 5000).1);
    }
    let outcome = judge.finish(LocalTime::NEVER);
    assert_eq!((outcome.delay.count(), outcome.missed, outcome.repeated), (10, 0, 0));
    assert_eq!(outcome.delay.median(), Some(Span::from_micros(5000)));
}

#[test]
fn repeated_marks_count_but_not_those_before_the_start() {
    let mut judge = Judge::new(SETTINGS.rate, LocalTime::ZERO + Span::from_millis(50));
    for mark in 0..20 {
        let (played, received) = at(mark, 1000);
        judge.played(played);
        judge.received(received);
        if mark == 11 {
            judge.received(received);
        }
    }
    let outcome = judge.finish(LocalTime::NEVER);
    assert_eq!((outcome.played, outcome.missed, outcome.repeated), (15, 0, 1));
}

struct Duplex {
    frames: usize,
    blocks: usize,
}

impl Device for Duplex {
    fn settings(&self) -> Settings {
        SETTINGS
    }

    fn run(&mut self, mut process: Box<dyn Process>, _stop: &Stop) -> (Box<dyn Process>, Ended) {
        let start = now();
        // A period is written one buffer ahead.
        let mut sound = vec![0.0; (self.frames + 96) * 2];
        for block in 0..self.blocks {
            let mut received = sound[block * 96..block * 96 + 96].to_vec();
            let mut played = vec![0.0; 96];
            let side = |samples, meets| Side {
                samples,
                meets,
                uncertainty: UNSURE,
                skipped: Frames::ZERO,
            };
            let mut cycle = Cycle {
                now: instant(start, (block + 1) * 48),
                capture: side(&mut received, instant(start, block * 48)),
                playback: side(&mut played, instant(start, (block + 2) * 48)),
                xruns: u32::from(block == 100),
                clock: None,
            };
            assert_eq!(process.process(&mut cycle), Flow::Continue);
            sound.extend(played);
        }
        (process, Ended::Finished)
    }
}

#[test]
fn a_card_that_goes_both_ways_is_measured_by_one_process() {
    for frames in [0, 1, 240, 4801] {
        let options = DelayOptions {
            configured: None,
            settle: Span::ZERO,
            duration: None,
            scheduler: Scheduler::Other,
            channel: 0,
            mark: MarkKind::Wide,
            level_db: Marker::LEVEL_DB,
        };
        let card = Box::new(Duplex { frames, blocks: 400 });
        let report = measure_both_ways(card, &options, &Stop::default()).unwrap();
        let row = row(&report);
        let known = SETTINGS.rate.span_of(Frames::from_len(frames)).as_nanos();
        let (median, unsure) =
            (row.measured().p50_ns.unwrap(), row.uncertainty.median().unwrap().as_nanos());
        assert!((median - known).abs() <= unsure, "{frames}: {report:?}");
        assert_eq!((row.missed, row.repeated), (0, 0), "{report:?}");
        assert_eq!((row.dropped_frames, row.repeated_frames), (0, 0), "{report:?}");
        assert_eq!(
            report.faults.map(|one| one.xruns),
            [1, 1],
            "a card's xrun is one of both its sides: {report:?}"
        );
    }
}
