//! Connects machines, links and devices; measures and reports.
//!
//! A device calls the transmitter of [`send_engine`], which packetizes frames and passes packets to
//! a link. On the receiving side, a device calls the mixer of [`receive_engine`], which reads its
//! links, places packets and plays them. Both run on the device's thread and report to the ordinary
//! thread through wait-free rings. The ordinary thread exchanges reports with the peer, measures,
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
