//! How a host's clock stands, asked of its agent.

use tautline_io::clock::now;
use tautline_proto::clock::{Exchange, WallTime};
use tautline_proto::time::Span;

use super::agent::clock;
use super::timeline::HostTimeline;
use super::words::{AgentAnswer, AgentAsk};
use super::{HostError, LabHost};

/// Instants are told in whole nanoseconds.
const READING_ERROR: Span = Span::from_nanos(1);

impl LabHost {
    /// Its clock as it is read here: by exchanges that are still to come, unless it is the one here.
    pub(crate) fn timeline(&self) -> HostTimeline {
        match self.hello.clock.is_some() && self.hello.clock == clock() {
            true => HostTimeline::Same,
            false => HostTimeline::Exchanged(Box::default()),
        }
    }

    /// Asks for the host's clock once, if `timeline` needs that.
    pub(crate) fn exchange(&mut self, timeline: &mut HostTimeline) -> Result<(), HostError> {
        if matches!(timeline, HostTimeline::Same) {
            return Ok(());
        }
        let asked = now();
        let (received_ns, answered_ns) = match self.ask(AgentAsk::Clock)? {
            AgentAnswer::Clock { received_ns, answered_ns } => (received_ns, answered_ns),
            other => return Err(self.confused(&other)),
        };
        let answered = now();
        timeline.observe(Exchange {
            asked,
            peer_received: WallTime::from_unix_nanos(received_ns),
            peer_answered: WallTime::from_unix_nanos(answered_ns),
            answered,
            reading_error: READING_ERROR,
        });
        Ok(())
    }
}
