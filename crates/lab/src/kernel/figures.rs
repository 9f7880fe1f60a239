use tautline_proto::time::{LocalTime, Span};
use tautline_report::StageSummary;

use super::Way;
use super::case::{CaseSender, KernelCase};
use super::receivers::ArrivalRecord;
use super::sender::{SentDatagram, SentPackets};
use crate::report::{Points, Published, ReportRow, Statistic};
use crate::statistics::{Missed, Series, Sorted};

pub(super) fn row(
    case: &KernelCase,
    sent: &[SentDatagram],
    received: &[Option<ArrivalRecord>],
) -> Result<ReportRow, String> {
    let begins = sent.first().map_or(LocalTime::ZERO, |sent| sent.due);
    let both = || sent.iter().zip(received);
    let taken = sent.iter().filter(|sent| sent.taken).count() as u64;
    let packets = both().map(|(sent, received)| Some((sent.due, (*received)?)));
    let mut row = found(case, begins, packets, taken)?;
    let handing = both().filter_map(|(sent, received)| {
        let received = received.filter(ArrivalRecord::is_stamped)?;
        Some((received.arrival - sent.handed).max(Span::ZERO))
    });
    let late = Sorted::of(sent.iter().map(|sent| sent.handed - sent.due)).summary();
    row.add("sent_late_max_ns", "sent late, at most", late.max_ns);
    row.add("send_p50_ns", "send to arrival", Sorted::of(handing).summary().p50_ns);
    Ok(row)
}

/// The remote clock is unknown: packets count from arrival.
pub(super) fn far_row(
    case: &KernelCase,
    begins: LocalTime,
    sent: &SentPackets,
    received: &[Option<ArrivalRecord>],
) -> Result<ReportRow, String> {
    // Sorted by arrival, as packets may be reordered.
    let mut arrived: Vec<_> =
        received.iter().flatten().map(|received| (received.arrival, *received)).collect();
    arrived.sort_by_key(|(arrival, _)| *arrival);
    let mut row = found(case, begins, arrived.into_iter().map(Some), sent.taken)?;
    row.add("sent_late_max_ns", "sent late, at most", sent.late_max_ns);
    Ok(row)
}

fn found(
    case: &KernelCase,
    begins: LocalTime,
    packets: impl Iterator<Item = Option<(LocalTime, ArrivalRecord)>>,
    taken: u64,
) -> Result<ReportRow, String> {
    let mut waits = Series::with_room(case.count);
    let mut stages: [Vec<Span>; 3] = Default::default();
    let (mut unsure, mut unstamped, mut arrived) = (Span::ZERO, 0_u64, 0_u64);
    for (place, received) in packets.flatten() {
        arrived += 1;
        if !received.is_stamped() {
            unstamped += 1;
            continue;
        }
        unsure = unsure.max(received.uncertainty);
        waits.push(place, received.read - received.arrival);
        for (stage, length) in stages.iter_mut().zip(parts(case, begins, &received)) {
            stage.push(length);
        }
    }
    if waits.values().is_empty() {
        return Err(match (unstamped, &case.sender) {
            (1.., _) => {
                "the kernel gave no arrival timestamps\nhint: run it outside a container or \
                         sandbox"
            }
            (0, CaseSender::Far(_)) => {
                "no packet arrived\nhint: check that the firewall accepts UDP (taut doctor), or set a \
                 reachable address of this machine with --at"
            }
            (0, _) => "no packet arrived\nhint: check that loopback is up (ip link show lo)",
        }
        .to_owned());
    }
    let mut row = ReportRow::named(case.name()).with(&waits);
    row.uncertainty = Some(unsure);
    row.missed = Some(Missed::of(taken.saturating_sub(arrived), taken));
    row.add("payload_bytes", "payload, bytes", case.packets.payload);
    if unstamped > 0 {
        row.add("unstamped", "without a timestamp", unstamped);
    }
    row.add("stdev_ns", "stdev", row.measured.and_then(|measured| measured.stdev_ns));
    if case.way == Way::Direct {
        let named = ["period", "wakeup", "read"].into_iter().zip(&stages);
        row.stages = named
            .map(|(name, lengths)| StageSummary {
                name: name.into(),
                summary: Sorted::of(lengths.iter().copied()).summary(),
                uncertainty_ns: (name == "period").then_some(unsure.as_nanos()),
            })
            .collect();
    }
    row.published = published(case);
    row.points = vec![Points::since(begins, "kernel", &waits)];
    Ok(row)
}

/// At the direct link: until period end, wake-up and read. A packet after the wake-up has only the
/// time of the read.
fn parts(case: &KernelCase, begins: LocalTime, received: &ArrivalRecord) -> [Span; 3] {
    let tick = case.tick.as_nanos().max(1);
    let since = (received.arrival - begins).as_nanos();
    let after = since.div_euclid(tick) + i64::from(since.rem_euclid(tick) > 0);
    let due = (begins + case.tick.times(after)).clamp(received.arrival, received.read);
    let woke = received.woke.clamp(due, received.read);
    [due - received.arrival, woke - due, received.read - woke]
}

/// Sjöberg and Hammarström, Analysing the Audio Latency Contributions in a Networked Embedded Linux
/// System, Lund 2020: sections 3.1.2 and 3.2.2 on figure 3.3. A has two cores, B one.
const SOURCE: &str = "Lund 2020, section 3.1.2, figure 3.3, noisy network";

fn published(case: &KernelCase) -> Vec<Published> {
    let known = [1, 5, 20].map(Span::from_millis).contains(&case.packets.ptime);
    if !known || case.way != Way::Blocked {
        return Vec::new();
    }
    let of = |name, statistic, value: Span| Published {
        source: SOURCE,
        name,
        statistic,
        value_ns: value.as_nanos(),
    };
    let stdev = |value| of("Lund 2020, stdev", Statistic::Stdev, value);
    let long = case.packets.ptime == Span::from_millis(20);
    match case.sender {
        CaseSender::OneCore => vec![
            stdev(Span::from_micros(40)),
            of("Lund 2020, max", Statistic::Max, Span::from_micros(1750)),
        ],
        _ if long => vec![stdev(Span::from_nanos(105_100))],
        _ => vec![stdev(Span::from_micros(40))],
    }
}

/// With packet length: figure 3.2 there.
pub(super) fn growth(rows: &[ReportRow], senders: &[CaseSender]) -> Vec<String> {
    let mean = |name: &str| {
        let row = rows.iter().find(|row| row.name == name)?;
        row.measured?.mean_ns.filter(|mean| *mean > 0)
    };
    let reported = senders.iter().filter_map(|sender| {
        let theirs = match sender {
            CaseSender::OneCore => "29.8 % (B, one core)",
            CaseSender::TwoCores => "67.1 % (A, two cores)",
            CaseSender::Far(_) => "67.1 % (A, two cores) and 29.8 % (B, one core)",
        };
        let short = mean(&format!("1ms blocked, {sender}"))?;
        let long = mean(&format!("20ms blocked, {sender}"))?;
        let more = 100.0 * (long - short) as f64 / short as f64;
        Some(format!(
            "{sender}, blocked: packets of 20ms take {more:+.1} % on average compared with packets of 1ms; Lund \
             2020 has {theirs} on a silent network"
        ))
    });
    reported.collect()
}
