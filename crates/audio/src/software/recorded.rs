//! Records a device's sound in WAV files. An ordinary thread creates each recorder; the device's
//! thread only pushes into its ring, and returns it through another ring.

#[cfg(test)]
mod tests;

use core::mem::ManuallyDrop;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rtrb::{Consumer, Producer, PushError, RingBuffer};
use tautline_dsp::format::SampleFormat;
use tautline_proto::device::{
    Cycle, Device, DeviceError, Direction, Flow, Process, Settings, Side,
};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};

use super::recorder::{Recorder, StoredSamples};
use super::wav::MAX_BYTES;
use crate::toolbox::Notes;
use crate::toolbox::tapped::{DeviceTap, TappedDevice};

const UNDER_WAY: usize = 4;
/// Sound bytes at which the next part begins. The rest of the file takes seconds, even with 128
/// channels at 192 kHz.
pub const MAX_OF_A_PART: u64 = MAX_BYTES / 16 * 15;

/// Never dropped on the device's thread.
type HeldRecorder = ManuallyDrop<Box<BegunRecorder>>;
type NextRecorder = Option<HeldRecorder>;

struct BegunRecorder {
    recorder: Recorder,
    begins: Option<RecordedTime>,
}

/// Lead before the first period. The start times of two devices differ by less.
const BEFORE: Span = Span::from_millis(100);

/// Common start of several recordings in converter time; by default shortly before the first
/// period. Clones share it.
#[derive(Debug, Clone)]
pub struct RecordedTime(Arc<AtomicI64>);

impl Default for RecordedTime {
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(LocalTime::NEVER.as_nanos())))
    }
}

impl RecordedTime {
    pub fn at(instant: LocalTime) -> Self {
        Self(Arc::new(AtomicI64::new(instant.as_nanos())))
    }

    fn after(&self, meets: LocalTime) -> Span {
        let unknown = LocalTime::NEVER.as_nanos();
        let begins = (meets + -BEFORE).as_nanos();
        let known = self.0.compare_exchange(unknown, begins, Ordering::Relaxed, Ordering::Relaxed);
        LocalTime::from_nanos(known.err().unwrap_or(begins)) - meets
    }
}

/// Controls a recording, on an ordinary thread. If dropped, it ends with the device.
pub struct Recording {
    settings: Settings,
    format: SampleFormat,
    handed: Producer<NextRecorder>,
    back: Consumer<HeldRecorder>,
    waits: Option<NextRecorder>,
    stored: Option<StoredSamples>,
    ending: Vec<Recorder>,
    notes: Notes,
}

/// For a device that does nothing but record.
#[derive(Debug)]
pub struct OnlyRecorded;

impl Process for OnlyRecorded {
    fn process(&mut self, _: &mut Cycle<'_>) -> Flow {
        Flow::Continue
    }
}

pub fn recorded(
    device: Box<dyn Device>,
    direction: Direction,
    format: SampleFormat,
) -> (Box<dyn Device>, Recording) {
    let settings = device.settings();
    let (handed, hands) = RingBuffer::new(UNDER_WAY);
    let (gives, back) = RingBuffer::new(UNDER_WAY + 2);
    let Settings { channels, rate, .. } = settings;
    let tap = RecordingTap { direction, channels, rate, hands, gives, next: None, recorder: None };
    let recording = Recording {
        settings,
        format,
        handed,
        back,
        waits: None,
        stored: None,
        ending: Vec::new(),
        notes: Notes::default(),
    };
    (Box::new(TappedDevice::new(device, tap)), recording)
}

impl Recording {
    /// Records into `path` from the next period, without a gap.
    pub fn begin(&mut self, path: &Path) -> Result<(), DeviceError> {
        self.begin_with(path, None)
    }

    /// Records from the common start, exact to the frame; begins with silence if late.
    pub fn begin_in_step(&mut self, path: &Path, time: &RecordedTime) -> Result<(), DeviceError> {
        self.begin_with(path, Some(time.clone()))
    }

    fn begin_with(&mut self, path: &Path, begins: Option<RecordedTime>) -> Result<(), DeviceError> {
        let recorder = Recorder::create_new(path, &self.settings, self.format, &self.notes)?;
        self.stored = Some(recorder.stored());
        self.hand(Some(ManuallyDrop::new(Box::new(BegunRecorder { recorder, begins }))));
        Ok(())
    }

    pub fn end(&mut self) {
        self.stored = None;
        self.hand(None);
    }

    /// Whether the file holds this many sound bytes, such as [`MAX_OF_A_PART`].
    pub fn holds(&self, maximum: u64) -> bool {
        let bytes = self.format.bytes() as u64;
        self.stored.as_ref().is_some_and(|stored| stored.count() * bytes >= maximum)
    }

    fn hand(&mut self, handed: NextRecorder) {
        if let Some(Some(unbegun)) = self.waits.replace(handed) {
            drop(ManuallyDrop::into_inner(unbegun));
        }
        self.turn();
    }

    pub fn turn(&mut self) {
        while let Ok(begun) = self.back.pop() {
            let BegunRecorder { recorder, .. } = *ManuallyDrop::into_inner(begun);
            recorder.close();
            self.ending.push(recorder);
        }
        self.ending.retain(|recorder| !recorder.is_closed());
        if let Some(handed) = self.waits.take()
            && let Err(PushError::Full(handed)) = self.handed.push(handed)
        {
            self.waits = Some(handed);
        }
    }

    pub const fn notes(&self) -> &Notes {
        &self.notes
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let never = self.waits.take().flatten();
        let back = core::iter::from_fn(|| self.back.pop().ok());
        never.into_iter().chain(back).for_each(|one| drop(ManuallyDrop::into_inner(one)));
    }
}

impl Drop for RecordingTap {
    fn drop(&mut self) {
        let handed = core::iter::from_fn(|| self.hands.pop().ok());
        let all = self.recorder.take().into_iter().chain(self.next.take().flatten());
        all.chain(handed.flatten()).for_each(|one| drop(ManuallyDrop::into_inner(one)));
    }
}

struct RecordingTap {
    direction: Direction,
    channels: Channels,
    rate: Rate,
    hands: Consumer<NextRecorder>,
    gives: Producer<HeldRecorder>,
    next: Option<NextRecorder>,
    recorder: NextRecorder,
}

impl RecordingTap {
    fn record(&mut self, side: &Side<'_>) {
        if side.samples.is_empty() {
            return;
        }
        let end = self.channels.frames_in(side.samples.len()).count();
        let mut at = -side.skipped.count().max(0);
        // Without room, the previous recorder would be freed here.
        while !self.gives.is_full() {
            if self.next.is_none() {
                self.next = self.hands.pop().ok();
            }
            let Some(next) = &self.next else { break };
            let begins = next.as_ref().and_then(|next| next.begins.as_ref());
            let begins =
                begins.map_or(at, |time| self.rate.frames_nearest(time.after(side.meets)).count());
            if begins >= end {
                break;
            }
            at = self.record_until(begins, at, side.samples);
            let before = core::mem::replace(&mut self.recorder, self.next.take().flatten());
            if let Some(before) = before {
                let _ = self.gives.push(before);
            }
            self.be_silent(at - begins);
        }
        self.record_until(end, at, side.samples);
    }

    fn record_until(&mut self, end: i64, at: i64, samples: &[f32]) -> i64 {
        if end <= at {
            return at;
        }
        self.be_silent(end.min(0) - at);
        let place = |frame: i64| self.channels.samples_in(Frames::new(frame.max(0)));
        let samples = samples.get(place(at)..place(end));
        if let (Some(begun), Some(samples @ [_, ..])) = (&mut self.recorder, samples) {
            begun.recorder.write(samples);
        }
        end
    }

    fn be_silent(&mut self, frames: i64) {
        if let (Some(begun), 1..) = (&mut self.recorder, frames) {
            begun.recorder.silence(self.channels.samples_in(Frames::new(frames)) as u64);
        }
    }
}

impl DeviceTap for RecordingTap {
    #[inline(never)]
    fn after(&mut self, cycle: &mut Cycle<'_>) {
        match self.direction {
            Direction::Capture => self.record(&cycle.capture),
            Direction::Playback => self.record(&cycle.playback),
        }
    }
}
