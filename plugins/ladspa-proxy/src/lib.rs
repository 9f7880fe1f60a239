//! A LADSPA library in which other machines' plugins appear as local ones.
//!
//! ```text
//! host ──run──▶ instance ──▶ working ──blocks──▶ worker
//!      edges                    ▲ rings
//!                             clerk ──HTTP──▶ worker
//! ```
//!
//! What there is says the catalogue file (`catalogue`, `names`, `shelf`), and what is made of several of it
//! `pipelines`; how an instance is to run
//! `options`. `edges` is what hosts call, and lets no panic out. An instance is there at once and always
//! plays: its clerk, an ordinary thread, opens its stream when the worker can be had, and the engine
//! (`working`) does the rest on the host's own thread. `record` and `report` tell how it went, `twin`
//! whether it was right.

mod ahead;
mod block;
mod client_thread;
pub mod edges;
mod forked;
mod instance;
mod options;
mod ports;
mod record;
mod report;
mod say;
mod shelf;
mod twin;
mod working;
