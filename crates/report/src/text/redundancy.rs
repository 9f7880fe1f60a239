//! Text about redundancy and repaired packets.

use core::fmt::{self, Write};

use super::Nanos;
use super::arrivals::WORTH_TELLING;
use super::call::is_tcp;
use crate::{Counters, GapReport, RedundancyReport, RepairReport, Report, StreamReport};

/// A call, for fixes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Call {
    /// Whether redundancy is sent as soon as it is needed.
    pub(super) redundant: bool,
}

impl Call {
    pub(super) fn of(reports: &[Report]) -> Self {
        let mut streams = reports.iter().flat_map(|report| &report.streams);
        Self { redundant: streams.any(|stream| stream.redundancy.is_some()) }
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Repairs {
    repaired: u64,
    lost: u64,
    repair: Option<RepairReport>,
    configured_ns: i64,
    /// Whether the latency is automatic.
    auto: bool,
    call: Option<Call>,
    tcp: bool,
    /// Whether the packets are of a codec with few bits.
    coded: bool,
    /// Received and lost packets.
    packets: u64,
}

/// Half a percent: concealment hides single losses.
const FEW: u64 = 200;
/// A fifth, as for the note during the stream: the network carries less than the stream needs.
pub(super) const MANY: u64 = 5;
/// A full queue loses 2 % of a stream with slightly too many bits, and delays the rest.
const QUEUED: u64 = 50;

/// Whether a format has few bits.
pub(super) fn is_coded(format: &str) -> bool {
    ["opus", "lossless"].iter().any(|codec| format.starts_with(codec))
}

/// Fix for a network that carries less than a call needs.
pub(super) const FEWER_BITS: &str =
    "use --format auto, or a cable (the network carries less than the call needs)";
const FEWER_BITS_OF_SENDER: &str =
    "use --format opus at the sender, or a cable (the network carries less than the stream needs)";

impl Repairs {
    pub(super) fn of(stream: &StreamReport, call: Option<Call>) -> Self {
        let Counters { repaired, lost, received, .. } = stream.counters;
        Self {
            repaired,
            lost,
            repair: stream.repair,
            configured_ns: stream.latency.configured_ns.unwrap_or(0),
            auto: stream.latency.auto.is_some(),
            call,
            tcp: is_tcp(stream),
            coded: is_coded(&stream.format),
            packets: received.saturating_add(lost),
        }
    }

    /// Fix if the network loses many packets outside outages: neither latency nor redundancy helps
    /// a slow line.
    pub(super) fn fewer_bits(&self, gaps: &GapReport) -> Option<&'static str> {
        let fix = if self.call.is_some() { FEWER_BITS } else { FEWER_BITS_OF_SENDER };
        self.loses_more(gaps, MANY).then_some(fix)
    }

    /// Another fix for late packets, if a full queue may delay them.
    pub(super) fn fewer_bits_in_queue(&self, gaps: &GapReport) -> Option<&'static str> {
        let fix = match self.call {
            Some(_) => "--format auto (fewer bits)",
            None => "--format opus at the sender (fewer bits)",
        };
        self.loses_more(gaps, QUEUED).then_some(fix)
    }

    /// Whether more than this part of uncompressed packets is lost outside outages.
    fn loses_more(&self, gaps: &GapReport, part: u64) -> bool {
        let lost = gaps.lost.saturating_sub(gaps.lost_in_outages);
        !self.coded && self.packets >= WORTH_TELLING && lost > self.packets / part
    }

    #[cfg(test)]
    pub(super) fn short(needs_ns: i64, configured_ns: i64) -> Self {
        let repair = Some(RepairReport { window_ns: 16_000_000, needs_ns });
        Self { repaired: 7, lost: 2, repair, configured_ns, ..Self::default() }
    }

    /// Latency that would suffice, if it exceeds the configured one.
    fn needs(&self) -> Option<Nanos> {
        let needs = self.repair.map(|repair| repair.needs_ns);
        needs.filter(|needs| *needs > self.configured_ns).map(Nanos)
    }

    /// Latency that would have repaired the rest, if it exceeds the configured one.
    pub(super) fn unrepaired_need_ns(&self) -> Option<i64> {
        self.needs().map(|needs| needs.0).filter(|_| self.lost > 0)
    }

    pub(super) fn notify(&self, out: &mut String) -> fmt::Result {
        if self.repaired == 0 && self.repair.is_none() {
            return Ok(());
        }
        write!(out, "redundancy: {} repaired and {} not", self.repaired, self.lost)?;
        if let Some(RepairReport { window_ns, .. }) = self.repair {
            write!(out, ", within {} of their departure", Nanos(window_ns))?;
        }
        if let Some(needs) = self.needs() {
            write!(out, "; full repair needs {needs} of latency")?;
        }
        writeln!(out)
    }

    /// Fix for `lost` packets. `None` if each fix would harm more.
    pub(super) fn hint(&self, lost: u64) -> Option<String> {
        if let Some(needs) = self.needs() {
            let configured = Nanos(self.configured_ns);
            return Some(format!(
                "use --latency {needs}: {configured} has no time for all repairs"
            ));
        }
        let fix = match self.call {
            Some(call) => self.hint_in_call(call, lost)?,
            None if self.tcp && self.coded => LESS_TRAFFIC,
            None if self.tcp => FEWER_BITS_OF_SENDER,
            None if self.repair.is_none() && self.repaired == 0 => {
                "use --redundancy auto at the sender"
            }
            None => {
                "use a longer --redundancy-budget and --latency, or --redundancy fec:N with more \
                 symbols, at the sender"
            }
        };
        Some(fix.to_owned())
    }

    fn hint_in_call(&self, call: Call, lost: u64) -> Option<&'static str> {
        match self {
            Self { tcp: false, .. } if !call.redundant => {
                Some("use --redundancy auto (repairs losses)")
            }
            Self { packets, .. } if lost <= packets / FEW => None,
            // A connection that carries too little loses what waits for too long.
            Self { tcp: true, coded: false, .. } => {
                Some("use --format auto (fewer bits), or a cable")
            }
            Self { tcp: true, .. } => Some(LESS_TRAFFIC),
            Self { auto: true, .. } => Some("use --redundancy fec:2 (more symbols), or a cable"),
            // By default, repairs begin after three seconds of losses.
            _ => Some("use --redundancy auto and --latency auto (time for repairs), or a cable"),
        }
    }
}

/// For losses that no option of a call prevents.
pub(super) const LESS_TRAFFIC: &str = "use a cable, or less other traffic";

pub(super) fn redundancy(
    out: &mut String,
    carried: &RedundancyReport,
    ptime_ns: i64,
) -> fmt::Result {
    let RedundancyReport { requested, budget_ns, symbols, window, repeated, bytes } = carried;
    write!(out, "redundancy: {requested} within {}: ", Nanos(*budget_ns))?;
    if *repeated {
        write!(out, "a copy of each packet, {window} packets later")?;
    } else if *symbols == 0 {
        return writeln!(out, "none sent");
    } else {
        let s = if *symbols == 1 { "" } else { "s" };
        write!(out, "{symbols} symbol{s} in each packet, of up to {window} packets before it")?;
    }
    let rate = *bytes as f64 * 8e6 / ptime_ns.max(1) as f64;
    writeln!(out, ", {bytes} more bytes per packet ({rate:.0} kbit/s)")
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::super::arrivals::{GapHints, recommendation};
    use super::*;
    use crate::GapReport;

    #[test]
    fn unrepaired_losses_need_latency_first_then_more_symbols() {
        let repairs = Repairs::short(20_000_000, 6_000_000);
        let reported = |repairs: Repairs| {
            let mut out = String::new();
            repairs.notify(&mut out).unwrap();
            let lost = GapReport { lost: 2, ..GapReport::default() };
            let hints = GapHints::unadvised(&repairs);
            recommendation(&mut out, Some(&lost), &hints, "fifo:70").unwrap();
            out
        };
        assert_eq!(
            reported(repairs),
            "redundancy: 7 repaired and 2 not, within 16.00ms of their departure; full repair \
             needs 20.00ms of latency\nfix: use --latency 20.00ms: 6.000ms has no time for all \
             repairs\n"
        );
        let ample = reported(Repairs { configured_ns: 20_000_000, ..repairs });
        assert!(ample.contains("use a longer --redundancy-budget"), "{ample}");
        assert!(!ample.contains("no time") && !ample.contains("no latency"), "{ample}");
        let ended = reported(Repairs { repair: None, ..repairs });
        assert!(ended.contains("use a longer --redundancy-budget"), "{ended}");
        assert_eq!(reported(Repairs::default()).lines().count(), 1);
        let fix = |repairs: Repairs| repairs.hint(repairs.lost);
        let call = |redundant| Repairs { call: Some(Call { redundant }), ..Repairs::default() };
        let off = call(false);
        let told =
            |fix: &Option<String>, option| fix.as_ref().is_some_and(|fix| fix.contains(option));
        assert!(told(&fix(off), "--redundancy auto"), "{:?}", fix(off));
        let lossy = |repairs| Repairs { packets: 10_000, lost: 51, ..repairs };
        let more = fix(lossy(call(true)));
        assert!(told(&more, "--latency auto") && !told(&more, "--format"), "{more:?}");
        let most = fix(lossy(Repairs { auto: true, ..call(true) }));
        assert!(told(&most, "fec:2") && !told(&most, "--latency"), "{most:?}");
        // TCP carries no redundancy.
        let tcp = lossy(Repairs { tcp: true, ..off });
        let fewer = fix(tcp);
        assert!(told(&fewer, "--format auto") && !told(&fewer, "--redundancy"), "{fewer:?}");
        let stream = fix(Repairs { call: None, ..tcp });
        assert!(told(&stream, "--format opus") && !told(&stream, "--redundancy"), "{stream:?}");
        let coded = fix(Repairs { coded: true, ..tcp });
        assert!(told(&coded, "cable") && !told(&coded, "--"), "{coded:?}");
        for few in [lossy(call(true)), tcp] {
            assert_eq!(few.hint(50), None);
        }
    }

    #[test]
    fn slow_line_needs_fewer_bits() {
        let call = Some(Call { redundant: false });
        let fix = |format: &str, call, gaps: GapReport| {
            let counters = Counters { received: 8_000, lost: gaps.lost, ..Counters::default() };
            let stream = StreamReport {
                format: format.to_owned().into(),
                counters,
                ..StreamReport::default()
            };
            let repairs = Repairs::of(&stream, call);
            let mut out = String::new();
            let hints = GapHints::unadvised(&repairs);
            recommendation(&mut out, Some(&gaps), &hints, "fifo:70").unwrap();
            out
        };
        let lost = |lost| GapReport { lost, ..GapReport::default() };
        assert_eq!(fix("l24", call, lost(4_000)), format!("fix: {FEWER_BITS}\n"));
        assert!(fix("l24", None, lost(4_000)).contains("--format opus at the sender"));
        assert!(fix("opus", call, lost(4_000)).contains("--redundancy"));
        assert!(fix("l24", call, lost(1_000)).contains("--redundancy"));
        let outage = GapReport { lost_in_outages: 3_000, ..lost(4_000) };
        assert!(!fix("l24", call, outage).contains("--format"), "a line that stopped is not slow");
        // A full queue delays most packets.
        let late =
            GapReport { late_network: 6_000, network_needs_ns: Some(90_000_000), ..lost(1_000) };
        let both = fix("l24", call, late);
        assert!(both.contains("--format auto") && both.contains("--latency"), "{both}");
        assert!(!fix("l24", call, GapReport { lost: 100, ..late }).contains("--format"));
        let most = fix("l24", call, GapReport { lost: 4_000, ..late });
        assert_eq!(most, format!("fix: {FEWER_BITS}\n"));
    }

    #[test]
    fn redundancy_is_reported_with_its_cost() {
        let reported = |carried: RedundancyReport| {
            let mut out = String::new();
            redundancy(&mut out, &carried, 1_000_000).unwrap();
            out
        };
        let carried = RedundancyReport {
            requested: "auto".into(),
            budget_ns: 10_000_000,
            symbols: 2,
            window: 9,
            repeated: false,
            bytes: 600,
        };
        snapshot!(reported(carried.clone()));
        let nothing = RedundancyReport { symbols: 0, window: 0, bytes: 0, ..carried.clone() };
        snapshot!(reported(nothing));
        let again = reported(RedundancyReport { symbols: 0, repeated: true, ..carried });
        snapshot!(again);
    }
}
