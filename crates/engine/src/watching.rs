//! What is measured of a run, and how it is told: the stall witness and the clock of a run, the sound
//! itself, distributions, the ledger, and the report.

pub mod distribution;
mod json;
pub(crate) mod ledger_file;
pub(crate) mod levels;
pub(crate) mod machine;
pub(crate) mod newest;
pub mod note;
pub(crate) mod observed;
pub mod observers;
pub mod probes;
pub mod refused;
pub mod report;
pub mod run;
pub mod shell;
pub mod snapshot;
pub mod sound;
pub mod text;
pub(crate) mod xruns;
