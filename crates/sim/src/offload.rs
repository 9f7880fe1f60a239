//! A plugin that runs on other hosts, in virtual time. The state machines of `proto::offload` run
//! over paths that lose, hold and reorder packets and that fail, with workers that stall, die and
//! are restarted.
//!
//! The plugin never forgets its input completely, so a block that it misses or receives twice is
//! audible. The output is compared with a plugin that missed no block. Only the frames in the damage
//! ledger may differ, and those of the millisecond after them.

mod ends;
mod world;

use core::fmt;

use tautline_proto::offload::inbound::PluginState;
use tautline_proto::offload::master::MasterCounters;
use tautline_proto::offload::returns::{Damage, Replacement};
use tautline_proto::offload::worker::WorkerCounters;
use tautline_proto::time::Span;

use crate::clock::TrueTime;
use crate::link::PathModel;
use crate::preset::Preset;

pub use world::play_offload;

#[derive(Debug, Clone, PartialEq)]
pub struct WorkerModel {
    pub there: PathModel,
    pub back: PathModel,
    pub cost: Span,
    /// Times in which it stalls. Packets that arrive in them wait.
    pub frozen: Vec<(TrueTime, TrueTime)>,
    /// Times in which it is dead. Packets that arrive in them are lost. It restarts afterwards.
    pub dead: Vec<(TrueTime, TrueTime)>,
    /// Memory of its plugin in frames, as configured.
    pub memory: Option<u64>,
}

impl WorkerModel {
    /// A worker in this network. Its plugin takes a tenth of a millisecond.
    pub fn at(preset: Preset) -> Self {
        Self {
            there: preset.path(),
            back: preset.path(),
            cost: Span::from_micros(100),
            frozen: Vec::new(),
            dead: Vec::new(),
            memory: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct OffloadScenario {
    pub seed: u64,
    pub rate: u32,
    /// Frames of the host's runs, repeated.
    pub runs: Vec<u32>,
    /// Delay of the played frames relative to the frames sent out, in frames.
    pub delay: u32,
    pub replacement: Replacement,
    pub history: usize,
    /// Number of earlier blocks that are sent again with each block, in both directions.
    pub copies: u8,
    pub workers: Vec<WorkerModel>,
}

impl OffloadScenario {
    /// One worker in this network, runs of 64 frames at 48 kHz, and a delay of three runs.
    pub fn on(preset: Preset, seed: u64) -> Self {
        Self {
            seed,
            rate: 48_000,
            runs: vec![64],
            delay: 192,
            replacement: Replacement::Dry,
            history: 512,
            copies: 0,
            workers: vec![WorkerModel::at(preset)],
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WorkerOutcome {
    /// State of the plugin that was started last.
    pub state: PluginState,
    pub counters: WorkerCounters,
    pub master: MasterCounters,
    pub played: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct OffloadOutcome {
    pub frames: u64,
    pub damage: Vec<Damage>,
    /// Number of frames in the damage ledger.
    pub damaged: u64,
    /// Number of frames that differ from the output of a plugin that missed no block.
    pub different: u64,
    /// The first frame that differs but must not.
    pub first_wrong: Option<u64>,
    /// The first frame for which the ledger is wrong about whether an answer was there.
    pub first_misnoted: Option<u64>,
    /// Number of damaged frames for which the ledger was full.
    pub overflow: u64,
    pub workers: Vec<WorkerOutcome>,
}

impl OffloadOutcome {
    /// The first frame after all noted damage.
    pub fn whole_from(&self) -> u64 {
        let ends = self.damage.iter().map(|damage| damage.from + u64::from(damage.frames));
        ends.max().unwrap_or(0)
    }
}

impl fmt::Display for OffloadOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { frames, damaged, different, first_wrong, first_misnoted, .. } = self;
        let entries = self.damage.len();
        write!(f, "{frames} frames, {damaged} damaged in {entries} runs, {different} different; ")?;
        write!(f, "first wrong {first_wrong:?}, first misnoted {first_misnoted:?}; ")?;
        write!(f, "{:?}", self.workers)
    }
}
