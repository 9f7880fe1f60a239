//! Runs third-party plugins, each in its own process.
//!
//! `ladspa` has their ABI, and `chain` combines several. `process` starts children, implemented in
//! `child`. `scan` asks libraries for their plugins, `offers` lists them, `cost` measures them,
//! `admission` finds room for them. `workshop` combines all of this into the service for masters.
//! Only child processes, restricted by `confinement`, load plugins that a user did not choose.

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
