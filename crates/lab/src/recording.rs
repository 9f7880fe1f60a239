//! Records a device for later evaluation.
//!
//! Allocates before the first period. Dropped frames become silence, so positions hold.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use rtrb::{Consumer, Producer};
use tautline_compare::Sound;
use tautline_engine::error::RunError;
use tautline_engine::monitor::run::Running;
use tautline_io::clock::{now, sleep_until};
use tautline_io::thread::{Scheduler, memory};
use tautline_proto::device::{Cycle, Device, Flow, Process, Stop};
use tautline_proto::time::{Frames, LocalTime, Span};

use crate::kept::lock_memory;

const TOLD: Span = Span::from_secs(10);
const BEAT: Span = Span::from_millis(20);

#[derive(Debug, Clone)]
pub struct RecordOptions {
    pub channels: Vec<usize>,
    pub frames: Frames,
    pub scheduler: Scheduler,
}

#[derive(Debug, Clone)]
pub struct DeviceRecording {
    pub sound: Sound,
    /// ADC time of the first frame, as reported by the device; `None` if empty.
    pub begins: Option<LocalTime>,
    pub notes: Vec<String>,
}

/// Ends with enough frames or a stop; reports progress after 1 s, then every 10 s.
pub fn record(
    device: Box<dyn Device>,
    options: &RecordOptions,
    stop: &Stop,
    mut notify: impl FnMut(Span),
) -> Result<DeviceRecording, RunError> {
    let settings = device.settings();
    let mut notes: Vec<String> = lock_memory().into_iter().collect();
    let (recorder, recorded) = recorder(settings.channels.count(), options);
    let running = Running::start(device, Box::new(recorder), options.scheduler, stop)?;
    if !running.granted.is_granted() {
        notes.push(format!("the thread of the device runs as {}", running.granted));
    }
    let mut next = Span::from_secs(1);
    while !running.is_over() && !stop.is_requested() {
        let taken = recorded.samples.slots() / options.channels.len().max(1);
        if settings.rate.span_of(Frames::from_len(taken)) >= next {
            notify(next);
            next = if next < TOLD { TOLD } else { next + TOLD };
        }
        sleep_until(now() + BEAT);
    }
    running.end()?;
    let skipped = recorded.skipped.load(Ordering::Relaxed);
    if skipped > 0 {
        notes.push(format!("the device dropped {skipped} frames; they are silence here"));
    }
    let begins = recorded.begins.get().copied();
    let sound = Sound { channels: recorded.taken(options.channels.len()), rate: settings.rate };
    Ok(DeviceRecording { sound, begins, notes })
}

struct ChannelRecorder {
    all: usize,
    kept: Vec<usize>,
    samples: Producer<f32>,
    skipped: Arc<AtomicU64>,
    begins: Arc<OnceLock<LocalTime>>,
}

struct Recorded {
    samples: Consumer<f32>,
    skipped: Arc<AtomicU64>,
    begins: Arc<OnceLock<LocalTime>>,
}

fn recorder(all: usize, options: &RecordOptions) -> (ChannelRecorder, Recorded) {
    let kept: Vec<_> = options.channels.iter().map(|channel| (*channel).min(all - 1)).collect();
    let (samples, taken) = memory::ring(options.frames.as_len() * kept.len());
    let skipped = Arc::<AtomicU64>::default();
    let begins = Arc::<OnceLock<LocalTime>>::default();
    let (dropped, began) = (Arc::clone(&skipped), Arc::clone(&begins));
    let recorder = ChannelRecorder { all, kept, samples, skipped: dropped, begins: began };
    (recorder, Recorded { samples: taken, skipped, begins })
}

impl ChannelRecorder {
    /// Whether no frame was recorded. Frames dropped before the first block do not count.
    fn is_empty(&self) -> bool {
        self.samples.slots() == self.samples.buffer().capacity()
    }

    fn room(&self) -> usize {
        self.samples.slots() / self.kept.len()
    }
}

impl Process for ChannelRecorder {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        cycle.playback.samples.fill(0.0);
        let side = &cycle.capture;
        if self.is_empty() {
            // Only writer: does not wait.
            let _ = self.begins.set(side.meets);
        }
        if !self.is_empty() && side.skipped > Frames::ZERO {
            let skipped = side.skipped.as_len();
            self.skipped.fetch_add(skipped as u64, Ordering::Relaxed);
            for _ in 0..skipped.min(self.room()) * self.kept.len() {
                // Only writer: there is room.
                let _ = self.samples.push(0.0);
            }
        }
        for frame in side.samples.chunks_exact(self.all) {
            if self.room() == 0 {
                return Flow::Finished;
            }
            for channel in &self.kept {
                let _ = self.samples.push(frame[*channel]);
            }
        }
        Flow::Continue
    }
}

impl Recorded {
    fn taken(mut self, channels: usize) -> Vec<Vec<f32>> {
        let mut all = vec![Vec::with_capacity(self.samples.slots() / channels); channels];
        'frames: loop {
            for channel in &mut all {
                let Ok(sample) = self.samples.pop() else { break 'frames };
                channel.push(sample);
            }
        }
        all
    }
}
