//! Loads at a stream's hosts during a measurement.

use std::net::SocketAddr;
use std::time::Duration;

use tautline_io::udp::any;
use tautline_proto::time::Span;

use super::{LoadKind, LoadgenReport};
use crate::hosts::{ChildEnded, ChildLimits, ChildState, HostError, LabHost};
use crate::streams::{LabStream, StreamEnds, TRIES};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoadSide {
    Sender,
    Receiver,
}

/// In start order: readers before senders.
pub(crate) struct RunningBurdens {
    children: Vec<(LoadSide, u32, &'static str)>,
    longest: Span,
}

/// Time after the stream at which loads end by themselves.
const BEYOND: Span = Span::from_secs(60);
/// Time within which a failing load ends, and a sink whose port is taken.
const BOUND: Duration = Duration::from_millis(300);
const WRITING: Duration = Duration::from_secs(10);

/// An early end of a load is an error: a quiet row would look loaded.
pub(crate) fn among<S, T>(
    ends: &mut StreamEnds,
    plan: &LabStream,
    start: impl FnOnce(&mut RunningBurdens, &mut StreamEnds) -> Result<S, HostError>,
    run: impl FnOnce(&mut StreamEnds, S) -> Result<T, HostError>,
) -> Result<(T, Vec<LoadgenReport>), HostError> {
    let mut running =
        RunningBurdens { children: Vec::new(), longest: plan.settle + plan.duration + BEYOND };
    let done = start(&mut running, ends).and_then(|started| run(ends, started));
    // All loads must be ended on errors too.
    let reports = running.end(ends);
    Ok((done?, reports?))
}

impl LoadSide {
    fn of(self, ends: &mut StreamEnds) -> &mut LabHost {
        match self {
            Self::Sender => &mut ends.sender,
            Self::Receiver => &mut ends.receiver,
        }
    }
}

impl RunningBurdens {
    pub(crate) fn start(
        &mut self,
        ends: &mut StreamEnds,
        side: LoadSide,
        burden: &LoadKind,
        limits: Option<ChildLimits>,
    ) -> Result<u32, HostError> {
        let mut words: Vec<String> = ["lab", "loadgen"].map(str::to_owned).into();
        words.extend(["--longest".to_owned(), self.longest.to_string()]);
        words.extend(burden.words());
        let child = side.of(ends).start_within(&words, &[], limits)?;
        self.children.push((side, child, burden.kind()));
        Ok(child)
    }

    pub(crate) fn start_surely(
        &mut self,
        ends: &mut StreamEnds,
        side: LoadSide,
        burden: &LoadKind,
    ) -> Result<(), HostError> {
        let child = self.start(ends, side, burden, None)?;
        let host = side.of(ends);
        match host.wait(child, BOUND)? {
            ChildState::Running => Ok(()),
            ChildState::Ended(ended) => {
                self.children.pop();
                Err(failed(host, burden.kind(), ended))
            }
        }
    }

    pub(crate) fn sink(
        &mut self,
        ends: &mut StreamEnds,
        plan: &LabStream,
        burden: impl Fn(SocketAddr) -> LoadKind,
    ) -> Result<SocketAddr, HostError> {
        let mut tried = 0;
        loop {
            let (address, port) = ends.reached(plan.at, 1)?;
            let any = any(address.is_ipv6());
            tried += 1;
            match self.start_surely(ends, LoadSide::Receiver, &burden((any, port).into())) {
                Ok(()) => return Ok((address, port).into()),
                Err(HostError::Refused { .. }) if tried < TRIES => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn end(self, ends: &mut StreamEnds) -> Result<Vec<LoadgenReport>, HostError> {
        let each = self.children.into_iter().rev();
        let reports: Vec<_> =
            each.map(|(side, child, kind)| end(side.of(ends), child, kind)).collect();
        reports.into_iter().collect()
    }
}

fn end(host: &mut LabHost, child: u32, kind: &str) -> Result<LoadgenReport, HostError> {
    if let ChildState::Ended(ended) = host.wait(child, Duration::ZERO)? {
        return Err(failed(host, kind, ended));
    }
    host.said_by(child, &role(kind), WRITING)
}

fn failed(host: &LabHost, kind: &str, ended: ChildEnded) -> HostError {
    host.failed(&role(kind), ended)
}

fn role(kind: &str) -> String {
    format!("lab loadgen {kind}")
}
