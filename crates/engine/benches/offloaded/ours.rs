//! Plugins on other hosts, as used by a plugin host.

use std::net::SocketAddr;

use tautline_engine::offload::attendant::Attendant;
use tautline_engine::offload::host_block::HostBlock;
use tautline_engine::offload::offloaded::{Far, Offloaded, OffloadedConfig, Which};
use tautline_engine::offload::sound_set::SoundSet;
use tautline_io::clock::now;
use tautline_io::link::Link;
use tautline_io::link::direct::DirectLink;
use tautline_io::link::threaded::{ThreadedLink, WireOptions};
use tautline_io::thread::Scheduler;
use tautline_io::udp::UdpOptions;
use tautline_proto::time::Span;
use tautline_proto::units::Rate;

use crate::{CHANNELS, CONTROLS, FRAMES};

pub(crate) const STREAM: u32 = 1;
pub(crate) const SET: SoundSet = SoundSet {
    inputs: CHANNELS,
    outputs: CHANNELS,
    controls_in: CONTROLS,
    controls_out: CONTROLS,
    max_frames: 4096,
    onward: 0,
    earlier: 0,
};

#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Direct,
    ThreadedLink,
}

pub(crate) struct Ours {
    plugins: Vec<(Offloaded, Attendant)>,
    block: Block,
}

impl Ours {
    pub(crate) fn open(workers: &[SocketAddr], kind: Kind) -> Self {
        let plugin = |worker: &SocketAddr| {
            let config = OffloadedConfig::new(SET, Rate::new(96_000).unwrap(), 1);
            let (mut plugin, attendant) = Offloaded::new(config).unwrap();
            let link = DirectLink::open(&UdpOptions::sender(vec![*worker])).unwrap();
            let link: Box<dyn Link> = match kind {
                Kind::Direct => Box::new(link),
                Kind::ThreadedLink => {
                    let wire = WireOptions::below(Scheduler::Fifo(70), 256);
                    Box::new(ThreadedLink::start(link, wire).unwrap())
                }
            };
            assert!(plugin.attach(Which::Worker, Far::new(link, STREAM)).is_none());
            (plugin, attendant)
        };
        let plugins = workers.iter().map(plugin).collect();
        Self { plugins, block: Block { samples: [[0.25; FRAMES]; CHANNELS] } }
    }

    pub(crate) fn period(&mut self) {
        for (plugin, _) in &mut self.plugins {
            plugin.run(&mut self.block, now());
        }
    }

    pub(crate) fn forget(&mut self) {
        for (_, attendant) in &mut self.plugins {
            while attendant.take_slack().is_some() {}
        }
    }

    pub(crate) fn late(&mut self) -> usize {
        let slack = |attendant: &mut Attendant| {
            let all = std::iter::from_fn(|| attendant.take_slack());
            all.filter(|slack| slack.left.is_none_or(|left| left < Span::ZERO)).count()
        };
        self.plugins.iter_mut().map(|(_, attendant)| slack(attendant)).sum()
    }
}

struct Block {
    samples: [[f32; FRAMES]; CHANNELS],
}

impl HostBlock for Block {
    fn frames(&self) -> usize {
        FRAMES
    }

    fn input(&mut self, channel: usize, from: usize, samples: &mut [f32]) {
        samples.copy_from_slice(&self.samples[channel][from..from + samples.len()]);
    }

    fn control(&mut self, index: usize) -> f32 {
        index as f32
    }

    fn output(&mut self, channel: usize, from: usize, samples: &[f32]) {
        self.samples[channel][from..from + samples.len()].copy_from_slice(samples);
    }

    fn control_out(&mut self, _: usize, value: f32) {
        std::hint::black_box(value);
    }
}
