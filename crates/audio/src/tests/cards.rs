//! Cards in virtual time.

use tautline_trial::snapshot;

use std::path::Path;
use std::sync::{Arc, Mutex};

use tautline_dsp::format::SampleFormat;
use tautline_dsp::signal::Sine;
use tautline_proto::device::{Device, Direction, Ended, Flow, Listener, Settings, Stop};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Ppm;

use super::{Ear, Folder, Scripted, each, floats, pattern, settings, spec, write_wav};
use crate::software::file::FileReader;
use crate::software::recorder::Recorder;
use crate::software::source::{FileSource, SampleSource};
use crate::software::virtual_card::{Disappearance, Ends, Parts, VirtualCard};
use crate::{DeviceSpec, Extras, Notes, open_paced};

fn parts(direction: Direction, settings: Settings) -> Parts {
    let name = "virtual:".to_owned();
    Parts {
        name,
        directions: direction.into(),
        settings,
        error: Ppm::ZERO,
        fault: None,
        timeout: Frames::ZERO,
    }
}

fn span(frames: i64) -> Span {
    settings(1, 2).rate.span_of(Frames::new(frames))
}

fn read(path: &Path) -> Vec<f32> {
    let mut reader = FileReader::open(path).unwrap();
    let (mut all, mut some) = (vec![], vec![]);
    while reader.read(&mut some) {
        all.extend_from_slice(&some);
    }
    all
}

fn play(blocks: u32, pace: Scripted) -> (Ear, Vec<(u32, i64)>) {
    let ear = Ear::default();
    let ends = Ends { listener: Some(Box::new(ear.clone())), ..Ends::silent() };
    let mut card =
        VirtualCard::new(parts(Direction::Playback, settings(48, 2)), ends, Box::new(pace));
    let reported = Arc::new(Mutex::new(vec![]));
    let notify = Arc::clone(&reported);
    let mut block = 0;
    let process = each(move |cycle| {
        block += 1;
        cycle.playback.samples.fill(block as f32);
        notify.lock().unwrap().push((cycle.xruns, cycle.playback.skipped.count()));
        if block == blocks { Flow::Finished } else { Flow::Continue }
    });
    let (_, ended) = card.run(process, &Stop::default());
    assert!(matches!(ended, Ended::Finished));
    let reported = reported.lock().unwrap().clone();
    (ear, reported)
}

fn blocks(ear: &Ear) -> Vec<f32> {
    let samples = ear.samples();
    assert!(samples.chunks(96).all(|block| block.iter().all(|&s| s == block[0])));
    samples.chunks(96).map(|block| block[0]).collect()
}

#[test]
fn blocks_follow_each_other_on_the_cards_clock() {
    let (ear, reported) = play(5, Scripted::default());
    assert_eq!(blocks(&ear), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    for ((meets, _), block) in ear.0.lock().unwrap().iter().zip(0..) {
        assert_eq!(*meets, LocalTime::ZERO + span(48 * block));
    }
    assert!(reported.iter().all(|&reported| reported == (0, 0)));
}

#[test]
fn starved_card_plays_silence_and_reports_it() {
    // Frame 96's wake-up is 150 late: at 246, with 144 written.
    let (ear, reported) = play(6, Scripted::late(&[(2, span(150))]));
    assert_eq!(blocks(&ear), [0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(reported, [(0, 0), (0, 0), (1, 144), (0, 0), (0, 0), (0, 0)]);
    for ((meets, _), block) in ear.0.lock().unwrap().iter().zip(0..) {
        assert_eq!(*meets, LocalTime::ZERO + span(48 * block));
    }
}

#[test]
fn hour_of_silence_is_bounded_and_keeps_position() {
    let hour = 3600 * 48_000;
    let (ear, reported) = play(3, Scripted::late(&[(2, span(hour))]));
    let received = ear.0.lock().unwrap();
    assert!(received.len() < 100, "{} blocks", received.len());
    let (meets, last) = received.last().unwrap();
    assert_eq!((*meets, last[0]), (LocalTime::ZERO + span(96 + hour), 3.0));
    assert_eq!(reported[2], (1, hour - 48));
    let (before, silence) = &received[received.len() - 2];
    assert_eq!((*before, silence[0]), (*meets - span(48), 0.0));
}

#[test]
fn a_file_waits_for_a_late_program_and_the_recording_is_whole() {
    let folder = Folder::new();
    let path = folder.path("a.wav");
    let spec: DeviceSpec = format!("file:{}", path.display()).parse().unwrap();
    let ear = Ear::default();
    let extras = Extras {
        listener: Some(Box::new(ear.clone())),
        record_format: SampleFormat::F32,
        ..Extras::default()
    };
    let pace = Scripted::late(&[(2, span(9_600)), (250, span(7_000))]);
    let now = Arc::clone(&pace.now);
    let opened =
        open_paced(&spec, Direction::Playback, settings(48, 2), extras, Box::new(pace)).unwrap();
    let mut device = opened.device;
    let mut block = 0;
    let process = each(move |cycle| {
        block += 1;
        assert_eq!(cycle.playback.meets, LocalTime::ZERO + span(48 * block));
        assert_eq!((cycle.xruns, cycle.playback.skipped.count()), (0, 0));
        cycle.playback.samples.fill(block as f32);
        let slow = if block == 350 { span(200).as_nanos() } else { 0 };
        now.fetch_add(slow, std::sync::atomic::Ordering::Relaxed);
        if block == 400 { Flow::Finished } else { Flow::Continue }
    });
    let (_, ended) = device.run(process, &Stop::default());
    assert!(matches!(ended, Ended::Finished));
    drop(device);
    let expected: Vec<f32> = (0..=400).flat_map(|block| [block as f32; 96]).collect();
    assert!(read(&path) == expected);
    assert!(ear.samples() == expected, "the listener hears what is recorded");
}

#[test]
fn file_underruns_after_a_long_program_stall() {
    let folder = Folder::new();
    let path = folder.path("a.wav");
    let spec: DeviceSpec = format!("file:{}", path.display()).parse().unwrap();
    let extras = Extras { record_format: SampleFormat::F32, ..Extras::default() };
    let pace = Box::new(Scripted::late(&[(2, span(96_000))]));
    let opened = open_paced(&spec, Direction::Playback, settings(48, 2), extras, pace).unwrap();
    let mut device = opened.device;
    let mut block = 0;
    let process = each(move |cycle| {
        block += 1;
        cycle.playback.samples.fill(0.5);
        let starved = if block == 3 { (1, 96_000 - 48) } else { (0, 0) };
        assert_eq!((cycle.xruns, cycle.playback.skipped.count()), starved);
        if block == 4 { Flow::Finished } else { Flow::Continue }
    });
    device.run(process, &Stop::default());
    drop(device);
    let received = read(&path);
    let sound = received.iter().filter(|&&sample| sample == 0.5).count();
    assert_eq!((received.len(), sound), (2 * (96_000 + 48 * 4), 2 * 48 * 4));
}

#[test]
fn a_card_that_is_just_in_time_does_not_starve() {
    let (ear, reported) = play(4, Scripted::late(&[(2, span(47))]));
    assert_eq!(blocks(&ear), [0.0, 1.0, 2.0, 3.0, 4.0]);
    assert!(reported.iter().all(|&reported| reported == (0, 0)));
}

#[derive(Clone, Default)]
struct Takes(Arc<Mutex<Vec<Span>>>);

impl Listener for Takes {
    fn received(&mut self, meets: LocalTime, taken: LocalTime, _: &[f32]) {
        let _permit = tautline_io::thread::realtime::permit("a test takes notes");
        self.0.lock().unwrap().push((taken - meets).max(Span::ZERO));
    }
}

#[test]
fn patient_card_reports_when_late_blocks_were_taken() {
    let frozen = Span::from_millis(600);
    for (timeout, maximum) in [(48_000, frozen - span(48)), (0, Span::ZERO)] {
        let takes = Takes::default();
        let ends = Ends { listener: Some(Box::new(takes.clone())), ..Ends::silent() };
        let timeout = Frames::new(timeout);
        let parts = Parts { timeout, ..parts(Direction::Playback, settings(48, 2)) };
        let pace = Scripted::late(&[(20, frozen)]);
        let mut card = VirtualCard::new(parts, ends, Box::new(pace));
        let mut left = 1000;
        let process = each(move |_| {
            left -= 1;
            if left == 0 { Flow::Finished } else { Flow::Continue }
        });
        card.run(process, &Stop::default());
        let takes = takes.0.lock().unwrap();
        let latest = takes.iter().copied().max().unwrap();
        assert!((latest - maximum).abs() <= Span::from_nanos(1), "{timeout:?}: {latest}");
        let late = takes.iter().filter(|late| **late > Span::ZERO).count();
        assert_eq!(late > 590, maximum > Span::ZERO, "{timeout:?}: {late}");
    }
}

#[test]
fn a_process_that_takes_too_long_loses_the_head_of_its_block() {
    let pace = Scripted::default();
    let now = Arc::clone(&pace.now);
    let ear = Ear::default();
    let ends = Ends { listener: Some(Box::new(ear.clone())), ..Ends::silent() };
    let mut card =
        VirtualCard::new(parts(Direction::Playback, settings(48, 2)), ends, Box::new(pace));
    let process = each(move |cycle| {
        cycle.playback.samples.fill(1.0);
        // Frame 58: a period of silence and ten frames.
        let nanos = span(58).as_nanos() + 1;
        now.fetch_add(nanos, std::sync::atomic::Ordering::Relaxed);
        Flow::Finished
    });
    card.run(process, &Stop::default());
    let samples = ear.samples();
    assert!(samples[..2 * 58].iter().all(|&s| s == 0.0), "the lead and ten frames");
    assert!(samples[2 * 58..].iter().all(|&s| s == 1.0));
}

#[test]
fn the_recording_holds_the_silence_of_a_starved_card() {
    let folder = Folder::new();
    let path = folder.path("played.wav");
    let settings = settings(48, 2);
    let recorder = Recorder::create(&path, &settings, SampleFormat::L16, &Notes::default());
    let ends = Ends { recorder: Some(recorder.unwrap()), ..Ends::silent() };
    let pace = Scripted::late(&[(2, span(150))]);
    let mut card = VirtualCard::new(parts(Direction::Playback, settings), ends, Box::new(pace));
    let mut left = 4;
    let process = each(move |cycle| {
        cycle.playback.samples.fill(0.5);
        left -= 1;
        if left == 0 { Flow::Finished } else { Flow::Continue }
    });
    card.run(process, &Stop::default());
    drop(card);
    let blocks: Vec<f32> = read(&path).chunks(96).map(|block| block[0]).collect();
    assert_eq!(blocks, [0.0, 0.5, 0.5, 0.0, 0.0, 0.0, 0.5, 0.5]);
}

fn capture_file(path: &Path, settings: Settings) -> (Vec<f32>, Ended) {
    let source = FileSource::open(&path.into(), &settings, false, &Notes::default()).unwrap();
    let ends = Ends { source: SampleSource::File(source), ..Ends::silent() };
    let pace = Box::new(Scripted::default());
    let mut card = VirtualCard::new(parts(Direction::Capture, settings), ends, pace);
    let captured = Arc::new(Mutex::new(vec![]));
    let take = Arc::clone(&captured);
    let process = each(move |cycle| {
        take.lock().unwrap().extend_from_slice(cycle.capture.samples);
        Flow::Continue
    });
    let (_, ended) = card.run(process, &Stop::default());
    let captured = captured.lock().unwrap().clone();
    (captured, ended)
}

#[test]
fn a_file_passes_through_two_cards_bit_for_bit() {
    let folder = Folder::new();
    let (from, to) = (folder.path("from.wav"), folder.path("to.wav"));
    let settings = settings(48, 2);
    for (bits, format) in
        [(16, SampleFormat::L16), (24, SampleFormat::L24), (24, SampleFormat::F32)]
    {
        let samples = pattern(bits, 96 * 100);
        write_wav(&from, spec(48_000, 2, bits as u16), &samples);
        let (captured, ended) = capture_file(&from, settings);
        assert!(matches!(ended, Ended::Finished));
        let recorder = Recorder::create(&to, &settings, format, &Notes::default()).unwrap();
        let ends = Ends { recorder: Some(recorder), ..Ends::silent() };
        let pace = Box::new(Scripted::default());
        let mut card = VirtualCard::new(parts(Direction::Playback, settings), ends, pace);
        let mut at = 0;
        let process = each(move |cycle| {
            let block = &captured[at..at + 96];
            cycle.playback.samples.copy_from_slice(block);
            at += 96;
            if at == captured.len() { Flow::Finished } else { Flow::Continue }
        });
        card.run(process, &Stop::default());
        drop(card);
        let played = read(&to);
        assert!(played[..96].iter().all(|&s| s == 0.0), "the ring's first silence");
        assert!(played[96..] == floats(bits, &samples), "{format:?}");
    }
}

#[test]
fn the_last_period_of_a_file_is_filled_up_with_silence() {
    let folder = Folder::new();
    let path = folder.path("a.wav");
    for (frames, periods) in [(100, 3), (96, 2), (1, 1)] {
        let samples = pattern(16, frames * 2);
        write_wav(&path, spec(48_000, 2, 16), &samples);
        let (captured, ended) = capture_file(&path, settings(48, 2));
        assert!(matches!(ended, Ended::Finished));
        assert_eq!(captured.len(), periods * 96, "{frames} frames");
        let (sound, silence) = captured.split_at(frames as usize * 2);
        assert_eq!(sound, floats(16, &samples));
        assert!(silence.iter().all(|&s| s == 0.0));
    }
}

#[test]
fn a_flac_file_that_is_cut_leaves_a_sentence() {
    let folder = Folder::new();
    let path = folder.path("cut.flac");
    let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/pattern16.flac");
    let bytes = std::fs::read(whole).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let notes = Notes::default();
    drop(FileSource::open(&path.clone().into(), &settings(48, 2), false, &notes).unwrap());
    let sentences = notes.take();
    assert_eq!(sentences.len(), 1);
    snapshot!(sentences[0]);
}

#[test]
fn capture_that_overruns_goes_on_in_the_right_place() {
    let settings = settings(48, 2);
    let tone = Sine::new("440".parse().unwrap(), 48_000);
    let ends = Ends { source: SampleSource::Tone(tone), ..Ends::silent() };
    // The third period is full at 144; at 300 the ring begins at 204.
    let pace = Box::new(Scripted::late(&[(2, span(156))]));
    let mut card = VirtualCard::new(parts(Direction::Capture, settings), ends, pace);
    let mut frame = 0;
    let mut reported = vec![];
    let process = each(move |cycle| {
        frame += cycle.capture.skipped.count();
        reported.push((cycle.xruns, cycle.capture.skipped.count()));
        assert_eq!(cycle.capture.meets, LocalTime::ZERO + span(frame));
        let mut expected = tone;
        expected.skip(frame as u64);
        let mut samples = [0.0; 96];
        expected.fill(2, &mut samples);
        assert_eq!(*cycle.capture.samples, samples);
        frame += 48;
        if frame < 480 {
            return Flow::Continue;
        }
        assert_eq!(reported, [(0, 0), (0, 0), (1, 144), (0, 0), (0, 0), (0, 0), (0, 0)]);
        Flow::Finished
    });
    let (_, ended) = card.run(process, &Stop::default());
    assert!(matches!(ended, Ended::Finished));
}

#[test]
fn a_card_that_runs_fast_wakes_early_by_as_much() {
    for ppm in [0.0, 1000.0, -1000.0] {
        let mut parts = parts(Direction::Capture, settings(480, 2));
        parts.error = Ppm::from_f64(ppm);
        let pace = Scripted::default();
        let now = Arc::clone(&pace.now);
        let mut card = VirtualCard::new(parts, Ends::silent(), Box::new(pace));
        let mut left = 1000;
        let process = each(move |_| {
            left -= 1;
            if left == 0 { Flow::Finished } else { Flow::Continue }
        });
        card.run(process, &Stop::default());
        let seconds = now.load(std::sync::atomic::Ordering::Relaxed) as f64 / 1e9;
        assert!((seconds - 10.0 / (1.0 + ppm / 1e6)).abs() < 2e-9, "{seconds}");
    }
}

#[test]
fn card_stops_on_request() {
    let stop = Stop::default();
    let pace = Box::new(Scripted::default());
    let parts = parts(Direction::Playback, settings(48, 2));
    let mut card = VirtualCard::new(parts, Ends::silent(), pace);
    let request = stop.clone();
    let process = each(move |_| {
        assert!(!request.is_requested(), "called after the stop");
        request.request();
        Flow::Continue
    });
    assert!(matches!(card.run(process, &stop).1, Ended::Stopped));
}

#[test]
fn unplugged_card_stays_away_for_the_set_time_once() {
    let fault = Arc::new(Disappearance::new(Span::from_secs(2), Span::from_secs(1)));
    let at = |millis| LocalTime::ZERO + Span::from_millis(millis);
    let run = |pace: Scripted, maximum: u32| {
        let mut parts = parts(Direction::Playback, settings(480, 2));
        parts.fault = Some(Arc::clone(&fault));
        let mut card = VirtualCard::new(parts, Ends::silent(), Box::new(pace));
        let mut left = maximum;
        let process = each(move |_| {
            left -= 1;
            if left == 0 { Flow::Finished } else { Flow::Continue }
        });
        card.run(process, &Stop::default()).1
    };
    assert!(!fault.is_away(at(1999)));
    assert!(matches!(run(Scripted::default(), 1000), Ended::Gone(_)));
    assert!(fault.is_away(at(2000)) && fault.is_away(at(2999)) && !fault.is_away(at(3000)));
    assert!(matches!(run(Scripted::default(), 1000), Ended::Finished));
}

#[test]
fn a_device_opened_by_name_can_run_by_another_clock() {
    let folder = Folder::new();
    let path = folder.path("a.wav");
    let spec: DeviceSpec = format!("file:{}", path.display()).parse().unwrap();
    let extras = Extras { record_format: SampleFormat::F32, ..Extras::default() };
    let pace = Box::new(Scripted::default());
    let opened = open_paced(&spec, Direction::Playback, settings(48, 2), extras, pace).unwrap();
    let mut device = opened.device;
    let process = each(|cycle| {
        assert_eq!(cycle.playback.meets, LocalTime::ZERO + Span::from_millis(1));
        cycle.playback.samples.fill(0.5);
        Flow::Finished
    });
    device.run(process, &Stop::default());
    drop(device);
    assert_eq!(read(&path), [[0.0; 96], [0.5; 96]].concat());
}
