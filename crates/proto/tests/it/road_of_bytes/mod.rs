//! All scenarios of `road` over another wire format: decisions must not depend on the header.

mod form;

#[path = "../road/changes.rs"]
mod changes;
#[path = "../road/clocks.rs"]
mod clocks;
#[path = "../road/coded.rs"]
mod coded;
#[path = "../road/faults.rs"]
mod faults;
#[path = "../road/lengths.rs"]
mod lengths;
#[path = "../road/redundancy.rs"]
mod redundancy;
#[path = "../road/repairer.rs"]
mod repairer;
#[path = "../road/replays.rs"]
mod replays;
#[path = "../road/sound.rs"]
mod sound;
#[path = "../road/strangers.rs"]
mod strangers;
#[path = "../road/toy.rs"]
mod toy;
#[path = "../road/world.rs"]
mod world;
