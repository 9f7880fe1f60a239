//! One instance of a plugin, as the host has it.

use tautline_host::ladspa::abi::Data;

use crate::block::Ports;
use crate::ports::Connections;
use crate::shelf::Offer;

/// What a run does with what is in the outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Run {
    Replacing,
    Adding,
}

/// An instance, from `instantiate` to `cleanup`.
pub(crate) struct Instance {
    connections: Connections,
    usual: Vec<f32>,
    gain: Data,
}

impl Instance {
    pub(crate) fn new(offer: &'static Offer, rate: u32) -> Self {
        Self {
            connections: Connections::new(&offer.ports),
            usual: offer.ports.usual.iter().map(|hint| hint.first_value(rate)).collect(),
            gain: 1.0,
        }
    }
    pub(crate) fn set_broken(&mut self) {}
    pub(crate) fn is_ours(&self) -> bool {
        true
    }
    pub(crate) fn connect(&mut self, port: usize, place: *mut Data) {
        self.connections.connect(port, place);
    }
    pub(crate) fn set_gain(&mut self, gain: Data) {
        self.gain = gain;
    }
    pub(crate) fn activate(&mut self) {}
    pub(crate) fn deactivate(&mut self) {}
    pub(crate) fn end(&mut self) {}
    pub(crate) fn run(&mut self, frames: usize, run: Run) {
        let gain = (run == Run::Adding).then_some(self.gain);
        // SAFETY: by the header.
        let mut ports = unsafe { Ports::new(&self.connections, frames, gain, &self.usual, None) };
        ports.pass_on();
    }
}
