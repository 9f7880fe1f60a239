//! Changes of a stream while it is sent and received, as people ask for them.

use tautline_dsp::format::SampleFormat;
use tautline_proto::latency::LatencyRule;
use tautline_proto::policy::Context;
use tautline_proto::redundancy::Redundancy;
use tautline_proto::sending::SendRefused;
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
    /// Asks for a change now. Refused is what the sender's policy refuses.
    ///
    /// # Panics
    /// If a receiver's policy refuses a latency.
    pub fn change(&mut self, change: Change) -> Result<(), SendRefused> {
        let now = self.host.local(self.now);
        let Self { policy, sender, host, scenario, .. } = self;
        let mut context = Context {
            now,
            session: scenario.reports.then_some(&mut host.session),
            command: &mut |command| {
                sender.obey(command);
                true
            },
        };
        let changed = match change {
            Change::Packet(packet) => {
                policy.set_ptime(scenario.format.rate.span_of(packet), &mut context)
            }
            Change::Sample(sample) => policy.set_sample(sample, &mut context),
            Change::Redundancy(asked) => policy.set_redundancy(asked),
            Change::Latency(latency) => {
                let chosen = LatencyRule::Chosen(latency);
                for listener in &mut self.listeners {
                    listener.choose(chosen);
                }
                policy.set_latency(chosen, &mut context)
            }
        };
        scenario.format = policy.format();
        self.decide();
        changed
    }
}
