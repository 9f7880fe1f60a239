//! LADSPA 1.1: the types of its header, libraries of plugins, and one plugin that runs.

#![expect(unsafe_code, reason = "plugins are C, and nobody vouches for them")]

pub mod abi;
pub mod description;
pub mod instance;
pub mod library;
