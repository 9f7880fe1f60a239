//! The test is the recorder's thread.

use tautline_trial::snapshot;

use std::io::Write;

use tautline_proto::device::{Cycle, Device, Direction, Flow, Process, Stop};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Ppm, Rate};

use super::scribe::Unwritten;
use super::*;
use crate::software::pace::Pace;
use crate::software::virtual_card::{Ends, Parts, VirtualCard};
use crate::software::wav::Spent;

fn stepped(path: &Path, format: SampleFormat, room: usize) -> (Recorder, Scribe) {
    let settings = Settings {
        rate: Rate::HZ_48000,
        channels: Channels::STEREO,
        period: Frames::new(48),
        periods: 2,
    };
    let (recorder, mut scribe) = pair(create(path, &settings, format).unwrap(), room, &settings);
    scribe.header_every = 8;
    (recorder, scribe)
}

fn read(path: &Path) -> Vec<f32> {
    let mut reader = hound::WavReader::open(path).unwrap();
    reader.samples().map(Result::unwrap).collect()
}

fn scratch(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("tautline-audio-{}-{name}.wav", std::process::id()))
}

#[test]
fn a_file_can_be_read_while_it_is_written() {
    let path = scratch("killed");
    let (mut recorder, mut scribe) = stepped(&path, SampleFormat::F32, 64);
    assert_eq!(read(&path), [] as [f32; 0]);
    recorder.write(&[0.1, -0.0, 3.0, 0.4, 0.5, 0.6, 0.7, 0.8]);
    scribe.empty().unwrap();
    assert_eq!(read(&path), [0.1, -0.0, 3.0, 0.4, 0.5, 0.6, 0.7, 0.8]);
    std::fs::remove_file(path).unwrap();
}

fn ended(path: &Path, recorder: Recorder, scribe: Scribe) -> (Vec<f32>, Vec<String>) {
    let notes = scribe.notes.clone();
    drop(recorder);
    scribe.run();
    let samples = read(path);
    std::fs::remove_file(path).unwrap();
    (samples, notes.take())
}

#[test]
fn overflowed_samples_become_silence_in_place() {
    let path = scratch("slow");
    let (mut recorder, mut scribe) = stepped(&path, SampleFormat::F32, 8);
    recorder.write(&[1.0; 6]);
    recorder.write(&[2.0; 4]);
    recorder.write(&[3.0; 2]);
    scribe.empty().unwrap();
    recorder.silence(2);
    recorder.write(&[4.0; 2]);
    let (samples, notes) = ended(&path, recorder, scribe);
    let expected = [&[1.0_f32; 6][..], &[0.0; 4], &[3.0; 2], &[0.0; 2], &[4.0; 2]].concat();
    assert_eq!(samples, expected);
    assert!(notes[0].contains("2 frames"), "{notes:?}");
}

#[test]
fn recorded_silence_uses_no_ring_space() {
    let path = scratch("gap");
    let (mut recorder, scribe) = stepped(&path, SampleFormat::L24, 8);
    recorder.silence(1_000_000);
    recorder.write(&[0.5; 4]);
    recorder.silence(2);
    recorder.silence(2);
    recorder.write(&[0.25; 4]);
    recorder.silence(6);
    drop(recorder);
    scribe.run();
    let mut reader = hound::WavReader::open(&path).unwrap();
    let samples: Vec<i32> = reader.samples().map(Result::unwrap).collect();
    let (silence, rest) = samples.split_at(1_000_000);
    assert!(silence.iter().all(|&sample| sample == 0));
    let half = 1 << 22;
    assert_eq!(
        rest,
        [[half; 4], [0; 4], [half / 2; 4]].concat().into_iter().chain([0; 6]).collect::<Vec<_>>()
    );
    std::fs::remove_file(path).unwrap();
}

#[test]
fn more_silences_than_are_remembered_keep_every_sample_in_place() {
    let path = scratch("gaps");
    let (mut recorder, scribe) = stepped(&path, SampleFormat::F32, 4096);
    let mut expected = vec![];
    for index in 0..MAX_GAPS + 10 {
        recorder.silence(2);
        recorder.write(&[1.0; 2]);
        expected.extend([0.0, 0.0].iter().chain(if index < MAX_GAPS {
            &[1.0; 2]
        } else {
            &[0.0; 2]
        }));
    }
    let (samples, notes) = ended(&path, recorder, scribe);
    assert_eq!(samples, expected);
    assert!(notes[0].contains(": 10 frames "), "{notes:?}");
}

#[test]
fn failed_recording_is_reported_and_card_continues() {
    let path = scratch("limited");
    let settings = Settings {
        rate: Rate::HZ_48000,
        channels: Channels::MONO,
        period: Frames::new(48),
        periods: 2,
    };
    let file = create(&path, &settings, SampleFormat::L24).unwrap();
    let (mut recorder, mut scribe) = pair(file, 4096, &settings);
    recorder.write(&[0.5; 2001]);
    scribe.empty().unwrap();
    let notes = scribe.notes.clone();
    scribe.name = "heard.wav".to_owned();
    let mut end = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    end.write_all(b"half a block").unwrap();
    scribe.end(Err(Unwritten::from(io::Error::from(io::ErrorKind::StorageFull))));
    snapshot!(notes.failed().join("\n"));
    assert!(recorder.has_room(1 << 30), "a card does not wait for it");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 68 + 3 * 2001 + 1);
    assert_eq!(hound::WavReader::open(&path).unwrap().duration(), 2001);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn slowest_step_is_blamed_for_a_loss() {
    let (much, little) = (Span::from_millis(700), Span::from_millis(20));
    let lap = |overslept, coding, storing| Lap { overslept, spent: Spent { coding, storing } };
    snapshot!(lap(little, little, much).blame(false));
    snapshot!(lap(little, much, little).blame(false));
    snapshot!(lap(much, little, little).blame(false));
}

struct Lazy {
    now: i64,
    late: Option<i64>,
    scribe: Scribe,
}

impl Pace for Lazy {
    fn now(&mut self) -> LocalTime {
        LocalTime::from_nanos(self.now)
    }

    fn sleep_until(&mut self, due: LocalTime) {
        if due.as_nanos() > self.now {
            self.scribe.empty().unwrap();
            self.now = due.as_nanos() + self.late.take().unwrap_or(0);
        }
    }
}

#[test]
fn a_patient_card_waits_for_its_disk_too() {
    let path = scratch("patient");
    let settings = Settings {
        rate: Rate::HZ_48000,
        channels: Channels::STEREO,
        period: Frames::new(48),
        periods: 2,
    };
    let (recorder, scribe) = stepped(&path, SampleFormat::F32, 96 * 50);
    let parts = Parts {
        name: "file:".to_owned(),
        directions: Direction::Playback.into(),
        settings,
        error: Ppm::ZERO,
        fault: None,
        timeout: Frames::new(48_000),
    };
    let ends = Ends { recorder: Some(recorder), ..Ends::silent() };
    let pace = Lazy { now: 0, late: Some(500_000_000), scribe };
    let mut card = VirtualCard::new(parts, ends, Box::new(pace));
    card.run(Box::new(Steady { left: 600 }), &Stop::default());
    drop(card);
    let samples = read(&path);
    assert!(samples.len() > 96 * 500 && samples[96..].iter().all(|&sample| sample == 0.5));
    std::fs::remove_file(path).unwrap();
}

struct Steady {
    left: u32,
}

impl Process for Steady {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        assert_eq!((cycle.xruns, cycle.playback.skipped), (0, Frames::ZERO));
        cycle.playback.samples.fill(0.5);
        self.left -= 1;
        if self.left == 0 { Flow::Finished } else { Flow::Continue }
    }
}

#[test]
fn the_ring_holds_half_a_second_of_the_most_that_is_carried() {
    let settings = Settings {
        rate: Rate::new(192_000).unwrap(),
        channels: Channels::new(64).unwrap(),
        period: Frames::new(48),
        periods: 2,
    };
    let path = scratch("much");
    for format in [SampleFormat::L16, SampleFormat::L24, SampleFormat::F32] {
        let file = create(&path, &settings, format).unwrap();
        let (mut recorder, scribe) = pair(file, ring_samples(&settings), &settings);
        let block: Vec<f32> = (0..64 * 48).map(|sample| sample as f32 / 4096.0).collect();
        for _ in 0..2000 {
            recorder.write(&block);
        }
        let notes = scribe.notes.clone();
        drop(recorder);
        scribe.run();
        assert_eq!(notes.take(), [] as [String; 0]);
        let reader = hound::WavReader::open(&path).unwrap();
        assert_eq!((reader.spec().channels, reader.duration()), (64, 96_000));
        std::fs::remove_file(&path).unwrap();
    }
}
