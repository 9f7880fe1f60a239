//! Devices that the test turns, whose frames share one clock.

use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tautline_proto::device::{Cycle, Ended, Flow, Process, Settings, Side, Stop};
use tautline_proto::time::Frames;
use tautline_proto::units::{Channels, Rate};

use super::*;

const RATE: Rate = Rate::HZ_48000;
const TURN: usize = 960;

struct Turned {
    period: usize,
    first: usize,
    turns: Receiver<()>,
    turned: Sender<()>,
    direction: Direction,
}

fn instant(frame: usize) -> LocalTime {
    LocalTime::from_nanos(7_000_000_000) + RATE.span_of(Frames::from_len(frame))
}

impl Device for Turned {
    fn settings(&self) -> Settings {
        let period = Frames::from_len(self.period);
        Settings { rate: RATE, channels: Channels::STEREO, period, periods: 2 }
    }

    fn run(&mut self, mut process: Box<dyn Process>, _: &Stop) -> (Box<dyn Process>, Ended) {
        while self.turns.recv().is_ok() {
            for _ in 0..TURN / self.period {
                let frames = self.first..self.first + self.period;
                let sample = |frame| [frame as f32 / (1 << 23) as f32; 2];
                let mut samples: Vec<f32> = frames.flat_map(sample).collect();
                let (meets, uncertainty, skipped) = (instant(self.first), Span::ZERO, Frames::ZERO);
                let side = Side { samples: &mut samples, meets, uncertainty, skipped };
                process.process(&mut Cycle::one_way(self.direction, meets, side, 0));
                self.first += self.period;
            }
            self.turned.send(()).unwrap();
        }
        (process, Ended::Finished)
    }
}

struct Idle;

impl Process for Idle {
    fn process(&mut self, _: &mut Cycle<'_>) -> Flow {
        Flow::Continue
    }
}

struct RunningDevice {
    turns: Sender<()>,
    turned: Receiver<()>,
    runs: JoinHandle<()>,
}

#[test]
fn files_are_named_by_the_time_at_which_a_call_began() {
    for (seconds, name) in [
        (0, "19700101T000000Z"),
        (951_782_399, "20000228T235959Z"),
        (951_782_400, "20000229T000000Z"),
        (1_709_251_199, "20240229T235959Z"),
        (1_735_689_599, "20241231T235959Z"),
        (1_735_689_600, "20250101T000000Z"),
        (4_107_542_400, "21000301T000000Z"),
    ] {
        assert_eq!(utc(seconds), name, "{seconds}");
    }
}

#[test]
fn the_next_part_of_a_recording_has_a_name_of_its_own() {
    let name =
        |part| FileName { stem: "t-call-1".to_owned(), part, begins: RecordedTime::default() };
    let file = |part, way| name(part).file(Path::new("d"), way);
    assert_eq!(file(1, Direction::Capture), Path::new("d/t-call-1-sent.wav"));
    assert_eq!(file(2, Direction::Playback), Path::new("d/t-call-1-received-2.wav"));
}

impl RunningDevice {
    fn of(recordings: &mut Recordings, direction: Direction, period: usize, first: usize) -> Self {
        let ((turns, reported), (turned, received)) = (channel(), channel());
        let device = Turned { period, first, turns: reported, turned, direction };
        let mut device = recordings.of(Box::new(device), direction).unwrap();
        let runs = std::thread::spawn(move || drop(device.run(Box::new(Idle), &Stop::default())));
        Self { turns, turned: received, runs }
    }

    fn turn(&self) {
        self.turns.send(()).unwrap();
        self.turned.recv().unwrap();
    }
}

fn frames(file: &Path) -> Vec<i32> {
    let bytes = std::fs::read(file).unwrap();
    let data = bytes.windows(4).position(|four| four == b"data").unwrap() + 8;
    let number = |frame: &[u8]| i32::from_le_bytes([frame[0], frame[1], frame[2], 0]);
    bytes[data..].chunks_exact(6).map(number).collect()
}

#[test]
fn next_recording_files_begin_together_without_a_gap() {
    let folder = std::env::temp_dir().join(format!("tautline-parts-{}", std::process::id()));
    let mut recordings = Recordings::at(&folder, &(Arc::new(|_| ()) as Events)).unwrap();
    recordings.maximum = 24_000 * 6;
    recordings.begin();
    let devices = [
        RunningDevice::of(&mut recordings, Direction::Capture, 480, 0),
        RunningDevice::of(&mut recordings, Direction::Playback, 320, 1_137),
    ];
    let (until, mut turns) = (Instant::now() + Duration::from_secs(60), 0);
    let mut more = 0;
    while more < 10 {
        devices.iter().for_each(RunningDevice::turn);
        turns += 1;
        recordings.turn(instant(turns * TURN));
        more += usize::from(recordings.name.as_ref().unwrap().part == 3);
        assert!(Instant::now() < until, "no file is full");
        std::thread::park_timeout(Duration::from_millis(5));
    }
    let name = recordings.name.take().unwrap();
    for RunningDevice { turns, runs, .. } in devices {
        drop(turns);
        runs.join().unwrap();
    }
    recordings.finish().unwrap();
    for file in std::fs::read_dir(&folder).unwrap() {
        assert_eq!(file.unwrap().metadata().unwrap().mode() & 0o777, 0o600);
    }
    let part = |part, way| {
        let name = FileName { stem: name.stem.clone(), part, begins: RecordedTime::default() };
        frames(&name.file(&folder, way))
    };
    let [sent, received] =
        [Direction::Capture, Direction::Playback].map(|way| [part(1, way), part(2, way)]);
    for [first, second] in [&sent, &received] {
        assert_eq!(first.last().unwrap() + 1, second[0], "not a frame is between");
        let steps = second.windows(2).all(|two| two[1] == two[0] + 1);
        assert!(steps && second.len() > 24_000, "{} frames", second.len());
    }
    assert_eq!(sent[1][0], received[1][0], "they begin at one instant");
    assert_eq!(sent[0].len(), received[0].len());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn both_directions_are_mixed_into_one_file_beside_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("call.wav");
    std::fs::write(&file, "kept").unwrap();
    let notes = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&notes);
    let events = move |event| {
        if let Event::Note(note) = event {
            kept.lock().unwrap().push(note);
        }
    };
    let mut recordings = Recordings::at(&file, &(Arc::new(events) as Events)).unwrap();
    recordings.begin();
    let devices = [
        RunningDevice::of(&mut recordings, Direction::Capture, 480, 0),
        RunningDevice::of(&mut recordings, Direction::Playback, 320, 1_137),
    ];
    for turn in 1..=20 {
        devices.iter().for_each(RunningDevice::turn);
        recordings.turn(instant(turn * TURN));
    }
    for RunningDevice { turns, runs, .. } in devices {
        drop(turns);
        runs.join().unwrap();
    }
    recordings.finish().unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
    let mixed = folder.path().join("call-2.wav");
    let notes = notes.lock().unwrap();
    let [begun, writing, done] = &notes[..] else { panic!("{notes:?}") };
    assert!(writing.ends_with("call.wav"), "{writing}");
    assert!([begun, done].iter().all(|note| note.ends_with("call-2.wav")), "{notes:?}");
    assert_eq!(mixed.metadata().unwrap().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    let mixed: Vec<_> = mixed_samples(&mixed).into_iter().step_by(2).collect();
    let begins = mixed.iter().position(|sample| *sample > 0).unwrap();
    assert_eq!(mixed[begins..begins + 3], [1, 2, 3]);
    let both = mixed[begins..].iter().position(|sample| *sample >= 2 * 1_137).unwrap();
    assert_eq!(both, 1_136, "the other direction begins with its frame 1137");
    assert!(mixed[begins + both..].windows(2).take(10_000).all(|two| two[1] == two[0] + 2));
}

#[test]
fn sums_beyond_full_scale_are_not_clipped() {
    let folder = tempfile::tempdir().unwrap();
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate: 48_000,
        bits_per_sample: 24,
        sample_format: hound::SampleFormat::Int,
    };
    let side = |name: &str, samples: &[i32]| {
        let path = folder.path().join(name);
        let mut file = hound::WavWriter::create(&path, spec).unwrap();
        samples.iter().for_each(|sample| file.write_sample(*sample).unwrap());
        file.finalize().unwrap();
        path
    };
    let sides = [
        side("sent.wav", &[5_000_000, -5_000_000, 7]),
        side("heard.wav", &[5_000_000, -5_000_000]),
    ];
    let into = folder.path().join("mixed.wav");
    mix::mix(sides.each_ref().map(|side| &**side), &into).unwrap();
    assert_eq!(mixed_samples(&into), [10_000_000, -10_000_000, 7]);
}

/// In units of 24-bit samples.
fn mixed_samples(file: &Path) -> Vec<i32> {
    let samples = hound::WavReader::open(file).unwrap().into_samples::<f32>();
    samples.map(|sample| (sample.unwrap() * 8_388_608.0) as i32).collect()
}
