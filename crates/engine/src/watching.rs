//! What is measured of a run, and how it is told: the stall witness and the clock of a run, the sound
//! itself, distributions, the ledger, and the report.

pub mod distribution;
mod json;
pub(crate) mod ledger_file;
pub(crate) mod machine;
pub mod note;
pub mod refused;
pub mod report;
pub mod run;
pub mod sound;
pub mod text;
