//! Text about redundancy and repaired packets.

use core::fmt::{self, Write};

use super::Nanos;
use crate::{Counters, RedundancyReport, RepairReport, Report, StreamReport};

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
    call: Option<Call>,
    tcp: bool,
    /// Whether the packets are of a codec with few bits.
    coded: bool,
    /// Whether so few packets are lost that a change would harm more.
    loses_few: bool,
    /// Whether the network carries less than the stream needs.
    loses_many: bool,
}

/// Half a percent: concealment hides single losses.
const FEW: u64 = 200;
/// A fifth, as for the note during the stream.
const MANY: u64 = 5;

impl Repairs {
    pub(super) fn of(stream: &StreamReport, call: Option<Call>) -> Self {
        let Counters { repaired, lost, received, .. } = stream.counters;
        let [few, many] = [FEW, MANY].map(|part| received.saturating_add(lost) / part);
        Self {
            repaired,
            lost,
            repair: stream.repair,
            configured_ns: stream.latency.configured_ns.unwrap_or(0),
            call,
            tcp: stream.transport.as_deref() == Some("tcp"),
            coded: ["opus", "lossless"].iter().any(|codec| stream.format.starts_with(codec)),
            loses_few: lost <= few,
            loses_many: lost > many,
        }
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

    /// Fix for losses. `None` if each would harm more.
    pub(super) fn hint(&self) -> Option<String> {
        if let Some(needs) = self.needs() {
            let configured = Nanos(self.configured_ns);
            return Some(format!(
                "use --latency {needs}: {configured} has no time for all repairs"
            ));
        }
        let fix = match self.call {
            Some(call) => self.hint_in_call(call)?,
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

    fn hint_in_call(&self, call: Call) -> Option<&'static str> {
        match self {
            Self { tcp: false, .. } if !call.redundant => Some(match self {
                Self { loses_many: true, coded: false, .. } => {
                    "use --format auto, or a cable (the network carries less than the call needs)"
                }
                _ => "use --redundancy auto (repairs losses)",
            }),
            Self { loses_few: true, .. } => None,
            Self { coded: false, .. } => Some("use --format auto (fewer bits), or a cable"),
            Self { tcp: true, .. } => Some(LESS_TRAFFIC),
            _ => Some(
                "the network loses more than can be repaired: use a cable, or less other traffic",
            ),
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
        write!(out, "each packet whole again, {window} packets later")?;
    } else if *symbols == 0 {
        return writeln!(out, "none sent");
    } else {
        let s = if *symbols == 1 { "" } else { "s" };
        write!(out, "{symbols} symbol{s} in each packet, of up to {window} packets before it")?;
    }
    let rate = *bytes as f64 * 8e6 / ptime_ns.max(1) as f64;
    writeln!(out, ", {bytes} bytes on top for each ({rate:.0} kbit/s)")
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
            let hints = GapHints { repairs: &repairs, advice: None, presented: false };
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
        let fix = |repairs: Repairs| repairs.hint();
        let call = |redundant| Repairs { call: Some(Call { redundant }), ..Repairs::default() };
        let off = call(false);
        let told =
            |fix: &Option<String>, option| fix.as_ref().is_some_and(|fix| fix.contains(option));
        assert!(told(&fix(off), "--redundancy auto"), "{:?}", fix(off));
        for thin in [true, false] {
            let many = fix(Repairs { loses_many: true, coded: !thin, ..off });
            assert_eq!(told(&many, "--format auto"), thin, "{many:?}");
            assert_eq!(told(&many, "--redundancy"), !thin, "{many:?}");
        }
        // With redundancy, and by TCP, which carries none.
        for on in [call(true), Repairs { tcp: true, ..off }] {
            let fewer = fix(Repairs { loses_many: true, ..on });
            assert!(told(&fewer, "--format auto") && !told(&fewer, "--redundancy"), "{fewer:?}");
            let coded = fix(Repairs { loses_many: true, coded: true, ..on });
            assert!(told(&coded, "cable") && !told(&coded, "--"), "{coded:?}");
            assert_eq!(fix(Repairs { loses_few: true, ..on }), None);
        }
        let counters = |lost| Counters { received: 9_950, lost, ..Counters::default() };
        let of = |lost| {
            let stream = StreamReport { counters: counters(lost), ..StreamReport::default() };
            let repairs = Repairs::of(&stream, None);
            (repairs.loses_few, repairs.loses_many)
        };
        assert_eq!((of(49), of(51)), ((true, false), (false, false)));
        assert_eq!((of(2_400), of(2_600)), ((false, false), (false, true)));
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
