//! A LADSPA library in which other machines' plugins appear as local ones.

mod block;
mod catalogue;
pub mod edges;
pub mod host_block;
mod instance;
mod names;
mod ports;
mod say;
mod shelf;
mod twin;
