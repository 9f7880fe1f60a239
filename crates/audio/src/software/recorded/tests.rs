//! The test runs the device.

use tautline_trial::snapshot;

use std::path::PathBuf;

use tautline_proto::device::{Ended, Flow, Process, Stop};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};

use super::*;

const PERIOD: usize = 4;

struct Turned {
    periods: std::sync::mpsc::Receiver<Frames>,
    turned: std::sync::mpsc::Sender<()>,
    direction: Direction,
    begins: LocalTime,
}

impl Device for Turned {
    fn settings(&self) -> Settings {
        Settings {
            rate: Rate::HZ_48000,
            channels: Channels::STEREO,
            period: Frames::from_len(PERIOD),
            periods: 2,
        }
    }

    fn run(&mut self, mut process: Box<dyn Process>, _: &Stop) -> (Box<dyn Process>, Ended) {
        let (mut value, mut meets) = (0.0, self.begins);
        while let Ok(skipped) = self.periods.recv() {
            value += 0.125;
            let mut samples = [value; 2 * PERIOD];
            meets += Rate::HZ_48000.span_of(skipped);
            let uncertainty = Span::ZERO;
            let side = Side { samples: &mut samples, meets, uncertainty, skipped };
            process.process(&mut Cycle::one_way(self.direction, meets, side, 0));
            meets += Rate::HZ_48000.span_of(Frames::from_len(PERIOD));
            self.turned.send(()).unwrap();
        }
        (process, Ended::Finished)
    }
}

struct Muting(std::sync::Arc<std::sync::atomic::AtomicBool>);

impl Process for Muting {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        if self.0.load(std::sync::atomic::Ordering::Relaxed) {
            cycle.capture.samples.fill(0.0);
            cycle.playback.samples.fill(0.0);
        }
        Flow::Continue
    }
}

struct World {
    recording: Recording,
    muted: std::sync::Arc<std::sync::atomic::AtomicBool>,
    periods: std::sync::mpsc::Sender<Frames>,
    turned: std::sync::mpsc::Receiver<()>,
    thread: std::thread::JoinHandle<()>,
    folder: PathBuf,
}

impl World {
    fn new(name: &str, direction: Direction) -> Self {
        Self::beginning(name, direction, LocalTime::ZERO)
    }

    fn beginning(name: &str, direction: Direction, begins: LocalTime) -> Self {
        let folder = std::env::temp_dir().join(format!("tautline-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (periods, reported) = std::sync::mpsc::channel();
        let (turns, turned) = std::sync::mpsc::channel();
        let device = Turned { periods: reported, turned: turns, direction, begins };
        let (mut device, recording) = recorded(Box::new(device), direction, SampleFormat::F32);
        let muted = std::sync::Arc::default();
        let process = Box::new(Muting(std::sync::Arc::clone(&muted)));
        let thread = std::thread::spawn(move || {
            drop(device.run(process, &Stop::default()));
        });
        Self { recording, muted, periods, turned, thread, folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn turn(&self, periods: usize, skipped: i64) {
        for period in 0..periods {
            let skipped = if period == 0 { skipped } else { 0 };
            self.periods.send(Frames::new(skipped)).unwrap();
            self.turned.recv().unwrap();
        }
    }

    fn ends(self, names: &[&str]) -> Vec<Vec<f32>> {
        drop(self.periods);
        self.thread.join().unwrap();
        drop(self.recording);
        let read = |name: &&str| {
            let mut reader = hound::WavReader::open(self.folder.join(name)).unwrap();
            let samples: Vec<f32> = reader.samples().map(Result::unwrap).collect();
            samples.chunks(2).map(|frame| frame[0]).collect()
        };
        let all = names.iter().map(read).collect();
        std::fs::remove_dir_all(&self.folder).unwrap();
        all
    }
}

fn periods(values: &[f32]) -> Vec<f32> {
    values.iter().flat_map(|value| [*value; PERIOD]).collect()
}

#[test]
fn recording_starts_on_request_and_files_have_no_gap() {
    let mut world = World::new("begins", Direction::Capture);
    world.turn(1, 0);
    world.recording.begin(&world.file("first.wav")).unwrap();
    world.turn(2, 0);
    world.recording.begin(&world.file("second.wav")).unwrap();
    world.turn(1, 0);
    world.recording.end();
    world.turn(1, 0);
    world.recording.begin(&world.file("third.wav")).unwrap();
    world.turn(1, 0);
    let files = world.ends(&["first.wav", "second.wav", "third.wav"]);
    assert_eq!(files, [periods(&[0.25, 0.375]), periods(&[0.5]), periods(&[0.75])]);
}

#[test]
fn two_recordings_align_whichever_device_starts_first() {
    let time = RecordedTime::default();
    let (received, sent) = (LocalTime::from_nanos(7_000_000_000), Span::from_millis(90));
    let mut files = Vec::new();
    for (name, begins) in
        [("heard", received), ("sent", received + sent), ("early", received + -sent)]
    {
        let mut world = World::beginning(&format!("step-{name}"), Direction::Capture, begins);
        world.recording.begin_in_step(&world.file("one.wav"), &time).unwrap();
        world.turn(1, 0);
        files.extend(world.ends(&["one.wav"]));
    }
    let begins = files.iter().map(|file| file.iter().position(|sample| *sample != 0.0));
    let begins: Vec<usize> = begins.map(|begins| begins.expect("a period")).collect();
    assert_eq!(begins, [4_800, 4_800 + 4_320, 480]);
    assert!(files.iter().zip(&begins).all(|(file, begins)| file[*begins..] == periods(&[0.125])));
}

fn later(instant: LocalTime, frames: i64) -> LocalTime {
    instant + Rate::HZ_48000.span_of(Frames::new(frames))
}

#[test]
fn next_files_of_two_recordings_align_without_gap() {
    let begins = LocalTime::from_nanos(7_000_000_000);
    let (first, second) = (RecordedTime::default(), RecordedTime::at(later(begins, 15)));
    for (name, after) in [("heard", 0), ("sent", 2)] {
        let name = format!("next-{name}");
        let mut world = World::beginning(&name, Direction::Capture, later(begins, after));
        world.recording.begin_in_step(&world.file("1.wav"), &first).unwrap();
        world.turn(1, 0);
        world.turn(after as usize / 2, 0);
        world.recording.begin_in_step(&world.file("2.wav"), &second).unwrap();
        world.turn(6 - after as usize / 2, 0);
        let files = world.ends(&["1.wav", "2.wav"]);
        assert_eq!(files[0].len(), 4_800 + 15, "{name}");
        let silence = vec![0.0; 4_800 + after as usize];
        let sound = periods(&[0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875]);
        assert!(files.concat() == [silence, sound].concat(), "{name}");
    }
}

#[test]
fn late_recording_start_is_padded_with_silence() {
    let begins = LocalTime::from_nanos(7_000_000_000);
    let mut world = World::beginning("late", Direction::Playback, begins);
    world.recording.begin(&world.file("1.wav")).unwrap();
    world.turn(2, 0);
    let [late, among] = [5, 15].map(|frames| RecordedTime::at(later(begins, frames)));
    world.recording.begin_in_step(&world.file("2.wav"), &late).unwrap();
    world.turn(1, 0);
    world.recording.begin_in_step(&world.file("3.wav"), &among).unwrap();
    world.turn(1, 8);
    let files = world.ends(&["1.wav", "2.wav", "3.wav"]);
    let silence = |frames| vec![0.0; frames];
    assert_eq!(files[0], periods(&[0.125, 0.25]));
    assert_eq!(files[1], [silence(3), periods(&[0.375]), silence(3)].concat());
    assert_eq!(files[2], [silence(5), periods(&[0.5])].concat());
}

#[test]
fn silence_counts_for_how_much_a_file_holds() {
    let mut world = World::new("holds", Direction::Playback);
    world.recording.begin(&world.file("heard.wav")).unwrap();
    let bytes = 101 * PERIOD as u64 * 8;
    world.turn(1, 100 * PERIOD as i64);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !world.recording.holds(bytes) {
        assert!(std::time::Instant::now() < until, "it is never full");
        std::thread::yield_now();
    }
    assert!(!world.recording.holds(bytes + 1));
    world.ends(&[]);
}

#[test]
fn recording_has_the_sent_sound_and_silence_when_muted() {
    for direction in [Direction::Capture, Direction::Playback] {
        let mut world = World::new(&format!("muted-{direction:?}"), direction);
        world.recording.begin(&world.file("sent.wav")).unwrap();
        world.turn(1, 0);
        world.muted.store(true, std::sync::atomic::Ordering::Relaxed);
        world.turn(2, 0);
        world.muted.store(false, std::sync::atomic::Ordering::Relaxed);
        world.turn(1, 0);
        assert_eq!(world.ends(&["sent.wav"]), [periods(&[0.125, 0.0, 0.0, 0.5])]);
    }
}

#[test]
fn skipped_frames_are_recorded_as_silence() {
    let mut world = World::new("skipped", Direction::Playback);
    world.recording.begin(&world.file("heard.wav")).unwrap();
    world.turn(1, 0);
    world.turn(1, 2 * PERIOD as i64);
    assert_eq!(world.ends(&["heard.wav"]), [periods(&[0.125, 0.0, 0.0, 0.25])]);
}

#[test]
fn recording_overwrites_no_file() {
    let mut world = World::new("there", Direction::Capture);
    std::fs::write(world.file("sent.wav"), "sound").unwrap();
    let refused = world.recording.begin(&world.file("sent.wav")).unwrap_err().to_string();
    snapshot!(refused);
    assert_eq!(std::fs::read(world.file("sent.wav")).unwrap(), b"sound");
    world.ends(&[]);
}

#[test]
fn busy_device_receives_the_newest_command_later() {
    let mut world = World::new("stands", Direction::Capture);
    for number in 0..2 * UNDER_WAY {
        world.recording.begin(&world.file(&format!("{number}.wav"))).unwrap();
    }
    world.turn(1, 0);
    world.recording.turn();
    world.turn(1, 0);
    let last = format!("{}.wav", 2 * UNDER_WAY - 1);
    let before = format!("{}.wav", UNDER_WAY - 1);
    let files = world.ends(&[&before, &last]);
    assert_eq!(files, [periods(&[0.125]), periods(&[0.25])]);
}
