//! Shares two devices among *parts*, each a [`Device`].
//!
//! Playback is the sum of all parts; each gets the captured sound. *Bridged* parts capture each
//! other too, never themselves (mix-minus), with frames that met the DAC at that instant.
//!
//! Device-priority threads run the real devices, each with one of the [`SharedProcesses`]. A part's
//! thread only lends its process.

pub(crate) mod bus;
mod hearing;
mod playing;
pub(crate) mod steered;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bus::bus;
use hearing::SharedCapture;
use playing::SharedPlayback;
use tautline_proto::clock::ClockId;
use tautline_proto::device::{
    Device, Direction, Ended, Process, ReplacedTime, Settings, Stop, TimestampSource,
};

use crate::toolbox::Sides;
use crate::toolbox::part::PartSeat;

/// Maximum parts: a 64-bit set holds the parts that play in a period.
pub const MAX_PARTS: usize = 64;

pub struct SharedProcesses {
    pub capture: Box<dyn Process>,
    pub playback: Box<dyn Process>,
}

#[derive(Clone)]
pub struct SharedParts(Arc<SharedState>);

struct SharedState {
    settings: Sides<Settings>,
    clocks: Sides<Option<tautline_proto::clock::ClockId>>,
    timestamp_sources: Sides<TimestampSource>,
    replaced: Sides<ReplacedTime>,
    seats: Box<[Sides<PartSeat>]>,
    free: Mutex<Vec<usize>>,
    over: Sides<AtomicBool>,
    muted: AtomicBool,
    bridged: bool,
    realigned: AtomicU64,
    missed: AtomicU64,
}

pub struct SharedPart {
    pub capture: Box<dyn Device>,
    pub playback: Box<dyn Device>,
}

/// Splits two devices into up to [`MAX_PARTS`] parts; `bridged` needs equal rates and channels.
/// Allocates everything.
pub fn shared(
    capture: &dyn Device,
    playback: &dyn Device,
    parts: usize,
    bridged: bool,
) -> (SharedProcesses, SharedParts) {
    let parts = parts.clamp(1, MAX_PARTS);
    let settings = Sides { capture: capture.settings(), playback: playback.settings() };
    let alike = |settings: &Settings| (settings.rate, settings.channels);
    let bridged = bridged && parts > 1 && alike(&settings.capture) == alike(&settings.playback);
    let state = Arc::new(SharedState {
        settings,
        clocks: Sides { capture: capture.clock(), playback: playback.clock() },
        timestamp_sources: Sides {
            capture: capture.timestamp_source(),
            playback: playback.timestamp_source(),
        },
        replaced: Sides { capture: capture.replaced(), playback: playback.replaced() },
        seats: (0..parts).map(|_| Sides::default()).collect(),
        free: Mutex::new((0..parts).rev().collect()),
        over: Sides::default(),
        muted: AtomicBool::new(false),
        bridged,
        realigned: AtomicU64::new(0),
        missed: AtomicU64::new(0),
    });
    let (writer, reader) = bridged.then(|| bus(&settings, parts)).unzip();
    let processes = SharedProcesses {
        capture: Box::new(SharedCapture::new(Arc::clone(&state), reader)),
        playback: Box::new(SharedPlayback::new(Arc::clone(&state), writer)),
    };
    (processes, SharedParts(state))
}

impl SharedParts {
    pub fn take(&self) -> Option<SharedPart> {
        let index = self.0.free.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        let taken = Arc::new(PartTaken { state: Arc::clone(&self.0), index });
        let part = |direction| Box::new(PartDevice::new(Arc::clone(&taken), direction));
        Some(SharedPart {
            capture: part(tautline_proto::device::Direction::Capture),
            playback: part(tautline_proto::device::Direction::Playback),
        })
    }

    /// Mutes the captured sound within 10 ms, without a click.
    pub fn mute(&self, muted: bool) {
        self.0.muted.store(muted, Ordering::Relaxed);
    }

    pub fn are_bridged(&self) -> bool {
        self.0.bridged
    }

    /// Realignments of bridged sound after interruptions.
    pub fn realigned(&self) -> u64 {
        self.0.realigned.load(Ordering::Relaxed)
    }

    pub fn missed(&self) -> u64 {
        self.0.missed.load(Ordering::Relaxed)
    }

    pub fn end(&self) {
        self.0.over.capture.store(true, Ordering::Release);
        self.0.over.playback.store(true, Ordering::Release);
    }
}

struct PartTaken {
    state: Arc<SharedState>,
    index: usize,
}

impl Drop for PartTaken {
    fn drop(&mut self) {
        self.state.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.index);
    }
}

struct PartDevice {
    taken: Arc<PartTaken>,
    direction: Direction,
}

impl PartDevice {
    const fn new(taken: Arc<PartTaken>, direction: Direction) -> Self {
        Self { taken, direction }
    }

    fn seat(&self) -> Option<&PartSeat> {
        let seats = self.taken.state.seats.get(self.taken.index)?;
        Some(seats.of(self.direction))
    }
}

impl Device for PartDevice {
    fn settings(&self) -> Settings {
        *self.taken.state.settings.of(self.direction)
    }

    fn clock(&self) -> Option<ClockId> {
        *self.taken.state.clocks.of(self.direction)
    }

    fn timestamp_source(&self) -> TimestampSource {
        *self.taken.state.timestamp_sources.of(self.direction)
    }

    fn replaced(&self) -> ReplacedTime {
        self.taken.state.replaced.of(self.direction).clone()
    }

    fn run(&mut self, process: Box<dyn Process>, stop: &Stop) -> (Box<dyn Process>, Ended) {
        let Some(seat) = self.seat() else { return (process, Ended::Finished) };
        seat.lend(process, stop, self.taken.state.over.of(self.direction))
    }
}
