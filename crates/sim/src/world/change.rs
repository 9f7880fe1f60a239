//! Changes of a stream while it is sent and received, as people ask for them.

use tautline_dsp::format::SampleFormat;
use tautline_proto::redundancy::Redundancy;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, Span};

use super::World;

/// What may change in the middle of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Frames per packet.
    Packet(Frames),
    /// Coding of samples: L24 or float, in which each frame has a value of its own.
    Sample(SampleFormat),
    /// What packets carry of earlier ones.
    Redundancy(Redundancy),
    /// The link offset of every receiver.
    Latency(Span),
}

impl World {
    /// Makes a change now.
    ///
    /// # Panics
    /// If no packet can be as is asked for.
    pub fn change(&mut self, change: Change) {
        match change {
            Change::Packet(packet) => {
                assert!(self.sender.set_packet(packet), "{change:?}");
                self.scenario.format.packet = packet;
            }
            Change::Sample(sample) => {
                let payload_type = StreamFormat::default_payload_type(sample);
                assert!(self.sender.set_sample(sample, payload_type), "{change:?}");
                let format = self.scenario.format;
                self.scenario.format = StreamFormat { sample, payload_type, ..format };
            }
            Change::Redundancy(asked) => {
                let bounds = self.regulator.bounds();
                self.regulator.set(asked, bounds);
            }
            Change::Latency(latency) => {
                self.scenario.latency = latency;
                for listener in &mut self.listeners {
                    listener.receiver.set_link_offset(latency);
                }
            }
        }
        self.regulate();
        self.set_sending();
    }
}
