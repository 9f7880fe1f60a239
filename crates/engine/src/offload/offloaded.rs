//! A plugin offloaded from its host's real-time thread.

mod run;
mod under_way;

use tautline_io::thread::memory::prefault;
use tautline_proto::offload::OffloadError;
use tautline_proto::offload::block::{BlockSet, BlockSetError};
use tautline_proto::offload::master::MasterConfig;
use tautline_proto::offload::pace::{HeldUp, RunPace};
use tautline_proto::offload::returns::{Replacement, Returns, ReturnsConfig};
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::units::Rate;

use crate::offload::attendant::{
    Attendant, EndStanding, OffloadedCounters, Rings, Standing, rings,
};
use crate::offload::delay::{DelayLearner, OffloadDelay};
use crate::offload::far::WorkerEnd;
pub use crate::offload::far::{FAR_ENDS, Far, LastFar, Which};
use crate::offload::offloaded::under_way::UnderWay;
use crate::offload::sound_set::SoundSet;
pub use run::RunOutcome;

/// Settings of an offloaded plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffloadedConfig {
    /// Plugin ports.
    pub set: SoundSet,
    /// Sample rate.
    pub rate: Rate,
    /// Delay from input to output.
    pub delay: OffloadDelay,
    /// Maximum wait of a run; zero: never.
    pub wait: Span,
    /// Maximum wait of a host faster than real time on a thread without real-time priority; zero
    /// for [`Self::wait`]. It never exceeds the host's lead ([`RunPace::timeout`]). After this
    /// silence, runs stop waiting until the worker sends.
    pub wait_offline: Span,
    /// Concealment.
    pub replacement: Replacement,
    /// Whether a spare worker exists.
    pub spare: bool,
    /// Runs kept for retransmission.
    pub history: usize,
    /// Earlier runs sent with each run.
    pub copies: u8,
    /// Maximum datagram in bytes.
    pub datagram_bytes: usize,
}

impl OffloadedConfig {
    /// A delay of `window` blocks, no waits, input at the plugin's level as concealment, 256 kept
    /// runs, and datagrams for Ethernet with encryption.
    pub const fn new(set: SoundSet, rate: Rate, window: u32) -> Self {
        Self {
            set,
            rate,
            delay: OffloadDelay::Window(window),
            wait: Span::ZERO,
            wait_offline: Span::ZERO,
            replacement: Replacement::Matched,
            spare: false,
            history: 256,
            copies: 0,
            datagram_bytes: 1400,
        }
    }

    fn master(&self, set: BlockSet) -> MasterConfig {
        MasterConfig {
            set,
            stream: 0,
            epoch_seed: 0,
            datagram_bytes: self.datagram_bytes,
            history: self.history,
            copies: self.copies,
            hold: self.hold(),
        }
    }

    /// Maximum total of unanswered waits: one block of a render.
    fn timeout(&self) -> Span {
        if self.wait_offline > Span::ZERO { self.wait_offline.max(self.wait) } else { Span::MAX }
    }

    fn hold(&self) -> usize {
        let under_way = match self.delay {
            OffloadDelay::Window(blocks) => SPLIT * blocks as usize,
            OffloadDelay::Frames(frames) => frames as usize / SPLIT,
        };
        (under_way + REMEMBERED).min(self.history.max(1))
    }
}

const REMEMBERED: usize = 48;
/// The host splits a block into at most this many runs, or into runs of this many frames.
const SPLIT: usize = 16;

/// Error of offloading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OffloadedError {
    /// Too many ports or too long runs.
    #[error(transparent)]
    Set(#[from] BlockSetError),
    /// The history is too large.
    #[error(transparent)]
    Kept(#[from] OffloadError),
}

/// A plugin offloaded from its host's real-time thread; sends each run, plays earlier answers.
///
/// [`Offloaded::run`] does not allocate or lock, and waits only as permitted. Without a worker it
/// conceals.
pub struct Offloaded {
    config: OffloadedConfig,
    ends: [Option<WorkerEnd>; FAR_ENDS],
    returns: Returns,
    delay: DelayLearner,
    pace: RunPace,
    held_up: HeldUp,
    allowed: Span,
    under_way: UnderWay,
    position: u64,
    activation: u32,
    controls_in: Box<[f32]>,
    controls_out: Box<[f32]>,
    controls_of: u64,
    own_latency: u32,
    rings: Rings,
    counters: OffloadedCounters,
    reported: LocalTime,
}

impl Offloaded {
    /// Allocates everything; creates the ordinary thread's end too.
    pub fn new(config: OffloadedConfig) -> Result<(Self, Attendant), OffloadedError> {
        let set = config.set;
        let blocks = set.block_set()?;
        let (rings, attendant) = rings();
        let room = |len: usize| {
            let mut room = vec![0.0; len].into_boxed_slice();
            prefault(&mut room);
            room
        };
        let end = || WorkerEnd::new(config.master(blocks.clone()), config.timeout());
        let spare = config.spare.then(end).transpose()?;
        let returns = Returns::new(ReturnsConfig {
            inputs: set.inputs,
            outputs: set.outputs,
            rate: config.rate.hertz(),
            delay: config.delay.maximum(set.max_frames),
            max_frames: set.max_frames,
            replacement: config.replacement,
        });
        let mut offloaded = Self {
            ends: [Some(end()?), spare],
            returns,
            delay: DelayLearner::new(config.delay),
            pace: RunPace::new(config.rate),
            held_up: HeldUp::default(),
            allowed: Span::ZERO,
            under_way: UnderWay::new(config.history),
            position: 0,
            activation: 0,
            controls_in: room(set.controls_in),
            controls_out: room(set.controls_out),
            controls_of: 0,
            own_latency: 0,
            rings,
            counters: OffloadedCounters::default(),
            reported: LocalTime::ZERO,
            config,
        };
        offloaded.activate();
        Ok((offloaded, attendant))
    }

    /// Starts an activation: drops earlier runs and resets the plugin. Does not allocate.
    pub fn activate(&mut self) {
        self.activation = self.activation.wrapping_add(1);
        self.position = 0;
        self.under_way.clear();
        self.controls_out.fill(0.0);
        self.controls_of = 0;
        self.ends.iter_mut().flatten().for_each(WorkerEnd::begin);
        self.returns.begin(self.delay.begin());
        self.pace.begin();
        self.held_up = HeldUp::default();
    }

    /// Replaces a worker between runs; returns the old worker. [`Attendant::attach`] does so from
    /// another thread.
    ///
    /// The new worker requests missed blocks.
    pub fn attach(&mut self, which: Which, far: Far) -> Option<Far> {
        match &mut self.ends[which.index()] {
            Some(end) => end.replace(Some(far)),
            None => Some(far),
        }
    }

    /// Detaches and returns a worker.
    pub fn detach(&mut self, which: Which) -> Option<Far> {
        self.ends[which.index()].as_mut()?.replace(None)
    }

    /// Permits the next run to wait this long.
    pub const fn allow_wait(&mut self, wait: Span) {
        self.allowed = wait;
    }

    /// Reports how long the caller blocked the host before the next run.
    pub fn was_held_up(&mut self, held_up: HeldUp) {
        self.held_up += held_up;
        self.counters.waits += 1;
        self.counters.waited += held_up.span;
    }

    /// Frames from input to output, without the plugin's latency.
    pub const fn delay(&self) -> u32 {
        self.delay.frames()
    }

    /// Frames from input to output, with the plugin's latency.
    pub const fn latency(&self) -> u32 {
        self.delay.frames().saturating_add(self.own_latency)
    }

    /// Returns the status.
    pub fn standing(&self) -> Standing {
        let end = |end: &Option<WorkerEnd>| {
            let end = end.as_ref().filter(|end| end.is_attached())?;
            Some(EndStanding {
                machine: end.master.counters(),
                link: end.link_counters(),
                clean: end.clean,
                played: end.played,
            })
        };
        Standing {
            activation: self.activation,
            position: self.position,
            delay: self.delay.frames(),
            latency: self.latency(),
            offline: self.pace.is_faster(),
            ends: self.ends.each_ref().map(end),
            counters: self.counters,
        }
    }
}
