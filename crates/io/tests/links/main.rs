//! Tests of links on real loopback sockets.
#![expect(clippy::unwrap_used, reason = "a test that cannot open its socket has failed")]

mod awaiting;
mod common;
mod ethernet;
mod launched;
mod muxed;
mod reports;
#[cfg(tautline_rtsan)]
mod sanitizer;
mod seal;
mod sources;
mod tcp;
mod threaded;
mod udp;
mod unix;
