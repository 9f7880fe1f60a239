//! Measurements and notes of a run.

pub(crate) mod ledger_file;
pub(crate) mod levels;
pub(crate) mod machine;
pub(crate) mod misses;
pub(crate) mod newest;
pub mod note;
pub(crate) mod observed;
pub mod observers;
pub mod run;
pub mod shell;
pub mod sound;
pub(crate) mod xruns;
