//! Text about redundancy and repaired packets.

use core::fmt::{self, Write};

use super::Nanos;
use crate::{Counters, RedundancyReport, RepairReport, StreamReport};

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Repairs {
    repaired: u64,
    lost: u64,
    repair: Option<RepairReport>,
    configured_ns: i64,
    in_call: bool,
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
    #[cfg(test)]
    const NONE: Self = Self {
        repaired: 0,
        lost: 0,
        repair: None,
        configured_ns: 0,
        in_call: false,
        coded: false,
        loses_few: false,
        loses_many: false,
    };

    pub(super) fn of(stream: &StreamReport, in_call: bool) -> Self {
        let Counters { repaired, lost, received, .. } = stream.counters;
        let configured_ns = stream.latency.configured_ns.unwrap_or(0);
        let coded = stream.format.starts_with("opus");
        let [few, many] = [FEW, MANY].map(|part| received.saturating_add(lost) / part);
        let (loses_few, loses_many) = (lost <= few, lost > many);
        let repair = stream.repair;
        Self { repaired, lost, repair, configured_ns, in_call, coded, loses_few, loses_many }
    }

    #[cfg(test)]
    pub(super) const fn short(needs_ns: i64, configured_ns: i64) -> Self {
        let repair = Some(RepairReport { window_ns: 16_000_000, needs_ns });
        Self { repaired: 7, lost: 2, repair, configured_ns, ..Self::NONE }
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
        Some(match (self.needs(), self.repair) {
            (Some(needs), _) => {
                format!(
                    "use --latency {needs}: {} has no time for all repairs",
                    Nanos(self.configured_ns)
                )
            }
            (None, None) if self.in_call && self.loses_many => {
                "use --format auto, or a cable (the network carries less than the call needs)"
                    .to_owned()
            }
            (None, None) if self.in_call && self.repaired == 0 => {
                "use --redundancy auto (repairs losses)".to_owned()
            }
            _ if self.in_call && self.loses_few => return None,
            _ if self.in_call && self.coded => {
                "the network loses more than can be repaired: use a cable, or less other traffic"
                    .to_owned()
            }
            _ if self.in_call => "use --format auto (fewer bits)".to_owned(),
            (None, None) if self.repaired == 0 => "use --redundancy auto at the sender".to_owned(),
            _ => "use a longer --redundancy-budget and --latency, or --redundancy fec:N with more \
                  symbols, at the sender"
                .to_owned(),
        })
    }
}

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
        let call = reported(Repairs { in_call: true, ..Repairs::default() });
        assert!(call.contains("--redundancy auto") && !call.contains("sender"), "{call}");
        let heavy = Repairs { in_call: true, loses_many: true, ..Repairs::default() };
        let thin = reported(heavy);
        assert!(thin.contains("--format auto") && !thin.contains("--redundancy"), "{thin}");
        let repairing = Repairs { in_call: true, repaired: 1, ..Repairs::default() };
        let fewer = reported(repairing);
        assert!(fewer.contains("--format auto"), "{fewer}");
        let coded = reported(Repairs { coded: true, ..repairing });
        assert!(!coded.contains("--"), "{coded}");
        for few in [repairing, Repairs { coded: true, ..repairing }] {
            let few = reported(Repairs { loses_few: true, ..few });
            assert!(!few.contains("fix: "), "{few}");
        }
        let counters = |lost| Counters { received: 9_950, lost, ..Counters::default() };
        let of = |lost| {
            let stream = StreamReport { counters: counters(lost), ..StreamReport::default() };
            let repairs = Repairs::of(&stream, true);
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
