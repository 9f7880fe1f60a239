//! Experiments: what shows how tautline fares, and is no part of carrying sound.
//!
//! Everything may be used here, and nothing else uses this but the program and the tests.
#![forbid(unsafe_code)]

pub mod all;
pub mod between;
pub mod burden;
pub mod capacity;
mod capture;
mod cases;
pub mod compare;
pub mod delay;
pub mod handover;
pub mod hosts;
mod if_inet6;
pub mod impair;
pub mod interval;
mod kept;
pub mod kernel;
pub mod ladder;
pub mod least;
pub mod load;
pub mod mouth_to_ear;
pub mod network;
pub mod overhead;
pub mod page;
pub mod quality;
pub mod recording;
pub mod report;
pub mod resources;
pub mod run_report;
pub mod schedule;
pub mod schedulers;
pub mod signals;
pub mod stages;
pub mod stalls;
pub mod starved;
pub mod statistics;
pub mod streams;
pub mod traffic;

/// An experiment by its name on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Experiment {
    /// What follows `taut lab`.
    pub name: &'static str,
    /// The question that it answers.
    pub asks: &'static str,
    /// What it does, in one sentence.
    pub does: &'static str,
}

pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "delay",
        asks: delay::QUESTION,
        does: "play time marks on one device and find them on another: how long they took",
    },
    Experiment {
        name: "between",
        asks: between::QUESTION,
        does: "find how far apart two taps of one sound are: two channels of a recording or a card",
    },
    Experiment {
        name: "mouth-to-ear",
        asks: mouth_to_ear::QUESTION,
        does: "call, and record what goes in at the mouth beside what comes out at the far ear",
    },
    Experiment {
        name: "stages",
        asks: stages::QUESTION,
        does: "send a stream and take every packet's time apart, stage by stage",
    },
    Experiment {
        name: "kernel",
        asks: kernel::QUESTION,
        does: "how long packets take from the kernel's arrival to the program that reads them",
    },
    Experiment {
        name: "ladder",
        asks: ladder::QUESTION,
        does: "hold what was measured against what was configured, from 100 ms down to 3 ms",
    },
    Experiment {
        name: "least",
        asks: least::QUESTION,
        does: "find the least latency that loses nothing, and hold it",
    },
    Experiment {
        name: "schedulers",
        asks: schedulers::QUESTION,
        does: "send the same stream under each scheduler, quiet and loaded, apart and on one core",
    },
    Experiment {
        name: "network",
        asks: network::QUESTION,
        does: "send a stream beside multicast, chatter and bulk TCP, and count what the network carries",
    },
    Experiment {
        name: "handover",
        asks: handover::QUESTION,
        does: "how regular blocks are on both sides of a sound device",
    },
    Experiment {
        name: "starved",
        asks: starved::QUESTION,
        does: "send a stream to a receiver that has little processor or memory",
    },
    Experiment {
        name: "stalls",
        asks: stalls::QUESTION,
        does: "how late this machine wakes a thread, on each core, and how long all of them freeze",
    },
    Experiment {
        name: "resources",
        asks: resources::QUESTION,
        does: "how busy this machine and its programs are, interval by interval",
    },
    Experiment {
        name: "quality",
        asks: quality::QUESTION,
        does: "send known sound and say what became of it: bit for bit, or how else",
    },
    Experiment {
        name: "load",
        asks: load::QUESTION,
        does: "send more and more streams until the first miss, then hold the most that went",
    },
    Experiment {
        name: "capacity",
        asks: capacity::QUESTION,
        does: "hand blocks to plugins on other machines, which take ever longer, until one is missed",
    },
    Experiment {
        name: "overhead",
        asks: overhead::QUESTION,
        does: "hold the cost of a stream that is measured against one that is not",
    },
    Experiment {
        name: "interval",
        asks: interval::QUESTION,
        does: "at which intervals packets go or come: a ledger, a socket, a capture",
    },
];
