//! A plugin that runs on other hosts, in virtual time: the very machines of `proto::offload` over paths that lose, hold up,
//! reorder and fail, and workers that stand still, die and are started again.
//!
//! The plugin never forgets all of what it saw, so a block that it misses or sees twice is heard. What comes out is held
//! against a plugin that missed nothing: only the frames that the damage ledger names may differ, and those of the
//! millisecond after them.

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
    /// Times in which it stands still; what comes meanwhile waits for it.
    pub frozen: Vec<(TrueTime, TrueTime)>,
    /// From when to when it is dead; what comes meanwhile is lost, and it begins anew.
    pub dead: Vec<(TrueTime, TrueTime)>,
    /// Frames that its plugin is said to remember.
    pub memory: Option<u64>,
}

impl WorkerModel {
    /// One at that place, whose plugin takes a tenth of a millisecond.
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
    /// Frames of the host's runs, over and over.
    pub runs: Vec<u32>,
    /// By how many frames what is played lags behind what is handed out.
    pub delay: u32,
    pub replacement: Replacement,
    pub history: usize,
    /// Earlier blocks that leave once more with each, both ways.
    pub copies: u8,
    pub workers: Vec<WorkerModel>,
}

impl OffloadScenario {
    /// One worker at that place, runs of 64 frames at 48 kHz, a delay of three of them.
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
    /// Of the last that was started.
    pub state: PluginState,
    pub counters: WorkerCounters,
    pub master: MasterCounters,
    pub played: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct OffloadOutcome {
    pub frames: u64,
    pub damage: Vec<Damage>,
    /// Frames that it names.
    pub damaged: u64,
    /// Frames that differ from what a plugin that missed nothing makes.
    pub different: u64,
    /// The first of them that may not.
    pub first_wrong: Option<u64>,
    /// The first frame of which the ledger says something else than whether an answer was there.
    pub first_misnoted: Option<u64>,
    /// Frames whose damage found the ledger full.
    pub overflow: u64,
    pub workers: Vec<WorkerOutcome>,
}

impl OffloadOutcome {
    /// The first frame after which no damage is noted.
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
