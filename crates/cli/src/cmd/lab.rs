//! `taut lab`: the experiments.

mod all;
mod answer;
mod between;
mod burden;
mod capacity;
mod compare;
mod delay;
mod ends;
mod handover;
mod impair;
mod interval;
mod kernel;
mod ladder;
mod least;
mod load;
mod mouth_to_ear;
mod network;
mod overhead;
mod quality;
mod resources;
mod room;
mod schedulers;
mod stages;
mod stalls;
mod starved;

use std::io::{stdin, stdout};

use tautline_lab::EXPERIMENTS;
use tautline_lab::hosts::serve;
use tautline_lab::signals::end_with_parent;
use tautline_proto::device::Stop;

use crate::failure::Failure;
use crate::flags::Lab;
use crate::screen;

/// For an agent and what it starts: a login that breaks off sends one signal and a polite kill another, and
/// none of them keeps it from leaving its host as it was.
fn stop_in_order() -> Result<Stop, Failure> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let stop = Stop::default();
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.flag())
            .map_err(|error| Failure::running(format!("waiting for signals: {error}")))?;
    }
    Ok(stop)
}

/// For what an agent starts: it ends with that, too.
fn stop_with_agent() -> Result<Stop, Failure> {
    let stop = stop_in_order()?;
    end_with_parent();
    Ok(stop)
}

fn list() {
    for experiment in EXPERIMENTS {
        screen::say(&format!("{:12} {}", experiment.name, experiment.asks));
    }
    screen::say("");
    screen::say(
        "all          runs each of them once, shortly, and writes a page that leads to their reports",
    );
    screen::say(
        "compare      reports how two reports differ, and whether the second is worse by more than noise",
    );
    screen::say(
        "impair       relays a stream as a bad network would, for others to be measured over",
    );
}

pub(crate) fn run(lab: &Lab) -> Result<(), Failure> {
    match lab {
        Lab::List => list(),
        Lab::Agent => {
            let stop = stop_in_order()?;
            serve(stdin(), stdout().lock(), &stop)
                .map_err(|error| Failure::running(format!("as an agent: {error}")))?;
        }
        Lab::All(flags) => all::run(flags)?,
        Lab::Between(flags) => between::run(flags)?,
        Lab::Delay(flags) => delay::run(flags)?,
        Lab::Play(flags) => delay::play(flags)?,
        Lab::Hear(flags) => delay::hear(flags)?,
        Lab::MouthToEar(flags) => mouth_to_ear::run(flags)?,
        Lab::Mouth(flags) => mouth_to_ear::mouth(flags)?,
        Lab::Tap(flags) => mouth_to_ear::tap(flags)?,
        Lab::Handover(flags) => handover::run(flags)?,
        Lab::Network(flags) => network::run(flags)?,
        Lab::Starved(flags) => starved::run(flags)?,
        Lab::Burden(flags) => burden::run(flags)?,
        Lab::Traffic(flags) => network::watch(flags)?,
        Lab::Packets(flags) => kernel::send(flags)?,
        Lab::Sample(flags) => resources::sample(flags)?,
        Lab::Impair(flags) => impair::run(flags)?,
        Lab::Interval(flags) => interval::run(flags)?,
        Lab::Loop(flags) => interval::send(flags)?,
        Lab::Capacity(flags) => capacity::run(flags)?,
        Lab::Echo(flags) => capacity::echo(flags)?,
        Lab::Kernel(flags) => kernel::run(flags)?,
        Lab::Ladder(flags) => ladder::run(flags)?,
        Lab::Least(flags) => least::run(flags)?,
        Lab::Load(flags) => load::run(flags)?,
        Lab::Overhead(flags) => overhead::run(flags)?,
        Lab::Quality(flags) => quality::run(flags)?,
        Lab::Sound(flags) => quality::write(flags)?,
        Lab::Resources(flags) => resources::run(flags)?,
        Lab::Schedulers(flags) => schedulers::run(flags)?,
        Lab::Stages(flags) => stages::run(flags)?,
        Lab::Stalls(flags) => stalls::run(flags)?,
        Lab::Compare(flags) => compare::run(flags)?,
    }
    Ok(())
}
