//! HTTP/1.1 server in front of a [`Workshop`](tautline_api::v1::Workshop).
//!
//! One thread runs all connections; blocking calls run on further threads. One TCP port serves
//! plain HTTP via loopback, and TLS with pinned keys. Unauthenticated connections get little time,
//! memory and few places.

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
pub use server::{ApiServer, serve, serve_calls, serve_node, serve_with_events};
