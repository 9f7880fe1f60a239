use std::collections::BTreeSet;
use std::io::Read;
use std::time::Duration;

use tautline_proto::time::Span;

use super::{WRITING, one_machine};
use crate::hosts::{HostError, LabHost};
use crate::report::{HostDescription, LabReport, Meanwhile, ReportRow};
use crate::streams::StreamEnds;
use crate::traffic::{AmbientPart, AmbientSum, AmbientTraffic, Carried, read_ambient};

pub(super) const NAME: &str = "ambient";

const TRAFFIC: &str = "lab traffic";

pub(super) fn watch(
    ends: &mut StreamEnds,
    duration: Span,
) -> Result<Vec<(&'static str, AmbientTraffic)>, HostError> {
    let words: Vec<String> = TRAFFIC.split(' ').map(str::to_owned).collect();
    let lasts = Duration::from_nanos(duration.as_nanos().max(0) as u64);
    if one_machine(ends) {
        let child = ends.receiver.start(&words, &[])?;
        return Ok(vec![("here", counted(&mut ends.receiver, child, lasts)?)]);
    }
    let at_receiver = ends.receiver.start(&words, &[])?;
    let at_sender = match ends.sender.start(&words, &[]) {
        Ok(child) => child,
        Err(error) => {
            ends.receiver.interrupt(at_receiver)?;
            return Err(error);
        }
    };
    let sender = counted(&mut ends.sender, at_sender, lasts);
    let receiver = counted(&mut ends.receiver, at_receiver, Duration::ZERO);
    Ok(vec![("sender", sender?), ("receiver", receiver?)])
}

fn counted(host: &mut LabHost, child: u32, lasts: Duration) -> Result<AmbientTraffic, HostError> {
    // A child that cannot tap ends early, with an error.
    host.runs(child, lasts, || true)?;
    host.said_by(child, TRAFFIC, WRITING)
}

pub fn of_capture(file: impl Read + Send) -> LabReport {
    let mut report = LabReport::asking("network");
    report.hosts.push(HostDescription::here("here"));
    let (traffic, read) = read_ambient(file, "all interfaces");
    let is_empty = traffic.parts.is_empty();
    report.notes.extend(read.note());
    match read.ended {
        Some(why) if is_empty => report.rows.push(ReportRow::invalid("capture", why)),
        None if is_empty => {
            let why = "it has no frame\nhint: capture for longer";
            report.rows.push(ReportRow::invalid("capture", why));
        }
        ended => {
            report.rows = rows("capture", &traffic);
            report.notes.splice(0..0, ended).for_each(drop);
            report.notes.push(BYTES.to_owned());
        }
    }
    report
}

const BYTES: &str = "ambient traffic is counted in frames with their Ethernet headers, without \
                     checksums; RTP is detected by its header and consecutive packets";

pub(super) fn notes(place: &str, traffic: &AmbientTraffic) -> Vec<String> {
    let mut notes = vec![BYTES.to_owned()];
    if traffic.dropped > 0 {
        let dropped = traffic.dropped;
        notes.push(format!(
            "{NAME}: the tap at {place} dropped {dropped} frames, which are missing in the mix; \
             reduce the load of that host"
        ));
    }
    if !traffic.sized {
        notes.push(format!(
            "{NAME}: at {place} packets that the kernel handles as one frame count as one; use Linux 6.2 or later"
        ));
    }
    notes
}

/// Interfaces, protocols and address kinds by falling bytes; at least one row.
pub(super) fn rows(place: &str, traffic: &AmbientTraffic) -> Vec<ReportRow> {
    let place = format!("{NAME}: {place}");
    let interfaces = traffic.interfaces();
    if interfaces.is_empty() {
        let none = traffic.sum(|_| true);
        return vec![row(place, &none, none.carried, traffic.duration())];
    }
    interfaces.iter().flat_map(|name| of_interface(&place, name, traffic)).collect()
}

fn of_interface(place: &str, interface: &str, traffic: &AmbientTraffic) -> Vec<ReportRow> {
    let name = format!("{place}, {interface}");
    let here = || traffic.parts.iter().filter(|part| part.interface == interface);
    let all = traffic.sum(|part| part.interface == interface);
    let of = |name: String, wanted: &dyn Fn(&AmbientPart) -> bool| {
        let wanted = |part: &AmbientPart| part.interface == interface && wanted(part);
        let mut row = row(name, &traffic.sum(wanted), all.carried, traffic.duration());
        let ways =
            [("received_mbit_per_s", "received, Mbit/s"), ("sent_mbit_per_s", "sent, Mbit/s")];
        for ((key, words), outgoing) in ways.into_iter().zip([false, true]) {
            if here().all(|part| part.outgoing.is_some()) {
                let way = traffic.sum(|part| wanted(part) && part.outgoing == Some(outgoing));
                row.add(key, words, megabits(way.carried, traffic.duration()));
            }
        }
        row
    };
    let mut whole = of(name.clone(), &|_| true);
    whole.meanwhile = over_time(&all, traffic.range_ns);
    let protocols: BTreeSet<_> = here().map(|part| part.protocol).collect();
    let protocols = protocols.into_iter().map(|protocol| {
        of(format!("{name}: {}", protocol.name()), &|part| part.protocol == protocol)
    });
    let casts: BTreeSet<_> = here().map(|part| part.cast).collect();
    let casts = casts
        .into_iter()
        .map(|cast| of(format!("{name}, by address: {}", cast.name()), &|part| part.cast == cast));
    let mut parts = [protocols.collect::<Vec<_>>(), casts.collect()];
    for rows in &mut parts {
        rows.sort_by(|one, other| bytes_share(other).total_cmp(&bytes_share(one)));
    }
    core::iter::once(whole).chain(parts.into_iter().flatten()).collect()
}

fn bytes_share(row: &ReportRow) -> f64 {
    let found = row.figures.iter().find(|figure| figure.key == "bytes_share");
    found.and_then(|figure| figure.value.as_f64()).unwrap_or(0.0)
}

fn per_second(count: u64, duration: Span) -> f64 {
    count as f64 * 1e9 / duration.as_nanos() as f64
}

fn megabits(carried: Carried, duration: Span) -> f64 {
    per_second(carried.bytes, duration) * 8.0 / 1e6
}

fn row(name: String, sum: &AmbientSum, all: Carried, duration: Span) -> ReportRow {
    let mut row = ReportRow::named(name);
    let Carried { packets, bytes } = sum.carried;
    let share = |part: u64, all: u64| part as f64 / all.max(1) as f64;
    row.add("packets", "packets", packets);
    row.add("packets_share", "of packets", share(packets, all.packets));
    row.add("bytes_share", "of bytes", share(bytes, all.bytes));
    row.add("packets_per_s", "packets/s", per_second(packets, duration));
    row.add("mbit_per_s", "Mbit/s", megabits(sum.carried, duration));
    if let Some(busiest) = sum.busiest {
        let (packets, bits) = (busiest.packets, busiest.bytes as f64 * 8.0 / 1e6);
        row.add("busiest_packets_per_s", "busiest second, packets/s", packets);
        row.add("busiest_mbit_per_s", "busiest second, Mbit/s", bits);
    }
    row
}

/// Maximum duration of a capture, in seconds: the timestamps in its file may claim any duration.
const MAX_SECONDS: i64 = 100_000;

fn over_time(all: &AmbientSum, [begin, end]: [i64; 2]) -> Vec<Meanwhile> {
    let [first, last] = [begin, end].map(|at| at.div_euclid(1_000_000_000));
    if !(1..=MAX_SECONDS).contains(&last.saturating_sub(first)) {
        return Vec::new();
    }
    let each = |of: fn(Carried) -> f64| {
        let value = |second: i64| {
            let carried = all.seconds.get(&second).copied().unwrap_or_default();
            ((second - first + 1) * 1_000_000_000, of(carried))
        };
        (first..last).map(value).collect()
    };
    vec![
        Meanwhile::drawn("mbit_per_s", "Mbit/s", each(|carried| carried.bytes as f64 * 8.0 / 1e6)),
        Meanwhile::drawn("packets_per_s", "packets/s", each(|carried| carried.packets as f64)),
    ]
}

#[cfg(test)]
mod tests;
