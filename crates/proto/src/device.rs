//! Contract between a sound device and its process.
//!
//! The device is the clock: it calls [`Process::process`] once per period. [`Device::run`] owns the
//! process while it runs. This suits polled cards (ALSA) and callback devices (JACK, PipeWire).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use crate::clock::ClockId;
use crate::time::{Frames, LocalTime, Span};
use crate::units::{Channels, Rate};

tautline_dsp::named_enum! {
    /// Direction of sound.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Direction {
        /// From the device to the program.
        Capture = "capture",
        /// From the program to the device.
        Playback = "playback",
    }
}

/// Directions of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Directions {
    /// One direction.
    One(Direction),
    /// Both, with one clock, one process, and one wake-up per [`Cycle`].
    Both,
}

impl Directions {
    /// Whether `direction` is included.
    pub fn has(self, direction: Direction) -> bool {
        self == Self::Both || self == Self::One(direction)
    }

    /// Included directions.
    pub fn each(self) -> impl Iterator<Item = Direction> {
        let both = [Direction::Capture, Direction::Playback];
        both.into_iter().filter(move |direction| self.has(*direction))
    }
}

impl From<Direction> for Directions {
    fn from(direction: Direction) -> Self {
        Self::One(direction)
    }
}

/// Requested or actual device settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Nominal frames per second.
    pub rate: Rate,
    /// Samples per frame.
    pub channels: Channels,
    /// Frames per wake-up.
    pub period: Frames,
    /// Periods in the device buffer: at least two for a card, one if a block plays within its
    /// period.
    pub periods: u32,
}

impl Settings {
    /// Time from a playback wake-up until its block meets the DAC.
    pub fn playback_lead(&self) -> Span {
        let frames = self.period.count() * i64::from(self.periods.saturating_sub(1));
        self.rate.span_of(Frames::new(frames))
    }
}

/// One direction of one period.
#[derive(Debug)]
pub struct Side<'a> {
    /// Interleaved samples, nominally −1 to 1. Empty for an absent direction.
    pub samples: &'a mut [f32],
    /// Local time at which the first frame meets the converter.
    pub meets: LocalTime,
    /// Maximum error of `meets`, either way.
    pub uncertainty: Span,
    /// Frames dropped (capture) or replaced by silence (playback) before this block.
    pub skipped: Frames,
}

impl Side<'_> {
    /// Side of an absent direction.
    pub fn absent() -> Self {
        Self {
            samples: &mut [],
            meets: LocalTime::NEVER,
            uncertainty: Span::ZERO,
            skipped: Frames::ZERO,
        }
    }
}

/// One wake-up. The captured block has met the ADC; the playback block, of equal length, will meet
/// the DAC.
#[derive(Debug)]
pub struct Cycle<'a> {
    /// Wake-up time.
    pub now: LocalTime,
    /// Captured block.
    pub capture: Side<'a>,
    /// Block to play.
    pub playback: Side<'a>,
    /// Xruns since the previous wake-up.
    pub xruns: u32,
    /// Clock of the device. Devices with one clock stay a constant number of frames apart.
    pub clock: Option<ClockId>,
}

impl<'a> Cycle<'a> {
    /// Wake-up of a one-way device.
    pub fn one_way(direction: Direction, now: LocalTime, side: Side<'a>, xruns: u32) -> Self {
        let (capture, playback) = match direction {
            Direction::Capture => (side, Side::absent()),
            Direction::Playback => (Side::absent(), side),
        };
        Self { now, capture, playback, xruns, clock: None }
    }

    /// Sets the device's clock.
    pub fn by(self, clock: Option<ClockId>) -> Self {
        Self { clock, ..self }
    }
}

/// Whether a process expects further calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Call again.
    Continue,
    /// The device may stop.
    Finished,
}

/// Process called once per period, on the device's thread.
pub trait Process: Send {
    /// Takes and fills samples. Real time: bounded work, no allocation, no lock, no log, no
    /// blocking call.
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow;

    /// Ends the process after [`Device::run`], so that partly filled packets can be sent.
    fn finish(&mut self) {}
}

/// Request to stop at the next period. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    requested: Arc<AtomicBool>,
    whole: Option<Arc<Self>>,
}

impl Stop {
    /// Creates a request for a part. A request of the whole also stops the part.
    pub fn part(&self) -> Self {
        Self { requested: Arc::default(), whole: Some(Arc::new(self.clone())) }
    }

    /// Requests the stop.
    pub fn request(&self) {
        self.requested.store(true, Ordering::Release);
    }

    /// Flag for a signal handler.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.requested)
    }

    /// Whether a stop is requested. Wait-free.
    pub fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Acquire)
            || self.whole.as_ref().is_some_and(|whole| whole.is_requested())
    }
}

/// Total time that silence replaced the sound of a lost device. Clones share the time.
#[derive(Debug, Clone, Default)]
pub struct ReplacedTime(Arc<AtomicI64>);

impl ReplacedTime {
    /// Adds silence. Wait-free.
    pub fn add(&self, silence: Span) {
        self.0.fetch_add(silence.as_nanos(), Ordering::Relaxed);
    }

    /// Total so far.
    pub fn get(&self) -> Span {
        Span::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// Faults of a sender's device, in total. Receivers get them in reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CaptureFaults {
    /// Overruns and underruns.
    pub xruns: u64,
    /// Time that silence replaced the sound of a lost device ([`ReplacedTime`]).
    pub replaced: Span,
}

/// Reason why a device stopped.
#[derive(Debug)]
pub enum Ended {
    /// On request.
    Stopped,
    /// The process or the source ended.
    Finished,
    /// The device disappeared.
    Gone(DeviceError),
}

/// Device error, with the fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{tried}: {answer}\nhint: {hint}")]
pub struct DeviceError {
    /// Attempted operation and device.
    pub tried: String,
    /// Answer of the system.
    pub answer: String,
    /// Fix.
    pub hint: String,
}

tautline_dsp::named_enum! {
    /// Source of converter times.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum TimestampSource {
        /// Driver or sound server; not verified.
        #[default]
        Device = "device",
        /// No converter: the due time.
        Due = "due",
    }
}

/// An opened sound device.
pub trait Device: Send {
    /// Actual settings.
    fn settings(&self) -> Settings;

    /// Clock, if known before it runs.
    fn clock(&self) -> Option<ClockId> {
        None
    }

    /// Source of [`Side::meets`].
    fn timestamp_source(&self) -> TimestampSource {
        TimestampSource::Device
    }

    /// Time that the device was lost, if a timer replaces a lost device.
    fn replaced(&self) -> ReplacedTime {
        ReplacedTime::default()
    }

    /// Calls `process` once per period until the end, then returns it. A polled device uses this
    /// thread, whose priority the caller sets.
    fn run(&mut self, process: Box<dyn Process>, stop: &Stop) -> (Box<dyn Process>, Ended);
}

/// Receiver of a virtual or loopback card's output, for measurements.
pub trait Listener: Send {
    /// Called in real time. The first frame met the DAC at `meets` on the card's clock. No frame of
    /// a late block was played before `taken`.
    fn received(&mut self, meets: LocalTime, taken: LocalTime, samples: &[f32]);
}
