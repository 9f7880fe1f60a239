//! A plugin that runs on other hosts, in virtual time. Paths lose, hold and reorder packets;
//! workers stall, die and restart.
//!
//! The plugin never completely forgets its input, so each missed or repeated block is audible.
//! Output may differ from a flawless plugin only in the frames of the damage ledger and in 1 ms
//! after them.

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
    /// Times of the worker's stalls; arriving packets wait.
    pub frozen: Vec<(TrueTime, TrueTime)>,
    /// Times while the worker is dead; arriving packets are lost. The worker restarts afterwards.
    pub dead: Vec<(TrueTime, TrueTime)>,
    /// In frames.
    pub memory: Option<u64>,
}

impl WorkerModel {
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
    /// Frames per run of the host, repeated.
    pub runs: Vec<u32>,
    /// From sent to played, in frames.
    pub delay: u32,
    pub replacement: Replacement,
    pub history: usize,
    /// Earlier blocks repeated in each packet, both ways.
    pub copies: u8,
    pub workers: Vec<WorkerModel>,
}

impl OffloadScenario {
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
    pub state: PluginState,
    pub counters: WorkerCounters,
    pub master: MasterCounters,
    pub played: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct OffloadOutcome {
    pub frames: u64,
    pub damage: Vec<Damage>,
    pub damaged: u64,
    pub different: u64,
    pub first_wrong: Option<u64>,
    /// The first frame whose ledger entry is wrong.
    pub first_misnoted: Option<u64>,
    pub overflow: u64,
    pub workers: Vec<WorkerOutcome>,
}

impl OffloadOutcome {
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
