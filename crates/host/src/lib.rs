//! Runs other people's plugins, each in a process of its own.
//!
//! `ladspa` is the plugins' ABI and what can be done with one library in this process; `process` starts
//! children, which do what `child` says; `scan` asks every library what it has.
//!
//! A plugin may do anything, so nothing here but a child process ever loads one that a user did not
//! choose.

pub mod chain;
pub mod child;
pub mod ladspa;
pub mod process;
pub mod scan;
