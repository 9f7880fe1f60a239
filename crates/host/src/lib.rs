//! Runs third-party plugins, each in its own process.
//!
//! `ladspa` has the ABI, `process` starts children, `child` implements them. `scan` queries
//! libraries, `offers` lists plugins. `workshop` is the service for masters. Only children under
//! `confinement` load plugins that a user did not choose.

pub mod admission;
pub mod chain;
#[cfg(feature = "child")]
pub mod child;
mod child_notes;
#[cfg(feature = "child")]
pub mod confinement;
pub mod cost;
pub mod ladspa;
pub mod offers;
mod plan;
pub mod process;
pub mod scan;
pub mod workshop;
