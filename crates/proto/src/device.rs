//! Contract between a sound device and its process.
//!
//! The device is the clock. Once per period it calls [`Process::process`] with the samples of the
//! period and the times at which they met or will meet the converter. The process never waits,
//! allocates, locks or logs. [`Device::run`] owns the process while it runs, then returns it. This
//! suits polled cards (ALSA: the device has its own thread) and callback devices (JACK, PipeWire:
//! the library has the thread).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::clock::ClockId;
use crate::time::{Frames, LocalTime, Span};
use crate::units::{Channels, Rate};

tautline_dsp::named_enum! {
    /// Direction of sound through a device.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Direction {
        /// From the device into the program.
        Capture = "capture",
        /// From the program to the device.
        Playback = "playback",
    }
}

/// Directions for which a device is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Directions {
    /// One direction.
    One(Direction),
    /// Both directions (duplex), with one clock, one process, and one wake-up per [`Cycle`].
    Both,
}

impl Directions {
    /// Returns whether `direction` is included.
    pub fn has(self, direction: Direction) -> bool {
        self == Self::Both || self == Self::One(direction)
    }

    /// All included directions.
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

/// Settings of a device; the requested and the actual ones may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Nominal frames per second.
    pub rate: Rate,
    /// Samples per frame.
    pub channels: Channels,
    /// Frames per wake-up.
    pub period: Frames,
    /// Periods in the device buffer: at least two for a card, one if a program receives each block
    /// within its period.
    pub periods: u32,
}

impl Settings {
    /// Time from a playback wake-up until its block meets the DAC: all periods except the one just
    /// freed.
    pub fn playback_lead(&self) -> Span {
        let frames = self.period.count() * i64::from(self.periods.saturating_sub(1));
        self.rate.span_of(Frames::new(frames))
    }
}

/// One direction of one period.
#[derive(Debug)]
pub struct Side<'a> {
    /// Interleaved samples, nominally −1 to 1. The device fills them for capture, the process for
    /// playback. Empty if the device does not have this direction.
    pub samples: &'a mut [f32],
    /// Time at which the first frame met the ADC or will meet the DAC, on this host's clock.
    pub meets: LocalTime,
    /// Maximum error of `meets`, either way.
    pub uncertainty: Span,
    /// Frames that the device dropped (capture) or played as its own silence (playback) between the
    /// previous period and this one.
    pub skipped: Frames,
}

impl Side<'_> {
    /// Returns the side of a direction that the device does not have.
    pub fn absent() -> Self {
        Self {
            samples: &mut [],
            meets: LocalTime::NEVER,
            uncertainty: Span::ZERO,
            skipped: Frames::ZERO,
        }
    }
}

/// One wake-up of a device. A duplex device has blocks of equal length on both sides, each with its
/// own time: the captured block has already met the ADC, the playback block will meet the DAC.
#[derive(Debug)]
pub struct Cycle<'a> {
    /// Wake-up time of the device thread.
    pub now: LocalTime,
    /// Captured block.
    pub capture: Side<'a>,
    /// Block to play.
    pub playback: Side<'a>,
    /// Underruns and overruns since the previous wake-up.
    pub xruns: u32,
    /// Name of the device's clock, if known. Devices whose clocks have the same name stay a
    /// constant number of frames apart. Changes take effect with the next cycle.
    pub clock: Option<ClockId>,
}

impl<'a> Cycle<'a> {
    /// Creates a wake-up of a one-way device.
    pub fn one_way(direction: Direction, now: LocalTime, side: Side<'a>, xruns: u32) -> Self {
        let (capture, playback) = match direction {
            Direction::Capture => (side, Side::absent()),
            Direction::Playback => (Side::absent(), side),
        };
        Self { now, capture, playback, xruns, clock: None }
    }

    /// Sets the name of the device's clock.
    pub fn by(self, clock: Option<ClockId>) -> Self {
        Self { clock, ..self }
    }
}

/// Whether a process expects further calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Call again at the next period.
    Continue,
    /// Nothing is left to play or capture. The device may stop.
    Finished,
}

/// Process that a device calls once per period, on its own thread.
pub trait Process: Send {
    /// Takes the captured samples and fills the samples to play. Runs in real time: bounded work,
    /// no allocation, no lock, no log, no blocking call.
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow;

    /// Ends the process. The caller of [`Device::run`] calls it afterwards, so that partly filled
    /// packets can still be sent.
    fn finish(&mut self) {}
}

/// Request to a running device to stop at its next period. Clones share the request.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    whole: Option<Arc<Self>>,
}

impl Stop {
    /// Creates a request for a part of the whole. It is also set when this one is set, but not the
    /// other way round.
    pub fn part(&self) -> Self {
        Self { asked: Arc::default(), whole: Some(Arc::new(self.clone())) }
    }

    /// Requests the stop.
    pub fn request(&self) {
        self.asked.store(true, Ordering::Release);
    }

    /// Returns the flag, for a signal handler.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asked)
    }

    /// Whether a stop is requested. Wait-free.
    pub fn is_requested(&self) -> bool {
        self.asked.load(Ordering::Acquire)
            || self.whole.as_ref().is_some_and(|whole| whole.is_requested())
    }
}

/// Reason why a device stopped.
#[derive(Debug)]
pub enum Ended {
    /// A stop was requested.
    Stopped,
    /// The process or the device's source has ended.
    Finished,
    /// The device disappeared while running.
    Gone(DeviceError),
}

/// Error of opening or running a device, with the fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{tried}: {answer}\nhint: {hint}")]
pub struct DeviceError {
    /// Attempted operation, with the device's name.
    pub tried: String,
    /// Answer of the system or device.
    pub answer: String,
    /// How to fix the error.
    pub hint: String,
}

tautline_dsp::named_enum! {
    /// Source of the times at which frames meet a converter.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum TimestampSource {
        /// A driver or sound server reports them. They are not verified.
        #[default]
        Device = "device",
        /// There is no converter: frames are assumed to meet it at their due time.
        Due = "due",
    }
}

/// An opened sound device.
pub trait Device: Send {
    /// Actual settings.
    fn settings(&self) -> Settings;

    /// Name of the device's clock, if known before it runs. Each [`Cycle`] reports it again.
    fn clock(&self) -> Option<ClockId> {
        None
    }

    /// Source of [`Side::meets`].
    fn timestamp_source(&self) -> TimestampSource {
        TimestampSource::Device
    }

    /// Calls `process` once per period until it is stopped or finished or the device is gone, then
    /// returns it. A polled device calls it on this thread, and the caller sets the priority. A
    /// callback device may use its own thread.
    fn run(&mut self, process: Box<dyn Process>, stop: &Stop) -> (Box<dyn Process>, Ended);
}

/// Receiver of a card's own output: the independent end of a measurement.
///
/// Only devices that know each sample at their converter can have a listener: virtual cards and
/// loopback cables. The times are on the card's clock.
pub trait Listener: Send {
    /// Called with interleaved `samples` that met the DAC. The first frame met it at `meets` on the
    /// card's clock. No frame was played before `taken`, if the card accepted a late block. Called
    /// on the device thread, in real time.
    fn heard(&mut self, meets: LocalTime, taken: LocalTime, samples: &[f32]);
}
