//! Cards in virtual time, and files.

mod cards;
mod duplex;
mod files;
mod programs;
mod supervision;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use hound::{WavSpec, WavWriter};
use tautline_proto::device::{Cycle, Flow, Listener, Process, Settings};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};

use crate::software::pace::Pace;

fn settings(period: i64, periods: u32) -> Settings {
    let period = Frames::new(period);
    Settings { rate: Rate::HZ_48000, channels: Channels::STEREO, period, periods }
}

#[derive(Clone, Default)]
struct Scripted {
    now: Arc<AtomicI64>,
    late: VecDeque<(u32, Span)>,
    sleeps: u32,
}

impl Scripted {
    fn late(late: &[(u32, Span)]) -> Self {
        Self { late: late.iter().copied().collect(), ..Self::default() }
    }
}

impl Pace for Scripted {
    fn now(&mut self) -> LocalTime {
        LocalTime::from_nanos(self.now.load(Ordering::Relaxed))
    }

    fn sleep_until(&mut self, due: LocalTime) {
        let late = match self.late.front() {
            Some(&(sleep, late)) if sleep == self.sleeps => {
                self.late.pop_front();
                late
            }
            _ => Span::ZERO,
        };
        self.sleeps += 1;
        self.now.fetch_max(due.as_nanos(), Ordering::Relaxed);
        self.now.fetch_add(late.as_nanos(), Ordering::Relaxed);
    }
}

struct Each<F>(F);

impl<F: FnMut(&mut Cycle<'_>) -> Flow + Send> Process for Each<F> {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let _permit = tautline_io::thread::realtime::permit("a test takes notes");
        (self.0)(cycle)
    }
}

fn each(f: impl FnMut(&mut Cycle<'_>) -> Flow + Send + 'static) -> Box<dyn Process> {
    Box::new(Each(f))
}

type Received = (LocalTime, Vec<f32>);

#[derive(Clone, Default)]
struct Ear(Arc<Mutex<Vec<Received>>>);

impl Ear {
    fn samples(&self) -> Vec<f32> {
        self.0.lock().unwrap().iter().flat_map(|(_, samples)| samples.clone()).collect()
    }
}

impl Listener for Ear {
    fn received(&mut self, meets: LocalTime, _: LocalTime, samples: &[f32]) {
        let _permit = tautline_io::thread::realtime::permit("a test takes notes");
        self.0.lock().unwrap().push((meets, samples.to_vec()));
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tautline-audio-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn pattern(bits: u32, count: i64) -> Vec<i32> {
    let factor = if bits == 16 { 40_503 } else { 40_503 * 257 };
    (0..count).map(|i| ((i * factor) % (1 << bits) - (1 << (bits - 1))) as i32).collect()
}

fn floats(bits: u32, samples: &[i32]) -> Vec<f32> {
    samples.iter().map(|&sample| sample as f32 / (1 << (bits - 1)) as f32).collect()
}

fn spec(rate: u32, channels: u16, bits_per_sample: u16) -> WavSpec {
    let sample_format = hound::SampleFormat::Int;
    WavSpec { channels, sample_rate: rate, bits_per_sample, sample_format }
}

fn write_wav(path: &Path, spec: WavSpec, samples: &[i32]) {
    let mut writer = WavWriter::create(path, spec).unwrap();
    samples.iter().for_each(|&sample| writer.write_sample(sample).unwrap());
    writer.finalize().unwrap();
}
