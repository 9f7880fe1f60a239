//! A LADSPA library in which other machines' plugins appear as local ones.

mod ahead;
mod block;
mod catalogue;
mod clerk;
pub mod edges;
mod forked;
mod instance;
mod names;
mod options;
mod ports;
mod record;
mod report;
mod say;
mod shelf;
mod twin;
