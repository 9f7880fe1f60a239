//! A plugin that runs elsewhere, as a host's real-time thread has it.

mod run;
mod under_way;

use tautline_io::thread::memory::prefault;
use tautline_proto::offload::OffloadError;
use tautline_proto::offload::block::{BlockSet, BlockSetError};
use tautline_proto::offload::master::MasterConfig;
use tautline_proto::offload::pace::{HeldUp, RunPace};
use tautline_proto::offload::returns::{Returns, ReturnsConfig, StandIn};
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

/// How a plugin runs elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffloadedConfig {
    /// What the plugin has.
    pub set: SoundSet,
    /// Frames per second.
    pub rate: Rate,
    /// By how much what is played lies behind what is handed out.
    pub delay: OffloadDelay,
    /// How long a run may wait for what it is to play now; nothing for not at all.
    pub wait: Span,
    /// The most that it may where the host runs faster than real time, on a thread without real-time priority; nothing for
    /// no longer than [`Self::wait`]. It waits no longer than the host is ahead ([`RunPace::patience`]). A worker of which
    /// nothing is heard for so long is waited for no more until something is.
    pub wait_offline: Span,
    /// What plays for what is not there.
    pub stand_in: StandIn,
    /// Whether there is to be a second worker, that gets the same.
    pub spare: bool,
    /// Runs that are kept for a worker that asks for them again.
    pub history: usize,
    /// Earlier runs that are sent once more with each.
    pub copies: u8,
    /// The largest datagram in bytes.
    pub datagram_bytes: usize,
}

impl OffloadedConfig {
    /// A plugin with these ports at this rate, so many blocks behind: never waits, plays its input at its level for what is
    /// not there, keeps 256 runs, and cuts them up for Ethernet with room for a seal.
    pub const fn new(set: SoundSet, rate: Rate, window: u32) -> Self {
        Self {
            set,
            rate,
            delay: OffloadDelay::Window(window),
            wait: Span::ZERO,
            wait_offline: Span::ZERO,
            stand_in: StandIn::Matched,
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

    /// How long a worker is waited for in vain, all together: no longer than for one block of a render.
    fn patience(&self) -> Span {
        if self.wait_offline > Span::ZERO { self.wait_offline.max(self.wait) } else { Span::MAX }
    }

    /// Runs that may be under way, and some more.
    fn hold(&self) -> usize {
        let under_way = match self.delay {
            OffloadDelay::Window(blocks) => SPLIT * blocks as usize,
            OffloadDelay::Frames(frames) => frames as usize / SPLIT,
        };
        (under_way + REMEMBERED).min(self.history.max(1))
    }
}

/// Answers kept beside those under way, to tell late from lost: each is memory that no cache has.
const REMEMBERED: usize = 48;
/// A host may split its blocks: into so many runs each, or into runs of so many frames.
const SPLIT: usize = 16;

/// Why a plugin cannot run elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OffloadedError {
    /// Its ports are too many, or its runs too long.
    #[error(transparent)]
    Set(#[from] BlockSetError),
    /// What is to be kept is too much.
    #[error(transparent)]
    Kept(#[from] OffloadError),
}

/// What a host's real-time thread holds of a plugin that runs elsewhere: it hands each run out, and plays what came
/// back of those before.
///
/// [`Offloaded::run`] allocates nothing, locks nothing, and waits only as long as it was told that it may. With no
/// worker attached it plays what stands in.
pub struct Offloaded {
    config: OffloadedConfig,
    ends: [Option<WorkerEnd>; FAR_ENDS],
    returns: Returns,
    delay: DelayLearner,
    pace: RunPace,
    /// How long the host was held up since the last run began.
    held_up: HeldUp,
    /// How long the next run may wait at least.
    allowed: Span,
    under_way: UnderWay,
    /// Frames handed out in this activation.
    position: u64,
    activation: u32,
    controls_in: Box<[f32]>,
    controls_out: Box<[f32]>,
    /// The first frame of the answer that they are of.
    controls_of: u64,
    /// The plugin's own latency in frames, as that answer says.
    own_latency: u32,
    rings: Rings,
    counters: OffloadedCounters,
    told: LocalTime,
}

impl Offloaded {
    /// Lays out everything that will ever be needed, and the ordinary thread's end.
    pub fn new(config: OffloadedConfig) -> Result<(Self, Attendant), OffloadedError> {
        let set = config.set;
        let blocks = set.block_set()?;
        let (rings, attendant) = rings();
        let room = |len: usize| {
            let mut room = vec![0.0; len].into_boxed_slice();
            prefault(&mut room);
            room
        };
        let end = || WorkerEnd::new(config.master(blocks.clone()), config.patience());
        let spare = config.spare.then(end).transpose()?;
        let returns = Returns::new(ReturnsConfig {
            inputs: set.inputs,
            outputs: set.outputs,
            rate: config.rate.hertz(),
            delay: config.delay.most(set.most_frames),
            most_frames: set.most_frames,
            stand_in: config.stand_in,
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
            told: LocalTime::ZERO,
            config,
        };
        offloaded.activate();
        Ok((offloaded, attendant))
    }

    /// A new activation: nothing handed out before is played, and the plugin is reset. Allocates nothing.
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

    /// Puts a worker in the place of the one that is there, which is given back, between two runs: for who has both
    /// at hand. [`Attendant::attach`] does so from another thread.
    ///
    /// The blocks of this activation go on: the new one asks for those that it has to have seen.
    pub fn attach(&mut self, which: Which, far: Far) -> Option<Far> {
        match &mut self.ends[which.index()] {
            Some(end) => end.replace(Some(far)),
            // There is to be no spare.
            None => Some(far),
        }
    }

    /// Takes the worker off, if there is one.
    pub fn detach(&mut self, which: Which) -> Option<Far> {
        self.ends[which.index()].as_mut()?.replace(None)
    }

    /// The next run may wait for so long, if its caller knows that the host has the time.
    pub const fn allow_wait(&mut self, wait: Span) {
        self.allowed = wait;
    }

    /// Before the next run, its caller held the host up for so long, on behalf of this plugin.
    pub fn was_held_up(&mut self, held_up: HeldUp) {
        self.held_up += held_up;
        self.counters.waits += 1;
        self.counters.waited += held_up.span;
    }

    /// By how many frames what is played lies behind what is handed out, but for what the plugin itself takes.
    pub const fn delay(&self) -> u32 {
        self.delay.frames()
    }

    /// By how many frames what is played lies behind what is handed out: the delay, and what the plugin itself takes.
    pub const fn latency(&self) -> u32 {
        self.delay.frames().saturating_add(self.own_latency)
    }

    /// How it stands.
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
