//! A card's thread allocates only at set-up and end.

use std::path::Path;
use std::sync::{Arc, Mutex};

use tautline_audio::{
    DeviceSpec, Extras, OutputConfig, RecordedTime, Supervision, open, open_supervised, outputs,
    recorded,
};
use tautline_dsp::equalizer::{Band, BandShape, Equalizer};
use tautline_dsp::format::SampleFormat;
use tautline_dsp::gain::Gain;
use tautline_io::clock::now;
use tautline_proto::device::{
    Cycle, Direction, Directions, Flow, Listener, Process, Settings, Stop,
};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_trial::{CountingAllocator, allocator_calls};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

struct Deaf;

impl Listener for Deaf {
    fn received(&mut self, _: LocalTime, _: LocalTime, _: &[f32]) {}
}

struct Count {
    calls: u32,
    first: u64,
    requested: Arc<Mutex<Option<u64>>>,
}

impl Process for Count {
    fn process(&mut self, _: &mut Cycle<'_>) -> Flow {
        self.calls += 1;
        match self.calls {
            2 => self.first = allocator_calls(),
            200 => {
                *self.requested.lock().unwrap_or_else(|poison| poison.into_inner()) =
                    Some(allocator_calls() - self.first);
                return Flow::Finished;
            }
            _ => {}
        }
        Flow::Continue
    }
}

/// Counts from the second call.
struct Outlast {
    calls: u32,
    first: u64,
    supervision: Option<Supervision>,
    given: Arc<Mutex<Option<Supervision>>>,
    requested: Arc<Mutex<Option<u64>>>,
}

impl Process for Outlast {
    fn process(&mut self, _: &mut Cycle<'_>) -> Flow {
        self.calls += 1;
        if self.calls == 2 {
            // Uncontended, and not counted.
            let _permit = tautline_io::thread::realtime::permit("a test is set up");
            self.supervision =
                self.given.lock().unwrap_or_else(|poison| poison.into_inner()).take();
            self.first = allocator_calls();
        }
        let back = |watch: &Supervision| watch.losses() == 1 && !watch.is_away();
        if !self.supervision.as_ref().is_some_and(back) {
            return Flow::Continue;
        }
        let requested = allocator_calls() - self.first;
        let _permit = tautline_io::thread::realtime::permit("a test takes notes");
        *self.requested.lock().unwrap_or_else(|poison| poison.into_inner()) = Some(requested);
        Flow::Finished
    }
}

fn requested(spec: &str, directions: impl Into<Directions>) -> Option<u64> {
    let spec: DeviceSpec = spec.parse().expect("the tests know how to write one");
    let period = Frames::new(2);
    let settings =
        Settings { rate: Rate::HZ_48000, channels: Channels::STEREO, period, periods: 2 };
    let extras = Extras {
        listener: Some(Box::new(Deaf)),
        record_format: SampleFormat::L24,
        ..Extras::default()
    };
    let opened =
        open(&spec, directions, settings, extras).expect("virtual devices are always here");
    let mut device = opened.device;
    let counted = Arc::new(Mutex::new(None));
    let count = Count { calls: 0, first: 0, requested: Arc::clone(&counted) };
    device.run(Box::new(count), &Stop::default());
    *counted.lock().unwrap_or_else(|poison| poison.into_inner())
}

#[test]
fn a_card_that_records_does_not_allocate_per_period() {
    let path = std::env::temp_dir().join(format!("tautline-alloc-{}.wav", std::process::id()));
    let spec = format!("virtual:?record={}", path.display());
    assert_eq!(requested(&spec, Direction::Playback), Some(0));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn recording_start_and_end_do_not_allocate() {
    let folder = std::env::temp_dir().join(format!("tautline-recordings-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let period = Frames::new(48);
    let settings =
        Settings { rate: Rate::HZ_48000, channels: Channels::STEREO, period, periods: 2 };
    let spec: DeviceSpec = "tone:440".parse().unwrap();
    let opened = open(&spec, Direction::Capture, settings, Extras::default()).unwrap();
    let (mut device, mut recording) =
        recorded(opened.device, Direction::Capture, SampleFormat::L24);
    let counted = Arc::new(Mutex::new(None));
    let count = Count { calls: 0, first: 0, requested: Arc::clone(&counted) };
    let files = std::thread::scope(|scope| {
        let runs = scope.spawn(|| drop(device.run(Box::new(count), &Stop::default())));
        let mut files = 0;
        while !runs.is_finished() && files < 1000 {
            let file = folder.join(format!("{files}.wav"));
            let begun = match files % 2 {
                0 => recording.begin(&file),
                _ => recording
                    .begin_in_step(&file, &RecordedTime::at(now() + Span::from_micros(700))),
            };
            begun.unwrap();
            files += 1;
            if files % 3 == 0 {
                recording.end();
            }
        }
        files
    });
    assert!(files > 2, "{files}");
    assert_eq!(*counted.lock().unwrap(), Some(0));
    drop(recording);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn tone_and_file_capture_do_not_allocate_per_period() {
    assert_eq!(requested("tone:440", Direction::Capture), Some(0));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/pattern24.flac");
    assert_eq!(requested(&format!("file:{}", path.display()), Direction::Capture), Some(0));
}

#[test]
fn a_card_that_goes_both_ways_does_not_allocate_per_period() {
    for spec in ["null:", "virtual:?loopback=5", "virtual:?tone=440"] {
        assert_eq!(requested(spec, Directions::Both), Some(0), "{spec}");
    }
}

#[test]
fn lost_and_restored_card_does_not_allocate() {
    for direction in [Direction::Capture, Direction::Playback] {
        let spec: DeviceSpec = "virtual:?unplug=5ms&replug=1ms".parse().unwrap();
        let period = Frames::new(48);
        let settings =
            Settings { rate: Rate::HZ_48000, channels: Channels::STEREO, period, periods: 2 };
        let listener: Option<Box<dyn Listener>> = Some(Box::new(Deaf));
        let extras = Extras { listener, record_format: SampleFormat::L24, ..Extras::default() };
        let opened = open_supervised(&spec, direction, settings, extras).unwrap();
        let mut device = opened.device;
        let requested = Arc::new(Mutex::new(None));
        let given = Arc::new(Mutex::new(Some(opened.supervision)));
        let outlast = Outlast {
            calls: 0,
            first: 0,
            supervision: None,
            given,
            requested: Arc::clone(&requested),
        };
        device.run(Box::new(outlast), &Stop::default());
        assert_eq!(*requested.lock().unwrap(), Some(0), "{direction:?}");
    }
}

#[test]
fn outputs_of_a_card_do_not_allocate_while_they_change() {
    let period = Frames::new(48);
    let settings =
        Settings { rate: Rate::HZ_48000, channels: Channels::new(4).unwrap(), period, periods: 2 };
    let spec: DeviceSpec = "virtual:".parse().unwrap();
    let mut card = open(&spec, Direction::Playback, settings, Extras::default()).unwrap().device;
    let config = |channels| OutputConfig { channels, ..OutputConfig::default() };
    let (process, outputs) = outputs(&*card, vec![config(vec![0, 1]), config(vec![2])]);
    let (counted, stop) = (Arc::new(Mutex::new(None)), Stop::default());
    std::thread::scope(|scope| {
        scope.spawn(|| drop(card.run(process, &stop)));
        // The card's thread calls the engine, which counts all of the thread's allocations.
        let count = Count { calls: 0, first: 0, requested: Arc::clone(&counted) };
        let (mut device, control) = (outputs[0].device().unwrap(), outputs[0].control());
        let engine = scope.spawn(move || drop(device.run(Box::new(count), &Stop::default())));
        for change in (0..20).cycle() {
            let gain = Gain::from_db(-f64::from(change)).unwrap();
            let shape = BandShape::Peaking(gain);
            let band = Band { shape, frequency: "1000".parse().unwrap(), q: 1.0 };
            control.change(|it| it.equalizer = Equalizer::new(48_000, &[band]).unwrap());
            control.change(|it| it.delay = Span::from_millis(i64::from(change)));
            control.change(|it| it.limiter = (change % 2 == 0).then_some(gain));
            if engine.is_finished() {
                break;
            }
            std::thread::yield_now();
        }
        stop.request();
    });
    assert_eq!(*counted.lock().unwrap(), Some(0));
}
