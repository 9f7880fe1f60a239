//! Runs other people's plugins, each in a process of its own.
//!
//! `ladspa` is the plugins' ABI and what can be done with one library in this process.
//!
//! A plugin may do anything, so nothing here but a child process ever loads one that a user did not
//! choose.

pub mod ladspa;
