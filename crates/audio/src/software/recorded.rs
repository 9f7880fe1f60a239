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
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::units::Rate;

use super::recorder::{Recorder, StoredSamples};
use super::wav::MOST_BYTES;
use crate::toolbox::notes::Notes;
use crate::toolbox::tapped::{DeviceTap, TappedDevice};

/// Recorders that may be under way to the device's thread: it takes all of them once per period.
const UNDER_WAY: usize = 4;
/// What a part of a recording may hold: the device's thread goes to the next within a period, and what is in the ring
/// until then has room above.
const MOST_OF_A_PART: u64 = MOST_BYTES / 16 * 15;

/// One that nothing on the device's thread can drop, be it by a way that is never gone.
type HeldRecorder = ManuallyDrop<Box<BegunRecorder>>;
/// What the device's thread is handed; `None` where nothing more is recorded.
type NextRecorder = Option<HeldRecorder>;

/// A recorder, and what its file begins with.
struct BegunRecorder {
    recorder: Recorder,
    /// With which others it is in step: kept until an ordinary thread lets go of it.
    steps: Option<RecordedTime>,
    /// Whether its first period came.
    stands: bool,
}

/// From the common beginning of several recordings to the first period of the one that begins first: more than any device
/// that begins later may tell of the time before that.
const BEFORE: Span = Span::from_millis(100);

/// When the files of several recordings begin, whichever of their devices is first: so they lie in step. Clones are the
/// same one.
#[derive(Debug, Clone)]
pub struct RecordedTime(Arc<AtomicI64>);

impl Default for RecordedTime {
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(LocalTime::NEVER.as_nanos())))
    }
}

impl RecordedTime {
    /// From its beginning to a frame that met the converter then, which is the first of all if none was. Real-time.
    fn until(&self, meets: LocalTime) -> Span {
        let unknown = LocalTime::NEVER.as_nanos();
        let begins = (meets + -BEFORE).as_nanos();
        let known = self.0.compare_exchange(unknown, begins, Ordering::Relaxed, Ordering::Relaxed);
        (meets - LocalTime::from_nanos(known.err().unwrap_or(begins))).max(Span::ZERO)
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
    // One more: the one that is in use.
    let (gives, back) = RingBuffer::new(UNDER_WAY + 1);
    let channels = settings.channels.count() as u64;
    let rate = settings.rate;
    let tap = RecordingTap { direction, channels, rate, hands, gives, recorder: None };
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

    /// The same, after as much silence as its first frame is later than the common beginning of files.
    pub fn begin_in_step(&mut self, path: &Path, time: &RecordedTime) -> Result<(), DeviceError> {
        self.begin_with(path, Some(time.clone()))
    }

    fn begin_with(&mut self, path: &Path, steps: Option<RecordedTime>) -> Result<(), DeviceError> {
        let recorder = Recorder::create_new(path, &self.settings, self.format, &self.notes)?;
        self.stored = Some(recorder.stored());
        self.hand(Some(ManuallyDrop::new(Box::new(BegunRecorder {
            recorder,
            steps,
            stands: false,
        }))));
        Ok(())
    }

    /// Records nothing from the next period on.
    pub fn end(&mut self) {
        self.stored = None;
        self.hand(None);
    }

    /// Whether the file holds nearly as much as a WAV can: it is time to begin the next.
    pub fn is_nearly_full(&self) -> bool {
        let bytes = self.format.bytes() as u64;
        self.stored.as_ref().is_some_and(|stored| stored.count() * bytes >= MOST_OF_A_PART)
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
        let all = self.recorder.take().into_iter().chain(handed.flatten());
        all.for_each(|one| drop(ManuallyDrop::into_inner(one)));
    }
}

/// The end of the device's thread.
struct RecordingTap {
    direction: Direction,
    /// Samples per frame.
    channels: u64,
    rate: Rate,
    hands: Consumer<NextRecorder>,
    gives: Producer<HeldRecorder>,
    recorder: NextRecorder,
}

impl RecordingTap {
    /// Takes what was handed over since the last period.
    fn obey(&mut self) {
        // Without room for the one before it would have to be freed here.
        while !self.gives.is_full()
            && let Ok(next) = self.hands.pop()
        {
            if let Some(before) = core::mem::replace(&mut self.recorder, next) {
                // There is room.
                let _ = self.gives.push(before);
            }
        }
    }

    fn record(&mut self, side: &Side<'_>) {
        let Some(begun) = &mut self.recorder else { return };
        let before = match &begun.steps {
            Some(time) if !begun.stands => self.rate.frames_within(time.until(side.meets)),
            _ => side.skipped,
        };
        begun.stands = true;
        let frames = u64::try_from(before.count()).unwrap_or(0);
        if frames > 0 {
            begun.recorder.silence(frames * self.channels);
        }
        begun.recorder.write(side.samples);
    }
}

impl DeviceTap for RecordingTap {
    fn before(&mut self, _cycle: &mut Cycle<'_>) {
        self.obey();
    }

    /// What is sent is what the process made of what was captured: a volume, or silence.
    #[inline(never)]
    fn after(&mut self, cycle: &mut Cycle<'_>) {
        match self.direction {
            Direction::Capture => self.record(&cycle.capture),
            Direction::Playback => self.record(&cycle.playback),
        }
    }
}
