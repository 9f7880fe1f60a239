//! Simulation of sender, network, receiver and cards.

mod changes;
mod clocks;
mod coded;
mod faults;
mod form;
mod headers;
mod lengths;
mod redundancy;
mod repairer;
mod replays;
mod sound;
mod strangers;
pub(crate) mod toy;
mod world;
