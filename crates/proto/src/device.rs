//! The contract between a sound device and what it calls.
//!
//! The device is the clock. Once per period it calls [`Process::process`] with the samples of that
//! period and the instants at which they met (or will meet) the converter. What is called is
//! passive: it never waits, allocates, locks or logs. That suits a polled card (ALSA: the device's
//! own thread loops) and a callback device (JACK, PipeWire: the library's thread calls) alike,
//! because [`Device::run`] owns the process while it runs and hands it back when it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::clock::ClockId;
use crate::time::{Frames, LocalTime, Span};
use crate::units::{Channels, Rate};

tautline_dsp::named_enum! {
    /// Which way sound goes through a device.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Direction {
        /// From the world into the program.
        Capture = "capture",
        /// From the program into the world.
        Playback = "playback",
    }
}

/// The directions for which a device is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Directions {
    /// One of them.
    One(Direction),
    /// Both (duplex): one clock, one process, one wake-up for the two sides of a [`Cycle`].
    Both,
}

impl Directions {
    /// Whether this is one of them.
    pub fn has(self, direction: Direction) -> bool {
        self == Self::Both || self == Self::One(direction)
    }

    /// Each of them.
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

/// How a device runs. What a device was asked for and what it gave may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Nominal frames per second.
    pub rate: Rate,
    /// Samples per frame.
    pub channels: Channels,
    /// Frames per wake-up.
    pub period: Frames,
    /// Periods in the device's own buffer, at least two for a card; one where a block is handed on, to
    /// a program, within the period that it is filled in.
    pub periods: u32,
}

impl Settings {
    /// The time from a playback wake-up to the instant its block meets the DAC: all periods but
    /// the one that just became free.
    pub fn playback_lead(&self) -> Span {
        let frames = self.period.count() * i64::from(self.periods.saturating_sub(1));
        self.rate.span_of(Frames::new(frames))
    }
}

/// One direction of one period.
#[derive(Debug)]
pub struct Side<'a> {
    /// Interleaved samples, nominally in −1…1: filled by the device when capturing, to be filled
    /// when playing. Empty if the device does not go this way.
    pub samples: &'a mut [f32],
    /// When the first frame met the ADC or will meet the DAC, on this host's clock.
    pub meets: LocalTime,
    /// How far `meets` may be from the truth, either way.
    pub uncertainty: Span,
    /// Frames that the device dropped (capture) or played as silence of its own (playback) between
    /// the previous period and this one.
    pub skipped: Frames,
}

impl Side<'_> {
    /// The side of a device that does not go this way.
    pub fn absent() -> Self {
        Self {
            samples: &mut [],
            meets: LocalTime::NEVER,
            uncertainty: Span::ZERO,
            skipped: Frames::ZERO,
        }
    }
}

/// One wake-up of a device. A device that was opened for both directions has a block on either side,
/// of one length, each with its own instant: what was captured has met the ADC when what is played
/// for it is still to meet the DAC.
#[derive(Debug)]
pub struct Cycle<'a> {
    /// When the device's thread woke.
    pub now: LocalTime,
    /// What was captured.
    pub capture: Side<'a>,
    /// What is to be played.
    pub playback: Side<'a>,
    /// Times the device starved or flooded since the previous wake-up.
    pub xruns: u32,
    /// What sets the device's pace, where that has a name: devices of one name are always as many
    /// frames apart. A device that goes by another clock says so with its next cycle.
    pub clock: Option<ClockId>,
}

impl<'a> Cycle<'a> {
    /// A wake-up of a device that goes one way.
    pub fn one_way(direction: Direction, now: LocalTime, side: Side<'a>, xruns: u32) -> Self {
        let (capture, playback) = match direction {
            Direction::Capture => (side, Side::absent()),
            Direction::Playback => (Side::absent(), side),
        };
        Self { now, capture, playback, xruns, clock: None }
    }

    /// Of a device that goes by this clock.
    pub fn by(self, clock: Option<ClockId>) -> Self {
        Self { clock, ..self }
    }
}

/// Whether a process wants to be called again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Call again at the next period.
    Continue,
    /// Nothing more will be played or taken; the device may stop.
    Finished,
}

/// What a device calls once per period, on its own thread.
pub trait Process: Send {
    /// Takes what was captured and fills what is to be played. Real-time: bounded work, no
    /// allocation, lock, log or blocking call.
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow;

    /// Nothing more will be captured or played: called by whoever ran the device once
    /// [`Device::run`] gave the process back, so that what is half packed can still go out.
    fn finish(&mut self) {}
}

/// Asks a running device to stop at its next period. Clones ask the same device.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    whole: Option<Arc<Self>>,
}

impl Stop {
    /// One that is requested with this one, and by itself without it: whoever ends a part can still
    /// tell whether the whole was asked to stop.
    pub fn part(&self) -> Self {
        Self { asked: Arc::default(), whole: Some(Arc::new(self.clone())) }
    }

    /// Asks.
    pub fn request(&self) {
        self.asked.store(true, Ordering::Release);
    }

    /// The flag itself, for a signal handler, which may do no more than set it.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asked)
    }

    /// Whether somebody asked. Wait-free.
    pub fn is_requested(&self) -> bool {
        self.asked.load(Ordering::Acquire)
            || self.whole.as_ref().is_some_and(|whole| whole.is_requested())
    }
}

/// Why a device stopped calling.
#[derive(Debug)]
pub enum Ended {
    /// It was asked to.
    Stopped,
    /// The process, or the device's source, had nothing more.
    Finished,
    /// The device went away while running.
    Gone(DeviceError),
}

/// A device that could not be opened, or that went: one sentence and the mend.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{tried}: {answer}; {mend}")]
pub struct DeviceError {
    /// What was tried, with the device's name.
    pub tried: String,
    /// What the system or the device answered.
    pub answer: String,
    /// What to do next.
    pub mend: String,
}

tautline_dsp::named_enum! {
    /// Whose word it is when a frame meets a converter.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum TimestampSource {
        /// That of a driver, or of a server of sound: nobody here hears whether it is so.
        #[default]
        Device = "device",
        /// Nobody's: there is no converter, and a frame counts when it was due.
        Due = "due",
    }
}

/// An opened sound device.
pub trait Device: Send {
    /// How it really runs.
    fn settings(&self) -> Settings;

    /// What will set its pace, where that is known before it runs; each [`Cycle`] says it anew.
    fn clock(&self) -> Option<ClockId> {
        None
    }

    /// Whose word [`Side::meets`] is.
    fn timestamp_source(&self) -> TimestampSource {
        TimestampSource::Device
    }

    /// Runs until asked to stop, finished or gone, calling `process` once per period; then gives
    /// the process back. A polled device calls it on this very thread, whose priority the caller
    /// has set; a callback device may call it on its own.
    fn run(&mut self, process: Box<dyn Process>, stop: &Stop) -> (Box<dyn Process>, Ended);
}

/// Hears what a card that can listen to itself played: the independent end of a measurement.
///
/// Only devices that know the sound at their converter, sample by sample with the time of their
/// own clock, can have one: virtual cards now, loopback cables later.
pub trait Listener: Send {
    /// `samples` (interleaved) met the DAC, the first frame at `meets` by the card's own clock; but
    /// none before `taken`, where a card that waits for a late program took the block after it was
    /// due. Called on the device's thread: real-time.
    fn heard(&mut self, meets: LocalTime, taken: LocalTime, samples: &[f32]);
}
