//! A LADSPA library that shows other machines' plugins as local plugins.
//!
//! ```text
//! host ──run──▶ instance ──▶ working ──blocks──▶ worker
//!      edges                    ▲ rings
//!                     client_thread ──HTTP──▶ worker
//! ```
//!
//! An instance exists immediately and always plays. Its client thread opens the stream when the
//! worker is reachable; the engine (`working`) does the rest on the host's own thread.

mod ahead;
mod block;
mod client_thread;
pub mod edges;
mod emit;
mod forked;
mod instance;
mod options;
mod ports;
mod record;
mod report;
mod shelf;
mod twin;
mod working;
