//! Wires machines, links and devices together, measures and reports.
//!
//! The way of a frame is read here: a device calls [`send_engine`]'s transmitter, which packs and hands to
//! a link; at the other end a device calls [`receive_engine`]'s mixer, which reads its links, places and
//! plays. Both run on the device's thread and tell the ordinary thread by wait-free rings; that
//! one talks to the peer, measures, and writes the [report](tautline_report::Report). Beside it stands [`offload`]: plugins that
//! run on other hosts.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod control;
mod conversation;
pub mod error;
mod link_news;
pub mod monitor;
pub mod offload;
pub mod plan;
pub mod receive_engine;
pub mod send_engine;
