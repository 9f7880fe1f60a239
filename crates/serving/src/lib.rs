//! The serving side of what one `taut` says to another: HTTP/1.1 in front of a
//! [`Workshop`](tautline_api::v1::Workshop).
//!
//! One thread of its own runs all connections, others what the workshop does meanwhile; nobody
//! outside sees anything asynchronous. One TCP port speaks both: plain HTTP to this host's own programs, by
//! the loopback interface, and TLS with pinned keys to everybody. What has not shown yet that it is trusted
//! gets little time, little memory and few connections.

mod call_connections;
mod connection;
mod guests;
mod listen;
mod news;
mod owners;
mod routes;
mod server;

pub use call_connections::{CalledConnection, ConnectionEvent, ConnectionEventSender, MediaPlace};
pub use listen::{ListenError, Listening};
pub use news::{ApiAsker, ServingNews, THIS_MACHINE, TurnedAway};
pub use routes::{ApiCall, OPENAPI};
pub use server::{ApiServer, serve, serve_calls, serve_telling};
