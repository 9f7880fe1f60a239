//! A bulk TCP flow beside a call, as a download would be: from the mouth's host to the ear's, the way of the sound.
//!
//! What the call costs other traffic is what such a flow carries less beside it than alone, and what other traffic costs
//! the call is in the call's own row.

use core::time::Duration;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tautline_proto::time::Span;

use super::try_call::{StartedTaut, start};
use super::{CallHosts, MouthToEarFlags};
use crate::loadgen::{Burden, BurdenReport};
use crate::hosts::{ChildState, HostError, HostPlace};
use crate::report::ReportRow;
use crate::streams::TRIES;

pub const BULK: &str = "bulk_mbit_per_s";
/// Of the row in which it has the network for itself.
pub(super) const ALONE: &str = "bulk TCP alone";
/// A sink whose port is another's has ended by then.
const BOUND: Duration = Duration::from_millis(300);
/// Each end of the flow writes what it carried within.
const WRITING: Duration = Duration::from_secs(20);
/// What it goes on for by itself, beyond a call.
const BEYOND: Span = Span::from_secs(60);

impl CallHosts {
    pub(super) fn called_at(&mut self, options: &MouthToEarFlags) -> Result<IpAddr, HostError> {
        match options.at {
            Some(address) => Ok(address),
            // A host that calls itself needs to trust nobody there.
            None if *self.far.place() == HostPlace::Local => Ok(Ipv4Addr::LOCALHOST.into()),
            None => Ok(self.far.reached_from(&mut self.near, 1)?.0),
        }
    }

    /// Starts a flow, its source and its sink, which ends by itself some time after so long; both are among the started.
    pub(super) fn start_bulk(
        &mut self,
        options: &MouthToEarFlags,
        longest: Span,
        [near_ones, far_ones]: [&mut Vec<StartedTaut>; 2],
    ) -> Result<[StartedTaut; 2], HostError> {
        let words = |burden: &Burden| {
            let longest = (longest + BEYOND).to_string();
            let words = ["lab", "loadgen", "--longest", &longest].map(str::to_owned);
            words.into_iter().chain(burden.words()).collect::<Vec<_>>()
        };
        let address = self.called_at(options)?;
        for _ in 0..TRIES {
            let to = SocketAddr::new(address, self.far.ports(1)?);
            let sink =
                start(&mut self.far, &words(&Burden::TcpSink { at: to }), "lab loadgen tcp-sink")?;
            far_ones.push(sink);
            if matches!(self.far.wait(sink.child, BOUND)?, ChildState::Ended(_)) {
                continue;
            }
            let burden = Burden::Tcp { to, rate: None };
            let source = start(&mut self.near, &words(&burden), "lab loadgen tcp")?;
            near_ones.push(source);
            return Ok([source, sink]);
        }
        Err(self.far.refused("no port was free for a bulk TCP flow"))
    }

    /// Returns what it carried: Mbit/s that the sink read, without headers and what was sent again, from the first byte on.
    pub(super) fn end_bulk(&mut self, [source, sink]: [StartedTaut; 2]) -> Result<f64, HostError> {
        // The sink first: what is still under way when its source has gone is no part of the time.
        let read: BurdenReport = self.far.said_by(sink.child, sink.role, WRITING)?;
        // Its source may find that gone before it is asked to end.
        self.near.said_by::<BurdenReport>(source.child, source.role, WRITING).ok();
        Ok(read.megabits())
    }

    /// A flow with nothing beside it, for as long as a call sounds.
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
        tell(carried?, &mut row);
        Ok(row)
    }
}

pub(super) fn tell(megabits: f64, row: &mut ReportRow) {
    row.add(BULK, "bulk TCP, Mbit/s", (megabits * 100.0).round() / 100.0);
}
