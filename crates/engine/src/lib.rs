//! Connects machines, links and devices; measures and reports.
//!
//! A device's thread runs the transmitter of [`send_engine`] or the mixer of [`receive_engine`].
//! Both report through wait-free rings to the ordinary thread, which talks to the peer, measures,
//! and writes the [report](tautline_report::Report). [`offload`] runs plugins on other hosts.
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
