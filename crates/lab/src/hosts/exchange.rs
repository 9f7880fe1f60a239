//! How a host's clock stands, asked of its agent.

use std::io::{BufRead, BufReader, Read};

use tautline_io::clock::now;
use tautline_proto::clock::Exchange;
use tautline_proto::time::{Span, WallTime};

use super::agent::clock;
use super::offset::OffsetBounds;
use super::timeline::{HostTimeline, have_one_name};
use super::words::{AgentAnswer, AgentAsk};
use super::{HostError, LabHost};

/// Instants are told in whole nanoseconds.
const READING_ERROR: Span = Span::from_nanos(1);

const CHECKS: usize = 8;

impl LabHost {
    /// Its clock as it is read here: by exchanges that are still to come, unless it is the one here.
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

    /// Whether both read one monotonic clock: they are one machine, and in one time namespace.
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
        let asked = now();
        let (received_ns, answered_ns) = match self.ask(AgentAsk::Clock)? {
            AgentAnswer::Clock { received_ns, answered_ns } => (received_ns, answered_ns),
            other => return Err(self.confused(&other)),
        };
        let answered = now();
        Ok(Exchange {
            asked,
            peer_received: WallTime::from_unix_nanos(received_ns),
            peer_answered: WallTime::from_unix_nanos(answered_ns),
            answered,
            reading_error: READING_ERROR,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BoundedLine {
    Whole(String),
    TooLong,
}

/// Each line, without its end; what is no text is made some. Ends with what is read, or at a line of more
/// bytes than these.
pub(crate) fn lines_within(from: impl Read, most: usize) -> impl Iterator<Item = BoundedLine> {
    let mut from = BufReader::new(from);
    let mut over = false;
    core::iter::from_fn(move || {
        if over {
            return None;
        }
        let mut line = Vec::new();
        let read = from.by_ref().take(most as u64 + 1).read_until(b'\n', &mut line).ok()?;
        if line.pop_if(|last| *last == b'\n').is_none() && read > most {
            over = true;
            return Some(BoundedLine::TooLong);
        }
        (read > 0).then(|| BoundedLine::Whole(String::from_utf8_lossy(&line).into_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_told_and_nothing_follows() {
        let whole = |text: &str| BoundedLine::Whole(text.into());
        let all = |text: &str| lines_within(text.as_bytes(), 4).collect::<Vec<_>>();
        assert_eq!(all("one\n\nfour\nend"), [whole("one"), whole(""), whole("four"), whole("end")]);
        assert_eq!(all("one\ntoo long\nend"), [whole("one"), BoundedLine::TooLong]);
        let endless = lines_within(std::io::repeat(b'x'), 1 << 20).collect::<Vec<_>>();
        assert_eq!(endless, [BoundedLine::TooLong]);
    }
}
