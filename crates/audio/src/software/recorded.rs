//! A device whose sound is kept in WAV files, too, while it runs: from when on, and where, is said meanwhile.
//!
//! Whoever writes is made by an ordinary thread, with its ring and its file, and handed to the device's thread, which
//! only pushes into that ring. One that has had its time comes back by another ring: no file is opened, and no memory
//! given or taken, where the device runs.

#[cfg(test)]
mod tests;

use core::mem::ManuallyDrop;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rtrb::{Consumer, Producer, PushError, RingBuffer};
use tautline_dsp::format::SampleFormat;
use tautline_proto::device::{Cycle, Device, DeviceError, Direction, Settings, Side};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};

use super::recorder::{Recorder, StoredSamples};
use super::wav::MOST_BYTES;
use crate::toolbox::notes::Notes;
use crate::toolbox::tapped::{DeviceTap, TappedDevice};

/// Recorders that may be under way to the device's thread: it takes all of them once per period.
const UNDER_WAY: usize = 4;
/// What a part of a recording may hold: the next begins some seconds later at the most, and what comes until then has room
/// above, be it of 128 channels at 192 kHz.
pub const MOST_OF_A_PART: u64 = MOST_BYTES / 16 * 15;

/// One that nothing on the device's thread can drop, be it by a way that is never gone.
type HeldRecorder = ManuallyDrop<Box<BegunRecorder>>;
/// What the device's thread is handed; `None` where nothing more is recorded.
type NextRecorder = Option<HeldRecorder>;

/// A recorder, and when its file begins.
struct BegunRecorder {
    recorder: Recorder,
    /// With others, at an instant: kept until an ordinary thread lets go of it. Else with the next period.
    begins: Option<RecordedTime>,
}

/// From the common beginning of several recordings to the first period of the one that begins first: more than any device
/// that begins later may tell of the time before that.
const BEFORE: Span = Span::from_millis(100);

/// When the files of several recordings begin: so they lie in step, by when each frame met its converter. Clones are the
/// same one. By default it is shortly before the first period that any of their devices has.
#[derive(Debug, Clone)]
pub struct RecordedTime(Arc<AtomicI64>);

impl Default for RecordedTime {
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(LocalTime::NEVER.as_nanos())))
    }
}

impl RecordedTime {
    /// This instant. It is to be later than all that the recordings hold by then.
    pub fn at(instant: LocalTime) -> Self {
        Self(Arc::new(AtomicI64::new(instant.as_nanos())))
    }

    /// From a frame that met the converter then, which is the first of all if none was, to the beginning. Real-time.
    fn after(&self, meets: LocalTime) -> Span {
        let unknown = LocalTime::NEVER.as_nanos();
        let begins = (meets + -BEFORE).as_nanos();
        let known = self.0.compare_exchange(unknown, begins, Ordering::Relaxed, Ordering::Relaxed);
        LocalTime::from_nanos(known.err().unwrap_or(begins)) - meets
    }
}

/// Says what of a device is recorded, from an ordinary thread. Dropped, it leaves what is recorded to the device, which
/// completes it as it ends.
pub struct Recording {
    settings: Settings,
    format: SampleFormat,
    handed: Producer<NextRecorder>,
    back: Consumer<HeldRecorder>,
    /// What found no way to the device's thread yet.
    waits: Option<NextRecorder>,
    /// Of the one that was begun last.
    stored: Option<StoredSamples>,
    /// Those that had their time and write on.
    ending: Vec<Recorder>,
    notes: Notes,
}

/// The device with what records it, whose every period goes by it. Frames that the device dropped, or played as
/// silence of its own, are silence in the file, so that its time is that of the device.
pub fn recorded(
    device: Box<dyn Device>,
    direction: Direction,
    format: SampleFormat,
) -> (Box<dyn Device>, Recording) {
    let settings = device.settings();
    let (handed, hands) = RingBuffer::new(UNDER_WAY);
    // Two more: the one that is in use, and the one that is to be next.
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
    /// Records from the next period on into the file at `path`, where nothing is yet; what was recorded so far is
    /// completed, and not a frame is between. Opens the file.
    pub fn begin(&mut self, path: &Path) -> Result<(), DeviceError> {
        self.begin_with(path, None)
    }

    /// The same from the common beginning of files on: until then what was recorded so far goes on, to the frame. Where
    /// the device has its first frame later, silence is before it.
    pub fn begin_in_step(&mut self, path: &Path, time: &RecordedTime) -> Result<(), DeviceError> {
        self.begin_with(path, Some(time.clone()))
    }

    fn begin_with(&mut self, path: &Path, begins: Option<RecordedTime>) -> Result<(), DeviceError> {
        let recorder = Recorder::create_new(path, &self.settings, self.format, &self.notes)?;
        self.stored = Some(recorder.stored());
        self.hand(Some(ManuallyDrop::new(Box::new(BegunRecorder { recorder, begins }))));
        Ok(())
    }

    /// Records nothing from the next period on.
    pub fn end(&mut self) {
        self.stored = None;
        self.hand(None);
    }

    /// Whether the file holds so many bytes of sound, such as [`MOST_OF_A_PART`]: it is time to begin the next.
    pub fn holds(&self, most: u64) -> bool {
        let bytes = self.format.bytes() as u64;
        self.stored.as_ref().is_some_and(|stored| stored.count() * bytes >= most)
    }

    fn hand(&mut self, handed: NextRecorder) {
        // One that waits was not begun yet: its file stays empty.
        if let Some(Some(unbegun)) = self.waits.replace(handed) {
            drop(ManuallyDrop::into_inner(unbegun));
        }
        self.turn();
    }

    /// Hands over what is to be, and lets go of what is complete. Waits for nothing; to be called now and then.
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

    /// What there is to tell: frames that the disk took too slowly for, and why nothing more is recorded.
    pub const fn notes(&self) -> &Notes {
        &self.notes
    }
}

impl Drop for Recording {
    /// What came back and what was never taken is completed here.
    fn drop(&mut self) {
        let never = self.waits.take().flatten();
        let back = core::iter::from_fn(|| self.back.pop().ok());
        never.into_iter().chain(back).for_each(|one| drop(ManuallyDrop::into_inner(one)));
    }
}

impl Drop for RecordingTap {
    /// The device has ended, and this is dropped by whoever ran it: what is recorded is completed.
    fn drop(&mut self) {
        let handed = core::iter::from_fn(|| self.hands.pop().ok());
        let all = self.recorder.take().into_iter().chain(self.next.take().flatten());
        all.chain(handed.flatten()).for_each(|one| drop(ManuallyDrop::into_inner(one)));
    }
}

/// The end of the device's thread.
struct RecordingTap {
    direction: Direction,
    channels: Channels,
    rate: Rate,
    hands: Consumer<NextRecorder>,
    gives: Producer<HeldRecorder>,
    /// What was handed over and begins later.
    next: Option<NextRecorder>,
    recorder: NextRecorder,
}

impl RecordingTap {
    /// Records a period, each frame where it belongs. Frames are numbered from the first of the period; those that were
    /// skipped before it have numbers below 0.
    fn record(&mut self, side: &Side<'_>) {
        if side.samples.is_empty() {
            return;
        }
        let end = self.channels.frames_in(side.samples.len()).count();
        let mut at = -side.skipped.count().max(0);
        // Without room for the one before it would have to be freed here.
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
                // There is room.
                let _ = self.gives.push(before);
            }
            self.be_silent(at - begins);
        }
        self.record_until(end, at, side.samples);
    }

    /// Records the frames before `end` that were not yet, of which `at` is the first; which is the next then.
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
    /// What is sent is what the process made of what was captured: a volume, or silence.
    #[inline(never)]
    fn after(&mut self, cycle: &mut Cycle<'_>) {
        match self.direction {
            Direction::Capture => self.record(&cycle.capture),
            Direction::Playback => self.record(&cycle.playback),
        }
    }
}
