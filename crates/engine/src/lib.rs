//! Wires machines, links and devices together and keeps the books.
//!
//! The way of a frame is read here: a device calls [`send`]'s transmitter, which packs and hands to
//! a link; at the other end a device calls [`recv`]'s mixer, which reads its links, places and
//! plays. Both run on the device's thread and tell the ordinary thread by wait-free rings; that
//! one talks to the peer, measures, and writes the [`report`].
#![forbid(unsafe_code)]

pub mod address;
mod books;
pub mod control;
pub mod distribution;
pub mod doubt;
mod fader;
mod json;
mod lead;
pub mod learn;
mod ledger_file;
mod link_news;
mod machine;
pub mod note;
mod paths;
mod pending;
pub mod plan;
pub mod recv;
mod recv_change;
mod recv_desk;
mod recv_office;
pub mod refused;
mod repairers;
pub mod report;
pub mod run;
mod rx;
pub mod select;
pub mod send;
mod send_change;
mod send_desk;
mod session;
pub mod sound;
mod summary;
pub mod text;
pub mod too_long;
mod tx;
pub mod way;
