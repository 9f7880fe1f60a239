//! Changes of a stream while it is sent and received, as people ask for them.

use tautline_dsp::format::SampleFormat;
use tautline_proto::latency::LatencyRule;
use tautline_proto::redundancy::Redundancy;
use tautline_proto::sending::SendRefused;
use tautline_proto::time::{Frames, Span};

use super::{SimReceiver, World};

/// What may change in the middle of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Packet(Frames),
    /// Coding of samples: L24 or float, in which each frame has a value of its own.
    Sample(SampleFormat),
    /// Bits per second of what stands for Opus.
    Bitrate(u32),
    /// What packets carry of earlier ones.
    Redundancy(Redundancy),
    /// The link offset of every receiver.
    Latency(Span),
}

impl World {
    /// Asks for a change now. Refused is what the sender's policy refuses.
    ///
    /// # Panics
    /// If a receiver's policy refuses a latency.
    pub fn change(&mut self, change: Change) -> Result<(), SendRefused> {
        if let Change::Latency(latency) = change {
            for SimReceiver { ordinary, receiver, .. } in &mut self.listeners {
                ordinary.choose(LatencyRule::Chosen(latency), receiver);
            }
        }
        let (rate, coding) = (self.scenario.format.rate, self.scenario.format.coding());
        let changed = self.by_policy(|policy, context| match change {
            Change::Packet(packet) => policy.set_ptime(rate.span_of(packet), context),
            Change::Sample(sample) => policy.set_coding(sample.into(), context),
            Change::Bitrate(bitrate) => policy.set_coding(coding.at_bitrate(bitrate), context),
            Change::Redundancy(asked) => policy.set_redundancy(asked),
            Change::Latency(latency) => policy.set_latency(LatencyRule::Chosen(latency), context),
        });
        self.scenario.format = self.policy.format();
        self.decide();
        changed
    }
}
