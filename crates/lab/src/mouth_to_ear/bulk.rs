//! A bulk TCP flow parallel to a call's sound.
//!
//! The call's cost is the flow's lost throughput, compared with running alone.

use core::time::Duration;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tautline_proto::time::Span;

use super::try_call::{StartedTaut, start};
use super::{CallHosts, MouthToEarFlags};
use crate::hosts::{ChildState, HostError, HostPlace};
use crate::loadgen::{LoadKind, LoadgenReport};
use crate::report::ReportRow;
use crate::streams::TRIES;

pub const BULK: &str = "bulk_mbit_per_s";
pub(super) const ALONE: &str = "bulk TCP alone";
/// Time within which a sink ends whose port is taken.
const BOUND: Duration = Duration::from_millis(300);
const WRITING: Duration = Duration::from_secs(20);
const BEYOND: Span = Span::from_secs(60);

impl CallHosts {
    pub(super) fn called_at(&mut self, options: &MouthToEarFlags) -> Result<IpAddr, HostError> {
        match options.at {
            Some(address) => Ok(address),
            // A host that calls itself needs no trusted peer.
            None if *self.far.place() == HostPlace::Local => Ok(Ipv4Addr::LOCALHOST.into()),
            None => Ok(self.far.reached_from(&mut self.near, 1)?.0),
        }
    }

    pub(super) fn start_bulk(
        &mut self,
        options: &MouthToEarFlags,
        longest: Span,
        [near_ones, far_ones]: [&mut Vec<StartedTaut>; 2],
    ) -> Result<[StartedTaut; 2], HostError> {
        let words = |burden: &LoadKind| {
            let longest = (longest + BEYOND).to_string();
            let words = ["lab", "loadgen", "--longest", &longest].map(str::to_owned);
            words.into_iter().chain(burden.words()).collect::<Vec<_>>()
        };
        let address = self.called_at(options)?;
        for _ in 0..TRIES {
            let to = SocketAddr::new(address, self.far.ports(1)?);
            let sink = start(
                &mut self.far,
                &words(&LoadKind::TcpSink { at: to }),
                "lab loadgen tcp-sink",
            )?;
            far_ones.push(sink);
            if matches!(self.far.wait(sink.child, BOUND)?, ChildState::Ended(_)) {
                continue;
            }
            let burden = LoadKind::Tcp { to, rate: None };
            let source = start(&mut self.near, &words(&burden), "lab loadgen tcp")?;
            near_ones.push(source);
            return Ok([source, sink]);
        }
        Err(self.far.refused("no free port for a bulk TCP flow"))
    }

    /// Mbit/s read since the first byte, without headers.
    pub(super) fn end_bulk(&mut self, [source, sink]: [StartedTaut; 2]) -> Result<f64, HostError> {
        // Stop the sink first: data in flight after the source's end does not count.
        let read: LoadgenReport = self.far.said_by(sink.child, sink.role, WRITING)?;
        self.near.said_by::<LoadgenReport>(source.child, source.role, WRITING).ok();
        Ok(read.megabits())
    }

    pub(super) fn bulk_alone(&mut self, options: &MouthToEarFlags) -> Result<ReportRow, HostError> {
        let mut started = [Vec::new(), Vec::new()];
        let [near_ones, far_ones] = &mut started;
        let lasts = options.settle + options.duration;
        let flow = self.start_bulk(options, lasts, [near_ones, far_ones]);
        let carried = flow.and_then(|flow| {
            self.rest(lasts)?;
            self.end_bulk(flow)
        });
        self.end_all(&started);
        let mut row = ReportRow::named(ALONE);
        notify(carried?, &mut row);
        Ok(row)
    }
}

pub(super) fn notify(megabits: f64, row: &mut ReportRow) {
    row.add(BULK, "bulk TCP, Mbit/s", (megabits * 100.0).round() / 100.0);
}
