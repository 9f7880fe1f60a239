//! Two devices, one that captures and one that plays, for several users at once: each has a *part* of either, which is
//! a [`Device`] like any other, and none knows of the others.
//!
//! What all parts play is summed; what is captured goes to each. Where the two are *bridged*, a part also captures what
//! the others play, and never what it plays itself (mix-minus): as though a microphone stood at the loudspeaker, so it
//! is addressed by time. The frame that met the ADC at an instant is added to those that met the DAC at that very
//! instant; these were played before by all who play, so nobody waits for anybody.
//!
//! The two real devices are run by whoever opened them, each with one of the [`SharedProcesses`], on a thread with the
//! priority of a device. A part is run on a thread that does nothing: it lays its process where the real device calls
//! it, and takes it back at the end.

pub(crate) mod bus;
mod hearing;
mod part;
pub(crate) mod piece;
mod playing;
pub(crate) mod steered;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tautline_proto::device::{Device, Process, Settings, Word};

use crate::toolbox::callback::Seat;
use crate::toolbox::sides::Sides;
use bus::bus;
use hearing::SharedCapture;
use part::{PartDevice, PartTaken};
use playing::SharedPlayback;

/// The most parts that two devices have: what plays of them in a period is noted in one word.
pub const MOST_PARTS: usize = 64;

/// For the threads of the real devices.
pub struct SharedProcesses {
    /// To be run by the device that captures.
    pub capture: Box<dyn Process>,
    /// To be run by the device that plays.
    pub playback: Box<dyn Process>,
}

/// The parts of two devices. Clones give out the same ones.
#[derive(Clone)]
pub struct SharedParts(Arc<SharedState>);

/// What all parts, and the real devices, have in common.
struct SharedState {
    settings: Sides<Settings>,
    clocks: Sides<Option<tautline_proto::clock::ClockId>>,
    words: Sides<Word>,
    seats: Box<[Sides<PartSeat>]>,
    /// Those that nobody has. Locked by ordinary threads alone.
    free: Mutex<Vec<usize>>,
    /// Whether the real device calls no more.
    over: Sides<AtomicBool>,
    /// Whether what the real device captures is silence to all parts.
    muted: AtomicBool,
    bridged: bool,
    realigned: AtomicU64,
    missed: AtomicU64,
}

/// Where the process of one part is called from.
#[derive(Default)]
struct PartSeat {
    seat: Seat,
    /// It said that it has finished.
    finished: AtomicBool,
}

/// Devices for one user, which knows of no other. They are free again once both are dropped.
pub struct SharedPart {
    /// Captures what the real device does, and what other parts play where these are bridged.
    pub capture: Box<dyn Device>,
    /// Is heard with the other parts.
    pub playback: Box<dyn Device>,
}

/// Splits two devices, which run as given, into so many parts; at most [`MOST_PARTS`]. They are `bridged` if each is to
/// capture what the others play, which takes one rate and one number of channels. Allocates all that there ever is.
pub fn shared(
    capture: &dyn Device,
    playback: &dyn Device,
    parts: usize,
    bridged: bool,
) -> (SharedProcesses, SharedParts) {
    let parts = parts.clamp(1, MOST_PARTS);
    let settings = Sides { capture: capture.settings(), playback: playback.settings() };
    let alike = |settings: &Settings| (settings.rate, settings.channels);
    let bridged = bridged && parts > 1 && alike(&settings.capture) == alike(&settings.playback);
    let state = Arc::new(SharedState {
        settings,
        clocks: Sides { capture: capture.clock(), playback: playback.clock() },
        words: Sides { capture: capture.word(), playback: playback.word() },
        seats: (0..parts).map(|_| Sides::default()).collect(),
        // The first comes first.
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
    /// A part that nobody has, if there is one. For ordinary threads.
    pub fn take(&self) -> Option<SharedPart> {
        let index = self.0.free.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        let taken = Arc::new(PartTaken { state: Arc::clone(&self.0), index });
        let part = |direction| Box::new(PartDevice::new(Arc::clone(&taken), direction));
        Some(SharedPart {
            capture: part(tautline_proto::device::Direction::Capture),
            playback: part(tautline_proto::device::Direction::Playback),
        })
    }

    /// Has parts capture silence instead of what the real device does, or not any more, within 10 ms and without a click.
    /// What parts play is heard by the others all the while.
    pub fn mute(&self, muted: bool) {
        self.0.muted.store(muted, Ordering::Relaxed);
    }

    /// Whether parts capture what the others play: they were to, and the two devices are alike.
    pub fn are_bridged(&self) -> bool {
        self.0.bridged
    }

    /// How often what the others played was found at another place than it was read at, and gone to: a device was
    /// interrupted.
    pub fn realigned(&self) -> u64 {
        self.0.realigned.load(Ordering::Relaxed)
    }

    /// Periods of which a part did not hear the others: what these played was not there, or had no room.
    pub fn missed(&self) -> u64 {
        self.0.missed.load(Ordering::Relaxed)
    }

    /// The real devices are gone: all parts end.
    pub fn end(&self) {
        self.0.over.capture.store(true, Ordering::Release);
        self.0.over.playback.store(true, Ordering::Release);
    }
}
