//! Runs other people's plugins, each in a process of its own.
//!
//! `ladspa` is the plugins' ABI and what can be done with one library in this process; `chain` makes one
//! of several. `process` starts children, which do what `child` says. `scan` asks every library what it
//! has, and `offers` says what of it masters are told. `cost` measures what a plugin takes, by which
//! `admission` decides whether there is room for it. `workshop` is all of that as masters ask for it.
//!
//! A plugin may do anything, so nothing here but a child process ever loads one that a user did not
//! choose, and `confinement` limits that process first.

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
