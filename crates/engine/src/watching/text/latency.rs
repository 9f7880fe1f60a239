//! What the latency came to, for people: by whose word, how sure, and of which packets.

use core::fmt::{self, Write};

use super::Nanos;
use crate::watching::report::{LatencyReport, NotFound, StreamReport};

pub(super) fn latency(out: &mut String, stream: &StreamReport, role: &str) -> fmt::Result {
    let latency = &stream.latency;
    write!(out, "latency: configured {}, ", Nanos(latency.configured_ns))?;
    match (latency.measured.p50_ns, latency.by) {
        (Some(median), Some(by)) => measured(out, latency, median, by)?,
        _ if role == "send" => write!(out, "the receivers measure")?,
        _ if stream.refused.is_some() => write!(out, "not measured, as none of it was played")?,
        _ => {
            write!(out, "not measured")?;
            others(out, &latency.not_found, ": ")?;
        }
    }
    writeln!(out)
}

fn measured(out: &mut String, latency: &LatencyReport, median: i64, by: &str) -> fmt::Result {
    let by = match by {
        "sound" => "measured from the sound",
        "due" => "by when it was due",
        _ => "by the device's word",
    };
    write!(out, "{by} {}", Nanos(median))?;
    if let Some(uncertainty) = latency.uncertainty_ns {
        write!(out, " ± {}", Nanos(uncertainty))?;
    }
    write!(out, "  (")?;
    let summary = &latency.measured;
    for (name, value) in [("min", summary.min_ns), ("p99", summary.p99_ns), ("max", summary.max_ns)]
    {
        if let Some(value) = value {
            write!(out, "{name} {}, ", Nanos(value))?;
        }
    }
    let every = latency.not_found == NotFound::default();
    let all = if every { "all " } else { "" };
    write!(out, "{all}{} packets", summary.count)?;
    others(out, &latency.not_found, "; not among them: ")?;
    write!(out, ")")
}

/// The packets that a figure says nothing of, and why, if there are any.
fn others(out: &mut String, not_found: &NotFound, before: &str) -> fmt::Result {
    let mut before = before;
    for (why, count) in not_found.each().into_iter().filter(|(_, count)| *count > 0) {
        write!(out, "{before}{count} {why}")?;
        before = ", ";
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watching::distribution::Distribution;
    use tautline_proto::time::Span;

    fn told(by: &'static str, not_found: NotFound) -> String {
        let mut twenty = Distribution::default();
        (0..20).for_each(|_| twenty.record(Span::from_millis(20)));
        let unmeasured = LatencyReport::unmeasured(by);
        let measured = twenty.summary();
        let latency = LatencyReport { measured, by: Some(by), not_found, ..unmeasured };
        let mut out = String::new();
        super::measured(&mut out, &latency, 20_000_000, by).unwrap();
        out
    }

    #[test]
    fn a_latency_is_told_with_whose_word_it_is_and_of_which_packets() {
        let every = NotFound::default();
        let sound = "measured from the sound 20.00ms  (min 20.00ms, max 20.00ms, all 20 packets)";
        assert_eq!(told("sound", every), sound);
        let some = NotFound { late: 3, silent: 80, ..every };
        let device = "by the device's word 20.00ms  (min 20.00ms, max 20.00ms, 20 packets; not among \
                      them: 3 late, 80 in silence)";
        assert_eq!(told("device", some), device);
        assert!(
            told("due", some).starts_with("by when it was due 20.00ms"),
            "{}",
            told("due", some)
        );
    }
}
