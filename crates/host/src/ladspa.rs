//! LADSPA 1.1: types of its header, plugin libraries, and running a plugin.

#![expect(unsafe_code, reason = "plugins are C, and nobody vouches for them")]

pub mod abi;
pub mod description;
pub mod instance;
pub mod library;
