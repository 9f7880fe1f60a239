//! `taut lab`: its commands, and the programs that experiments start at other hosts.

use std::io::{stdin, stdout};

use clap::Subcommand;
use tautline_ui::failure::Failure;
use tautline_ui::screen;

use crate::experiments::EXPERIMENTS;
use crate::hosts::serve;
use crate::signals::stop_in_order;
use crate::{
    align, all, callback_jitter, capacity, compare_reports, delay, impair, interval, kernel,
    latency_sweep, limits, load, loadgen, min_latency, mouth_to_ear, network, overhead, quality,
    resources, schedulers, stages, stalls, traffic,
};

/// `taut lab`
#[derive(Debug, Subcommand)]
pub enum Lab {
    /// List the experiments
    List,
    /// Measure how long sound takes from one device to another, by time marks in the sound
    Delay(Box<delay::DelayFlags>),
    /// Measure how far apart two taps of one sound are: two channels of a recording or a card
    Align(Box<align::AlignFlags>),
    /// Measure how long sound takes from the mouth at one end of a call to the ear at the other
    MouthToEar(Box<mouth_to_ear::MouthToEarFlags>),
    /// Measure where the time of every packet goes, stage by stage, between two hosts
    Stages(Box<stages::StagesFlags>),
    /// Measure how long packets take from the kernel's arrival to the program that reads them
    Kernel(Box<kernel::KernelFlags>),
    /// Measure whether latencies are kept, from 100 ms down to 3 ms
    LatencySweep(Box<latency_sweep::LatencySweepFlags>),
    /// Measure what the least latency is that loses nothing
    MinLatency(Box<min_latency::MinLatencyFlags>),
    /// Measure which scheduler serves sound, quiet and loaded, apart and on one core
    Schedulers(Box<schedulers::SchedulerFlags>),
    /// Measure what else the network carries, and what that does to a stream
    Network(Box<network::NetworkFlags>),
    /// Measure how regular blocks are on both sides of a sound device
    CallbackJitter(Box<callback_jitter::CallbackJitterFlags>),
    /// Measure a stream whose receiver has little processor or memory
    Limits(Box<limits::LimitsFlags>),
    /// Measure how late this machine wakes a thread, and how long every core freezes
    Stalls(stalls::StallFlags),
    /// Measure how busy this machine and its programs are, interval by interval
    Resources(resources::ResourceFlags),
    /// Measure whether what is heard is the sound that was sent: bit for bit, or how else
    Quality(Box<quality::QualityFlags>),
    /// Measure how many streams are carried without a miss
    Load(Box<load::LoadFlags>),
    /// Measure what measuring costs
    Overhead(Box<overhead::OverheadFlags>),
    /// Measure at which intervals packets go or come: by a ledger, at a socket, from a capture
    Interval(Box<interval::IntervalFlags>),
    /// Measure how much of a period plugins on other machines can use
    Capacity(Box<capacity::CapacityFlags>),
    /// Relay a stream as a bad network would: late, lost, reordered, twice
    Impair(Box<impair::ImpairFlags>),
    /// Run every experiment once, shortly, and write a page that leads to their reports
    All(all::AllFlags),
    /// Report how two reports differ, stage by stage, and whether the second is worse by more than noise
    Compare(compare_reports::CompareFlags),
    /// Do what an experiment on another host asks for, over standard input and output
    #[command(hide = true)]
    Agent,
    /// Burden this machine or the network until Ctrl-C, for an experiment
    #[command(hide = true)]
    Loadgen(loadgen::LoadgenFlags),
    /// Play time marks until Ctrl-C, and then say when each met the DAC, for an experiment
    #[command(hide = true)]
    Play(Box<delay::MarkSide>),
    /// Hear time marks until Ctrl-C, and then say when each met the ADC, for an experiment
    #[command(hide = true)]
    Hear(Box<delay::MarkSide>),
    /// Play noise until Ctrl-C, for an experiment
    #[command(hide = true)]
    Mouth(mouth_to_ear::BesideFlags),
    /// Keep what a device hears until Ctrl-C, and then print it, for an experiment
    #[command(hide = true)]
    Tap(mouth_to_ear::BesideFlags),
    /// Write the sound whose quality is measured, for an experiment
    #[command(hide = true)]
    Sound(quality::KnownSound),
    /// Read what the interfaces of this machine carry until Ctrl-C, for an experiment
    #[command(hide = true)]
    Traffic(traffic::TrafficFlags),
    /// Send numbered packets at a pace, for an experiment
    #[command(hide = true)]
    Packets(kernel::PacketsFlags),
    /// Send a stream as barely as can be by a rung of the pacing ladder, for an experiment
    #[command(hide = true)]
    Loop(interval::LoopFlags),
    /// Read what this machine does until Ctrl-C, for an experiment
    #[command(hide = true)]
    Sample(resources::SampleFlags),
    /// Send datagrams back until Ctrl-C, for an experiment
    #[command(hide = true)]
    Echo(capacity::EchoFlags),
}

fn list() {
    for experiment in EXPERIMENTS {
        screen::say(&format!("{:15} {}", experiment.name, experiment.asks));
    }
    screen::say("");
    screen::say(
        "all             runs each of them once, shortly, and writes a page that leads to their reports",
    );
    screen::say(
        "compare         reports how two reports differ, and whether the second is worse by more than noise",
    );
    screen::say(
        "impair          relays a stream as a bad network would, for others to be measured over",
    );
}

impl Lab {
    pub fn run(&self) -> Result<(), Failure> {
        match self {
            Self::List => {
                list();
                Ok(())
            }
            Self::Agent => {
                let stop = stop_in_order()?;
                serve(stdin(), stdout().lock(), &stop)
                    .map_err(|error| Failure::running(format!("as an agent: {error}")))
            }
            Self::All(flags) => all::run(flags),
            Self::Align(flags) => align::run(flags),
            Self::Delay(flags) => delay::run(flags),
            Self::Play(flags) => delay::play(flags),
            Self::Hear(flags) => delay::hear(flags),
            Self::MouthToEar(flags) => mouth_to_ear::run(flags),
            Self::Mouth(flags) => mouth_to_ear::mouth(flags),
            Self::Tap(flags) => mouth_to_ear::tap(flags),
            Self::CallbackJitter(flags) => callback_jitter::run(flags),
            Self::Network(flags) => network::run(flags),
            Self::Limits(flags) => limits::run(flags),
            Self::Loadgen(flags) => loadgen::run(flags),
            Self::Traffic(flags) => traffic::run(flags),
            Self::Packets(flags) => kernel::send(flags),
            Self::Sample(flags) => resources::sample(flags),
            Self::Impair(flags) => impair::run(flags),
            Self::Interval(flags) => interval::run(flags),
            Self::Loop(flags) => interval::send(flags),
            Self::Capacity(flags) => capacity::run(flags),
            Self::Echo(flags) => capacity::echo(flags),
            Self::Kernel(flags) => kernel::run(flags),
            Self::LatencySweep(flags) => latency_sweep::run(flags),
            Self::MinLatency(flags) => min_latency::run(flags),
            Self::Load(flags) => load::run(flags),
            Self::Overhead(flags) => overhead::run(flags),
            Self::Quality(flags) => quality::run(flags),
            Self::Sound(flags) => quality::write(flags),
            Self::Resources(flags) => resources::run(flags),
            Self::Schedulers(flags) => schedulers::run(flags),
            Self::Stages(flags) => stages::run(flags),
            Self::Stalls(flags) => stalls::run(flags),
            Self::Compare(flags) => compare_reports::run(flags),
        }
    }
}
