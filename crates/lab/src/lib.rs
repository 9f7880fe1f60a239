//! Experiments: what shows how tautline fares, and is no part of carrying sound.
//!
//! Everything may be used here, and nothing else uses this but the program and the tests.
#![forbid(unsafe_code)]

pub mod delay;
pub mod impair;

/// An experiment by its name on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Experiment {
    /// What follows `taut lab`.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub does: &'static str,
}

/// All experiments.
pub const EXPERIMENTS: [Experiment; 2] = [
    Experiment {
        name: "delay",
        does: "play time marks on one device and find them on another: how long they took",
    },
    Experiment {
        name: "impair",
        does: "relay a stream as a bad network would: late, lost, reordered, twice",
    },
];
