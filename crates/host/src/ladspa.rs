//! LADSPA 1.1: types, libraries, running a plugin.

#![expect(unsafe_code, reason = "plugins are C, and nobody vouches for them")]

pub mod abi;
pub mod description;
pub mod instance;
pub mod library;
