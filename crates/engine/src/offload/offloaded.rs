//! An offloaded plugin on its host's real-time thread.

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
    /// Ports of the plugin.
    pub set: SoundSet,
    /// Sample rate.
    pub rate: Rate,
    /// Delay from an input to its output.
    pub delay: OffloadDelay,
    /// Maximum time for which a run waits for its answer; zero to never wait.
    pub wait: Span,
    /// Maximum wait if the host runs faster than real time on a thread without real-time priority;
    /// zero for at most [`Self::wait`]. A run never waits longer than the host is ahead
    /// ([`RunPace::timeout`]). After a worker was silent for this time, runs stop waiting until it
    /// sends something.
    pub wait_offline: Span,
    /// Concealment for missing answers.
    pub replacement: Replacement,
    /// Whether there is a spare worker.
    pub spare: bool,
    /// Number of runs kept for retransmission.
    pub history: usize,
    /// Number of earlier runs that are sent again with each run.
    pub copies: u8,
    /// Maximum datagram size in bytes.
    pub datagram_bytes: usize,
}

impl OffloadedConfig {
    /// Creates settings with a delay of `window` blocks. A run never waits, the input at the
    /// plugin's level conceals missing answers, 256 runs are kept, and datagrams fit Ethernet with
    /// room for encryption.
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

    /// Returns the maximum total time of unanswered waits for a worker: that of one block of a
    /// render.
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

/// Answers kept in addition to those in flight, to distinguish late from lost ones. There are few,
/// because each is uncached memory.
const REMEMBERED: usize = 48;
/// Maximum split of a block by the host: into this many runs, or into runs of this many frames.
const SPLIT: usize = 16;

/// Reason why a plugin cannot be offloaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OffloadedError {
    /// Too many ports or too long runs.
    #[error(transparent)]
    Set(#[from] BlockSetError),
    /// The history is too large.
    #[error(transparent)]
    Kept(#[from] OffloadError),
}

/// An offloaded plugin on its host's real-time thread. It sends each run and plays the answers of
/// earlier ones.
///
/// [`Offloaded::run`] does not allocate or lock, and waits only as long as permitted. Without a
/// worker it plays the concealment.
pub struct Offloaded {
    config: OffloadedConfig,
    ends: [Option<WorkerEnd>; FAR_ENDS],
    returns: Returns,
    delay: DelayLearner,
    pace: RunPace,
    /// Time that the host was blocked since the last run began.
    held_up: HeldUp,
    /// Minimum wait permitted for the next run.
    allowed: Span,
    under_way: UnderWay,
    position: u64,
    activation: u32,
    controls_in: Box<[f32]>,
    controls_out: Box<[f32]>,
    /// First frame of the answer with these control values.
    controls_of: u64,
    own_latency: u32,
    rings: Rings,
    counters: OffloadedCounters,
    reported: LocalTime,
}

impl Offloaded {
    /// Allocates everything and creates the ordinary thread's end.
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
            delay: config.delay.most(set.max_frames),
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

    /// Starts an activation: earlier runs are not played, and the plugin is reset. Does not
    /// allocate.
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

    /// Replaces a worker between two runs and returns the old one. For a caller that owns both;
    /// [`Attendant::attach`] does this from another thread.
    ///
    /// The activation continues: the new worker requests the blocks that it missed.
    pub fn attach(&mut self, which: Which, far: Far) -> Option<Far> {
        match &mut self.ends[which.index()] {
            Some(end) => end.replace(Some(far)),
            None => Some(far),
        }
    }

    /// Detaches a worker and returns it.
    pub fn detach(&mut self, which: Which) -> Option<Far> {
        self.ends[which.index()].as_mut()?.replace(None)
    }

    /// Permits the next run to wait for `wait`. The caller knows that the host has the time.
    pub const fn allow_wait(&mut self, wait: Span) {
        self.allowed = wait;
    }

    /// Reports that the caller blocked the host for this plugin before the next run.
    pub fn was_held_up(&mut self, held_up: HeldUp) {
        self.held_up += held_up;
        self.counters.waits += 1;
        self.counters.waited += held_up.span;
    }

    /// Returns the number of frames from an input to its output, without the plugin's own latency.
    pub const fn delay(&self) -> u32 {
        self.delay.frames()
    }

    /// Returns the number of frames from an input to its output, including the plugin's own
    /// latency.
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
