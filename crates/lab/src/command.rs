//! `taut lab`: its commands, including those that experiments start on other hosts.

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
    /// Measure the latency between two audio devices
    Delay(Box<delay::DelayFlags>),
    /// Measure the delay between two taps of one sound
    Align(Box<align::AlignFlags>),
    /// Measure the mouth-to-ear latency of a call
    MouthToEar(Box<mouth_to_ear::MouthToEarFlags>),
    /// Measure the latency of a stream between two hosts, stage by stage
    Stages(Box<stages::StagesFlags>),
    /// Measure the time from a packet's arrival to its program
    Kernel(Box<kernel::KernelFlags>),
    /// Compare measured with configured latency, 100 ms to 3 ms
    LatencySweep(Box<latency_sweep::LatencySweepFlags>),
    /// Find the minimum latency without loss
    MinLatency(Box<min_latency::MinLatencyFlags>),
    /// Compare schedulers, idle and loaded, on separate cores and on one
    Schedulers(Box<schedulers::SchedulerFlags>),
    /// Measure other network traffic and its effect
    Network(Box<network::NetworkFlags>),
    /// Measure how regular the callbacks of a device are
    CallbackJitter(Box<callback_jitter::CallbackJitterFlags>),
    /// Measure a stream whose receiver has little CPU or memory
    Limits(Box<limits::LimitsFlags>),
    /// Measure how late this machine wakes threads, and stalls of all cores
    Stalls(stalls::StallFlags),
    /// Measure the load of this machine and its programs
    Resources(resources::ResourceFlags),
    /// Measure whether the received sound equals the sent sound
    Quality(Box<quality::QualityFlags>),
    /// Find the maximum number of streams without a miss
    Load(Box<load::LoadFlags>),
    /// Measure the cost of measuring
    Overhead(Box<overhead::OverheadFlags>),
    /// Measure the intervals between packets
    Interval(Box<interval::IntervalFlags>),
    /// Measure how much of a period remote plugins can use
    Capacity(Box<capacity::CapacityFlags>),
    /// Relay a stream like a bad network does
    Impair(Box<impair::ImpairFlags>),
    /// Run every experiment briefly and write an index page
    All(all::AllFlags),
    /// Compare two reports stage by stage and detect regressions
    Compare(compare_reports::CompareFlags),
    /// Serve an experiment on another host, over standard input and output
    #[command(hide = true)]
    Agent,
    /// Load this machine or the network until Ctrl-C, for an experiment
    #[command(hide = true)]
    Loadgen(loadgen::LoadgenFlags),
    /// Play time marks until Ctrl-C, then print when each met the DAC, for an experiment
    #[command(hide = true)]
    Play(Box<delay::MarkSide>),
    /// Record time marks until Ctrl-C, then print when each met the ADC, for an experiment
    #[command(hide = true)]
    Hear(Box<delay::MarkSide>),
    /// Play noise until Ctrl-C, for an experiment
    #[command(hide = true)]
    Mouth(mouth_to_ear::NoiseFlags),
    /// Record a device until Ctrl-C, then print the sound, for an experiment
    #[command(hide = true)]
    Tap(mouth_to_ear::NoiseFlags),
    /// Write the sound whose quality is measured, for an experiment
    #[command(hide = true)]
    Sound(quality::KnownSound),
    /// Count the traffic of this machine's interfaces until Ctrl-C, for an experiment
    #[command(hide = true)]
    Traffic(traffic::TrafficFlags),
    /// Send numbered packets at a fixed interval, for an experiment
    #[command(hide = true)]
    Packets(kernel::PacketsFlags),
    /// Send a stream from a bare loop with one pacing mode, for an experiment
    #[command(hide = true)]
    Loop(interval::LoopFlags),
    /// Sample this machine's load until Ctrl-C, for an experiment
    #[command(hide = true)]
    Sample(resources::SampleFlags),
    /// Echo datagrams until Ctrl-C, for an experiment
    #[command(hide = true)]
    Echo(capacity::EchoFlags),
}

fn list() {
    for experiment in EXPERIMENTS {
        screen::emit(&format!("{:15} {}", experiment.name, experiment.requests));
    }
    screen::emit("");
    screen::emit(
        "all             run every experiment briefly and write an index page of their reports",
    );
    screen::emit("compare         compare two reports stage by stage and detect regressions");
    screen::emit(
        "impair          relay a stream like a bad network: delay, lose, reorder, duplicate",
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
                    .map_err(|error| Failure::running(format!("agent: {error}")))
            }
            Self::All(flags) => all::run(flags),
            Self::Align(flags) => align::run(flags),
            Self::Delay(flags) => delay::run(flags),
            Self::Play(flags) => delay::play(flags),
            Self::Hear(flags) => delay::handle(flags),
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
