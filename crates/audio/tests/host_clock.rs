//! Devices by name, on the host's clock. Late frames are accounted for.

use tautline_trial::snapshot;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tautline_audio::{DeviceSpec, Extras, FileReader, Opened, SoftwareSpec, open, open_supervised};
use tautline_dsp::format::SampleFormat;
use tautline_proto::device::{Cycle, Direction, Ended, Flow, Process, Settings, Stop};
use tautline_proto::time::Frames;
use tautline_proto::units::{Channels, Rate};

struct Each<F>(F);

impl<F: FnMut(&mut Cycle<'_>) -> Flow + Send> Process for Each<F> {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let _permit = tautline_io::thread::realtime::permit("a test takes notes");
        (self.0)(cycle)
    }
}

fn settings() -> Settings {
    let period = Frames::new(48);
    Settings { rate: Rate::HZ_48000, channels: Channels::STEREO, period, periods: 3 }
}

fn extras(record_format: SampleFormat) -> Extras {
    Extras { record_format, ..Extras::default() }
}

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("tautline-audio-host-{}-{name}", std::process::id()))
}

#[test]
fn the_recording_accounts_for_every_frame_of_the_card() {
    let path = scratch("whole.wav");
    let spec: DeviceSpec = format!("virtual:?periods=2&record={}", path.display()).parse().unwrap();
    let opened = open(&spec, Direction::Playback, settings(), extras(SampleFormat::L24)).unwrap();
    let Opened { mut device, notes, .. } = opened;
    assert_eq!(device.settings().periods, 2);
    let skipped = Arc::new(Mutex::new(0));
    let skip = Arc::clone(&skipped);
    let mut left = 200;
    let process = Each(move |cycle: &mut Cycle<'_>| {
        *skip.lock().unwrap() += cycle.playback.skipped.count() as u64;
        left -= 1;
        if left == 0 { Flow::Finished } else { Flow::Continue }
    });
    let (_, ended) = device.run(Box::new(process), &Stop::default());
    assert!(matches!(ended, Ended::Finished));
    drop(device);
    // Initial silence, 200 periods, and the skipped frames.
    let frames = 48 * 201 + *skipped.lock().unwrap();
    assert_eq!(FileReader::open(&path).unwrap().format().frames, Some(frames));
    assert_eq!(notes.take(), [] as [String; 0]);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_file_as_input_loses_nothing_to_a_host_that_stalls() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/pattern16.flac");
    let spec = DeviceSpec::Software(SoftwareSpec::File(path.into()));
    let opened = open(&spec, Direction::Capture, settings(), extras(SampleFormat::L16)).unwrap();
    let Opened { mut device, .. } = opened;
    let blocks = Arc::new(Mutex::new(0));
    let count = Arc::clone(&blocks);
    let process = Each(move |cycle: &mut Cycle<'_>| {
        assert_eq!(cycle.capture.skipped, Frames::ZERO);
        *count.lock().unwrap() += 1;
        Flow::Continue
    });
    let (_, ended) = device.run(Box::new(process), &Stop::default());
    assert!(matches!(ended, Ended::Finished));
    assert_eq!(*blocks.lock().unwrap(), 500_usize.div_ceil(48));
}

#[test]
fn lost_card_is_reopened_and_records_into_the_same_file() {
    let path = scratch("gone.wav");
    let spec: DeviceSpec =
        format!("virtual:?unplug=5ms&replug=1ms&record={}", path.display()).parse().unwrap();
    let format = extras(SampleFormat::F32);
    let opened = open_supervised(&spec, Direction::Playback, settings(), format).unwrap();
    let Opened { mut device, notes, supervision, .. } = opened;
    let watch = supervision.clone();
    let played = Arc::new(Mutex::new((0, false)));
    let play = Arc::clone(&played);
    let process = Each(move |cycle: &mut Cycle<'_>| {
        let mut played = play.lock().unwrap();
        let (count, was_away) = &mut *played;
        *was_away |= watch.is_away();
        let real = !watch.is_away();
        cycle.playback.samples.fill(if real { 0.5 } else { 0.25 });
        *count += usize::from(real);
        if real && *was_away { Flow::Finished } else { Flow::Continue }
    });
    let (_, ended) = device.run(Box::new(process), &Stop::default());
    assert!(matches!(ended, Ended::Finished), "{ended:?}");
    assert_eq!(supervision.losses(), 1);
    drop(device);
    // The timer's sound is inaudible; both runs are complete except for late frames.
    let samples: Vec<f32> =
        hound::WavReader::open(&path).unwrap().samples().map(Result::unwrap).collect();
    assert!(samples.iter().all(|&sample| sample == 0.5 || sample == 0.0));
    let sound = samples.iter().filter(|&&sample| sample == 0.5).count();
    let given = played.lock().unwrap().0 * 96;
    assert!(sound > 0 && sound <= given, "{sound} of {given}");
    let notes = notes.take();
    snapshot!(notes[0]);
    snapshot!(notes[1]);
    std::fs::remove_file(path).unwrap();
}
