use tautline_io::clock::now;
use tautline_proto::clock::Exchange;
use tautline_proto::time::{Span, WallTime};

use super::agent::clock;
use super::offset::OffsetBounds;
use super::timeline::{HostTimeline, have_one_name};
use super::words::{AgentAnswer, AgentAsk};
use super::{HostError, LabHost};

/// Error of clock readings, which are whole nanoseconds.
const READING_ERROR: Span = Span::from_nanos(1);

const CHECKS: usize = 8;

impl LabHost {
    /// Timeline of the host: from future exchanges, unless it has this host's clock.
    pub(crate) fn timeline(&mut self) -> Result<HostTimeline, HostError> {
        let is_named_so = have_one_name(self.hello.clock.as_deref(), clock().as_deref());
        Ok(
            match is_named_so
                && self.offset()?.is_some_and(|offset| offset.meets(&OffsetBounds::HERE))
            {
                true => HostTimeline::Same,
                false => HostTimeline::Exchanged(Box::default()),
            },
        )
    }

    /// Same machine and time namespace.
    pub(crate) fn shares_clock(&mut self, other: &mut Self) -> Result<bool, HostError> {
        if !have_one_name(self.hello.clock.as_deref(), other.hello.clock.as_deref()) {
            return Ok(false);
        }
        let offsets = self.offset()?.zip(other.offset()?);
        Ok(offsets.is_some_and(|(one, other)| one.meets(&other)))
    }

    fn offset(&mut self) -> Result<Option<OffsetBounds>, HostError> {
        let exchanges: Result<Vec<_>, _> = (0..CHECKS).map(|_| self.ask_clock()).collect();
        exchanges.map(|exchanges| OffsetBounds::of(&exchanges))
    }

    pub(crate) fn exchange(&mut self, timeline: &mut HostTimeline) -> Result<(), HostError> {
        if matches!(timeline, HostTimeline::Same) {
            return Ok(());
        }
        timeline.observe(self.ask_clock()?);
        Ok(())
    }

    fn ask_clock(&mut self) -> Result<Exchange, HostError> {
        let requested = now();
        let (received_ns, answered_ns) = match self.request(AgentAsk::Clock)? {
            AgentAnswer::Clock { received_ns, answered_ns } => (received_ns, answered_ns),
            other => return Err(self.confused(&other)),
        };
        let answered = now();
        Ok(Exchange {
            requested,
            peer_received: WallTime::from_unix_nanos(received_ns),
            peer_answered: WallTime::from_unix_nanos(answered_ns),
            answered,
            reading_error: READING_ERROR,
        })
    }
}
