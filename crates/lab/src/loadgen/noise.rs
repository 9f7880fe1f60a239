//! Network loads around a stream, at both ends.

use core::fmt;
use core::str::FromStr;
use std::net::SocketAddr;

use super::running::{LoadSide, RunningBurdens, among};
use super::{CHATTER_RATE, LoadKind, LoadgenReport, MULTICAST_RATE};
use crate::hosts::HostError;
use crate::impair::BitRate;
use crate::report::ReportRow;
use crate::streams::{LabStream, StreamEnds, StreamOutcome};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Noise {
    pub multicast: bool,
    pub chatter: bool,
    pub tcp: Option<TcpRate>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TcpRate {
    Full,
    Most(BitRate),
}

impl Noise {
    pub const SILENT: Self = Self { multicast: false, chatter: false, tcp: None };
    /// As in the thesis: both kinds of packets, without bulk.
    pub const NOISY: Self = Self { multicast: true, chatter: true, tcp: None };
    pub const UNHANDLED: Self = Self { chatter: false, ..Self::NOISY };

    #[must_use]
    pub fn with_tcp(self, rate: Option<TcpRate>) -> Self {
        Self { tcp: self.tcp.and(rate.or(self.tcp)), ..self }
    }

    /// Silence gets no TCP.
    #[must_use]
    pub fn and_tcp(self, rate: Option<TcpRate>) -> Self {
        if self == Self::SILENT { self } else { Self { tcp: rate.or(self.tcp), ..self } }
    }
}

impl FromStr for Noise {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "silent" => Ok(Self::SILENT),
            "noisy" => Ok(Self::NOISY),
            "unhandled" => Ok(Self::UNHANDLED),
            _ => Err(format!("invalid noise '{text}': must be silent, noisy or unhandled")),
        }
    }
}

impl FromStr for TcpRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "full" => Ok(Self::Full),
            _ => text.parse().map(Self::Most).map_err(|error| format!("{error}, or full")),
        }
    }
}

impl fmt::Display for Noise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            (self.multicast, "unhandled multicast"),
            (self.chatter, "handled chatter"),
            (self.tcp.is_some(), "bulk TCP"),
        ];
        let words: Vec<_> = all.iter().filter(|(is, _)| *is).map(|(_, words)| *words).collect();
        match words.len() {
            0 => f.write_str("silent"),
            3 => f.write_str("all at once"),
            _ => f.write_str(&words.join(" and ")),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Alongside {
    pub reports: Vec<LoadgenReport>,
}

impl Alongside {
    fn of(&self, kind: &str) -> Option<&LoadgenReport> {
        self.reports.iter().find(|report| report.kind == kind)
    }

    pub fn notify(&self, row: &mut ReportRow) {
        if let Some(sent) = self.of("multicast") {
            row.add("multicast_mbit_per_s", "multicast, Mbit/s", sent.megabits());
            let per_second = sent.per_second(sent.packets);
            row.add("multicast_per_s", "multicast, packets/s", per_second);
        }
        if let (Some(sent), Some(read)) = (self.of("chatter"), self.of("chatter-sink")) {
            row.add("chatter_mbit_per_s", "chatter, Mbit/s", sent.megabits());
            row.add("chatter_per_s", "chatter, packets/s", sent.per_second(sent.packets));
            let share = read.understood as f64 / sent.packets.max(1) as f64;
            row.add("chatter_handled_share", "of it handled", share);
        }
        if let Some(read) = self.of("tcp-sink") {
            row.add("tcp_mbit_per_s", "TCP, Mbit/s", read.megabits());
        }
    }
}

impl Noise {
    pub fn around(
        self,
        ends: &mut StreamEnds,
        plan: &LabStream,
    ) -> Result<(StreamOutcome, Alongside), HostError> {
        let start =
            |running: &mut RunningBurdens, ends: &mut StreamEnds| self.start(running, ends, plan);
        let (outcome, reports) = among(ends, plan, start, |ends, ()| ends.run(plan))?;
        Ok((outcome, Alongside { reports }))
    }

    fn start(
        self,
        running: &mut RunningBurdens,
        ends: &mut StreamEnds,
        plan: &LabStream,
    ) -> Result<(), HostError> {
        if self.multicast {
            let by = SocketAddr::from(ends.reached(plan.at, 1)?);
            let burden = LoadKind::Multicast { by, rate: MULTICAST_RATE };
            running.start(ends, LoadSide::Sender, &burden, None)?;
        }
        if self.chatter {
            let to = running.sink(ends, plan, |at| LoadKind::ChatterSink { at })?;
            let burden = LoadKind::Chatter { to, rate: CHATTER_RATE };
            running.start(ends, LoadSide::Sender, &burden, None)?;
        }
        if let Some(rate) = self.tcp {
            let to = running.sink(ends, plan, |at| LoadKind::TcpSink { at })?;
            let rate = match rate {
                TcpRate::Full => None,
                TcpRate::Most(rate) => Some(rate),
            };
            running.start(ends, LoadSide::Sender, &LoadKind::Tcp { to, rate }, None)?;
        }
        Ok(())
    }
}
