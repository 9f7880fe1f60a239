//! Text about the latency, its source and uncertainty.

use core::fmt::{self, Write};

use super::Nanos;
use crate::digits;
use crate::{LatencyReport, NotFound, PresentedReport, StreamReport};

pub(super) fn latency(out: &mut String, stream: &StreamReport, role: &str) -> fmt::Result {
    let latency = &stream.latency;
    match latency.configured_ns {
        Some(last) if latency.auto.is_some() => {
            write!(out, "latency: auto, {} at the end, ", Nanos(last))?
        }
        Some(configured) => write!(out, "latency: configured {}, ", Nanos(configured))?,
        None => write!(out, "latency: unknown, as packets only carry their presentation time; ")?,
    }
    match (latency.measured.p50_ns, latency.method.as_deref()) {
        (Some(median), Some(by)) => measured(out, latency, median, by)?,
        _ if role == "send" && stream.address.starts_with("avtp://") => {
            write!(out, "avtp:// has no way back: see the report of taut recv there")?;
        }
        _ if role == "send" => by_receivers(out, stream)?,
        _ if stream.refused.is_some() && !stream.played => {
            write!(out, "not measured, as none of it was played")?
        }
        _ => {
            write!(out, "not measured")?;
            if latency.presented.is_some() && latency.configured_ns.is_some() {
                write!(out, ", as packets only carry their presentation time")?;
            }
        }
    }
    writeln!(out)?;
    presented(out, latency)?;
    overdue(out, latency)
}

/// Writes how packets arrived and played against their presentation times.
fn presented(out: &mut String, latency: &LatencyReport) -> fmt::Result {
    let Some(PresentedReport { lead, error }) = &latency.presented else { return Ok(()) };
    if let (Some(lead), Some(minimum), Some(error), Some(maximum)) =
        (lead.p50_ns, lead.min_ns, error.p50_ns, error.max_ns)
    {
        let [lead, minimum, error, maximum] = [lead, minimum, error, maximum].map(Nanos);
        writeln!(
            out,
            "  presented: packets arrived {lead} before their presentation time (min {minimum}) and played \
             {error} after it (max {maximum})"
        )?;
    }
    Ok(())
}

/// Maximum difference between a correct ledger and the sound: one frame, and the position between
/// two frames.
const BESIDE: i64 = 250_000;

/// Writes how late sound played although no packet was late. A file waits for its program; a card
/// does not.
fn overdue(out: &mut String, latency: &LatencyReport) -> fmt::Result {
    let maximum = latency.trace_error.max_ns.filter(|maximum| *maximum > BESIDE);
    let Some(maximum) = maximum.filter(|_| latency.method.as_deref() == Some("sound")) else {
        return Ok(());
    };
    writeln!(
        out,
        "  played up to {} late: harmless for a file, which waits for taut and the disk; a card reports \
         wrong times",
        Nanos(maximum)
    )
}

fn measured(out: &mut String, latency: &LatencyReport, median: i64, by: &str) -> fmt::Result {
    let by = match by {
        "sound" => "measured from the sound",
        "due" => "scheduled, not measured:",
        _ => "reported by the device",
    };
    write!(out, "{by} {}  (median; ", super::known(median, latency.uncertainty_ns))?;
    let summary = &latency.measured;
    for (name, value) in [("min", summary.min_ns), ("p99", summary.p99_ns), ("max", summary.max_ns)]
    {
        if let Some(value) = value {
            write!(out, "{name} {}, ", super::rounded(value, latency.uncertainty_ns))?;
        }
    }
    let every = latency.not_measured == NotFound::default();
    let all = if every { "all " } else { "" };
    write!(out, "{all}{} packets)", summary.count)?;
    if let Some(changed) = latency.changed_ns {
        write!(out, ", {} at the end", super::known(changed, latency.uncertainty_ns))?;
    }
    match latency.uncertainty_ns.filter(|error| error.saturating_mul(10) > median) {
        Some(error) => write!(out, "; the clocks are known only to {}", digits::bound(error)),
        None => Ok(()),
    }
}

fn by_receivers(out: &mut String, stream: &StreamReport) -> fmt::Result {
    let known = stream.receivers.iter().filter(|receiver| receiver.effective_ns.is_some());
    let mut latencies: Vec<_> =
        known.clone().filter_map(|receiver| receiver.effective_ns).collect();
    latencies.sort_unstable();
    let error = known.clone().filter_map(|receiver| receiver.uncertainty_ns).max();
    let whose = match *latencies {
        [] => return write!(out, "not reported by a receiver"),
        [one] => {
            write!(out, "{}", super::known(one, error))?;
            "the receiver".to_owned()
        }
        [minimum, .., maximum] => {
            let minimum = super::rounded(minimum, error);
            write!(out, "{minimum} to {}", super::known(maximum, error))?;
            format!("{} receivers", latencies.len())
        }
    };
    let mut methods = known.map(|receiver| receiver.method.as_deref());
    let first = methods.next().flatten().filter(|first| methods.all(|other| other == Some(*first)));
    match first {
        Some("sound") => write!(out, ", measured from the sound by {whose}"),
        Some("due") => write!(out, ", scheduled by {whose}"),
        Some("device") => write!(out, ", as reported by the device of {whose}"),
        _ => write!(out, ", as reported by {whose}"),
    }
}

/// Writes how many packets the measurement does not cover, and why.
pub(super) fn unmeasured(out: &mut String, latency: &LatencyReport) -> fmt::Result {
    let counts = latency.not_measured.each().into_iter().filter(|(_, count)| *count > 0);
    let counts: Vec<_> = counts.map(|(why, count)| format!("{count} {why}")).collect();
    let sound = if latency.method.as_deref() == Some("sound") { "" } else { " in the sound" };
    if counts.is_empty() {
        return Ok(());
    }
    writeln!(out, "  not measured{sound}: {}", counts.join(", "))
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;
    use crate::RemoteReceiver;
    use crate::distribution::Distribution;
    use tautline_proto::time::Span;

    fn reported(by: &'static str, not_measured: NotFound) -> String {
        let mut twenty = Distribution::default();
        (0..20).for_each(|_| twenty.record(Span::from_millis(20)));
        let unmeasured = LatencyReport::unmeasured();
        let measured = twenty.summary();
        let latency =
            LatencyReport { measured, method: Some(by.into()), not_measured, ..unmeasured };
        let mut out = String::new();
        super::measured(&mut out, &latency, 20_000_000, by).unwrap();
        out
    }

    #[test]
    fn late_sound_of_a_file_is_shown_with_the_maximum_latency() {
        let reported = |by: &'static str, late: &[i64]| {
            let [mut measured, mut error] = [Distribution::default(), Distribution::default()];
            for &late in late {
                measured.record(Span::from_micros(5_000 + late));
                error.record(Span::from_micros(late));
            }
            let unmeasured = LatencyReport::unmeasured();
            let (measured, trace_error) = (measured.summary(), error.summary());
            let latency =
                LatencyReport { measured, trace_error, method: Some(by.into()), ..unmeasured };
            let mut out = String::new();
            overdue(&mut out, &latency).unwrap();
            out
        };
        let late = reported("sound", &[0, 10, 3_077]);
        snapshot!(late);
        assert_eq!(
            reported("sound", &[0, 10, 20]),
            "",
            "within a frame it was played as it was due"
        );
        assert_eq!(
            reported("due", &[0, 10, 3_077]),
            "",
            "according to the ledger nothing is next to it"
        );
        assert_eq!(reported("sound", &[]), "");
    }

    #[test]
    fn latency_is_shown_with_its_source_and_packets() {
        let every = NotFound::default();
        let sound =
            "measured from the sound 20.00ms  (median; min 20.00ms, max 20.00ms, all 20 packets)";
        assert_eq!(reported("sound", every), sound);
        let some = NotFound { late: 3, silent: 80, ..every };
        let device =
            "reported by the device 20.00ms  (median; min 20.00ms, max 20.00ms, 20 packets)";
        assert_eq!(reported("device", some), device);
        snapshot!(reported("due", some));
        let mut out = String::new();
        let uncertainty_ns = Some(19_000_000);
        let unsure = LatencyReport { uncertainty_ns, ..LatencyReport::unmeasured() };
        super::measured(&mut out, &unsure, 21_000_000, "due").unwrap();
        assert!(out.ends_with("; the clocks are known only to 19ms"), "{out}");
        let unmeasured = |not_measured| {
            let latency = LatencyReport { not_measured, ..LatencyReport::unmeasured() };
            let mut out = String::new();
            super::unmeasured(&mut out, &latency).unwrap();
            out
        };
        assert_eq!(unmeasured(some), "  not measured in the sound: 3 late, 80 in silence\n");
        assert_eq!(unmeasured(every), "");
    }

    #[test]
    fn sender_shows_what_its_receivers_measured() {
        let receiver = |method: &'static str, effective_ns| RemoteReceiver {
            effective_ns: Some(effective_ns),
            uncertainty_ns: Some(effective_ns / 1000),
            method: Some(method.into()),
            ..Default::default()
        };
        let reported = |receivers: &[RemoteReceiver]| {
            let receivers = receivers.to_vec();
            let mut out = String::new();
            by_receivers(&mut out, &StreamReport { receivers, ..Default::default() }).unwrap();
            out
        };
        let one = 20_000_000;
        let silent = RemoteReceiver::default;
        snapshot!(reported(&[silent()]));
        snapshot!(reported(&[silent(), receiver("due", one)]));
        snapshot!(reported(&[receiver("device", one)]));
        snapshot!(reported(&[RemoteReceiver { method: None, ..receiver("", one) }]));
        let several =
            |third| [("sound", 2), ("sound", 1), (third, 3)].map(|(by, n)| receiver(by, n * one));
        snapshot!(reported(&several("sound")));
        snapshot!(reported(&several("due")));
    }
}
