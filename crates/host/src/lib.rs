//! Runs other people's plugins, each in a process of its own.
//!
//! `ladspa` is their ABI, and `chain` makes one of several. `process` starts children, which do what `child` says.
//! `scan` asks libraries for their plugins, `offers` announces them, `cost` measures them, `admission` finds room for
//! them, and `workshop` is all of that as masters ask for it. Only child processes, limited by `confinement`, load
//! plugins that a user did not choose.

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
