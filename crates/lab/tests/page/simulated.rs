//! Random reports for the page tests and example.

use fastrand::Rng;
use tautline_lab::report::{
    Events, HostDescription, LabReport, Meanwhile, Points, Published, ReportRow, Statistic, Worst,
};
use tautline_lab::statistics::{Missed, Series, Sorted};
use tautline_proto::time::{LocalTime, Span};
use tautline_report::StageSummary;
use tautline_report::distribution::Summary;

fn host() -> HostDescription {
    HostDescription {
        name: "here".into(),
        kernel: "6.12.9-rt".into(),
        processor: "Intel(R) Core(TM) i5-8500T CPU @ 2.10GHz".into(),
        cpus: 6,
        stalls: Some(2),
    }
}

fn normal(random: &mut Rng) -> f64 {
    (-2.0 * random.f64().max(1e-12).ln()).sqrt() * (core::f64::consts::TAU * random.f64()).cos()
}

/// For 1 ms packets: name, typical length and deviation in µs.
const STAGES: [(&str, f64, f64); 8] = [
    ("capture", 1000.0, 2.0),
    ("pack", 18.0, 4.0),
    ("send", 9.0, 3.0),
    ("wire", 140.0, 22.0),
    ("wakeup", 26.0, 9.0),
    ("buffer", 0.0, 0.0),
    ("render", 12.0, 3.0),
    ("device", 1000.0, 0.3),
];

/// A disruption every 25th second, and a period of 40 ms.
pub(crate) fn stream(packets: usize, latency_us: f64, seed: u64) -> ReportRow {
    let mut random = Rng::with_seed(seed);
    let mut series = Series::with_room(packets);
    let mut stages: Vec<Vec<Span>> = vec![Vec::new(); STAGES.len()];
    let mut lines: Vec<Vec<(i64, i64)>> = vec![Vec::new(); STAGES.len()];
    let mut missed = 0;
    let (mut missing, mut load, mut xruns) = (Vec::new(), Vec::new(), Vec::new());
    for packet in 0..packets {
        let at = packet as i64 * 1_000_000;
        let second = packet / 1000;
        let busy = second % 25 == 17;
        let mut length = STAGES.map(|(_, usual, wide)| usual + wide * normal(&mut random).abs());
        length[3] += 15.0 * (packet as f64 / 40.0 * core::f64::consts::TAU).sin();
        if busy {
            length[3] += 60.0 * random.f64();
        }
        if packet % 25_000 == 17_400 {
            length[4] += 6_500.0;
        }
        if (1..12).contains(&(packet % 25_000).saturating_sub(17_399)) {
            length[4] += 6_500.0 - 600.0 * (packet % 25_000 - 17_400) as f64;
        }
        let before: f64 = length.iter().sum();
        length[5] = (latency_us - before).max(4.0);
        let total: f64 = length.iter().sum();
        missed += u64::from(total > latency_us + 1.0);
        series.push(LocalTime::ZERO + Span::from_nanos(at), Span::from_nanos((total * 1e3) as i64));
        let mut until = 0.0;
        for (stage, length) in length.iter().enumerate() {
            stages[stage].push(Span::from_nanos((length * 1e3) as i64));
            until += length;
            lines[stage].push((at, (until * 1e3) as i64));
        }
        if packet % 1000 == 0 {
            missing.push((at, if busy { f64::from(random.u8(1..4)) } else { 0.0 }));
            xruns.extend(busy.then(|| (at + random.i64(0..1_000_000_000), 1)));
            load.push((at, if busy { 88.0 } else { 21.0 } + 4.0 * normal(&mut random)));
        }
    }
    let mut row = ReportRow::named("test 8").with(&series);
    row.configured = Some(Span::from_nanos((latency_us * 1e3) as i64));
    row.uncertainty = Some(Span::from_micros(21));
    row.missed = Some(Missed::of(missed, packets as u64));
    row.stages = STAGES
        .iter()
        .zip(stages)
        .map(|((name, ..), values)| StageSummary {
            name: (*name).into(),
            summary: Sorted::of(values).summary(),
            uncertainty_ns: (*name == "wire").then_some(18_000),
        })
        .collect();
    row.points = STAGES
        .iter()
        .zip(lines)
        .map(|((name, ..), values)| Points { name: (*name).to_owned(), values })
        .collect();
    row.meanwhile = vec![
        Meanwhile::drawn("missed", "packets missed", missing),
        Meanwhile::drawn("cpu_percent", "processor, % of a core", load),
    ];
    if !xruns.is_empty() {
        row.events = vec![Events {
            key: "receiver_xruns".into(),
            words: "xruns of the receiver's device".into(),
            values: xruns,
            without_time: 0,
        }];
    }
    for worst in &mut row.worst {
        worst.cause = Some("wakeup 6.51 ms, wire 161 µs; all cores stalled".into());
    }
    row.add("packets_received", "packets received", packets);
    row.add("rest_ns", "rest", 7_312);
    row
}

/// Ten tests, and an invalid one.
pub(crate) fn ladder() -> LabReport {
    let mut report = LabReport::of("latency-sweep", "is what is configured what is measured?");
    report.command = "taut lab latency-sweep --duration 60s --report-file ladder.html".into();
    report.duration_ns = 612_400_000_000;
    report.hosts = vec![host(), HostDescription { name: "ssh:studio-b".into(), ..host() }];
    let mut random = Rng::with_seed(7);
    let ladder = [200, 180, 140, 100, 60, 40, 30, 20, 10, 5];
    for (index, milliseconds) in ladder.into_iter().enumerate() {
        let mut series = Series::with_room(12_000);
        for packet in 0..12_000_i64 {
            let late = if random.f64() < 2e-4 { random.f64() * 4e6 } else { 0.0 };
            let value = milliseconds as f64 * 1e6 + 9_000.0 + 2_500.0 * normal(&mut random) + late;
            let due = LocalTime::ZERO + Span::from_millis(5 * packet);
            series.push(due, Span::from_nanos(value as i64));
        }
        let mut row = ReportRow::named(format!("test {}", index + 1)).with(&series);
        row.configured = Some(Span::from_millis(milliseconds));
        row.uncertainty = Some(Span::from_micros(8 + 5 * (index as i64 % 3)));
        row.missed = Some(Missed::of(u64::from(index == 9) * 3, 12_000));
        row.published = vec![
            Published {
                source: "thesis, table 3.4",
                name: "A, silent",
                statistic: Statistic::Single,
                value_ns: milliseconds * 1_060_000 + 17_000_000,
            },
            Published {
                source: "thesis, table 3.4",
                name: "B, silent",
                statistic: Statistic::Single,
                value_ns: milliseconds * 1_030_000 + 11_000_000,
            },
        ];
        report.rows.push(row);
    }
    report.rows.push(ReportRow::invalid(
        "0.67 ms",
        "this kernel grants no real-time priority; raise RLIMIT_RTPRIO (ulimit -r)",
    ));
    report.notes.push(
        "what the thesis calls jitter buffer is here what the link offset leaves for the network"
            .into(),
    );
    report
}

pub(crate) fn stages() -> LabReport {
    let mut report = LabReport::of("stages", "where does the time go?");
    report.command = "taut lab stages --packets 25000 --latency 5ms".into();
    report.duration_ns = 26_100_000_000;
    report.hosts = vec![host()];
    report.rows = vec![stream(25_000, 5_000.0, 1)];
    report
}

pub(crate) fn nothing() -> Summary {
    Sorted::of([]).summary()
}

pub(crate) fn hostile() -> LabReport {
    let evil = "</title></svg><script>alert(\"1\")</script>&\u{202e}'\u{0}\u{1b}[31m\u{ffff}";
    let mut row = stream(2_000, 3_000.0, 2);
    row.name = evil.into();
    row.stages.iter_mut().for_each(|stage| stage.name = evil.into());
    row.points.iter_mut().for_each(|points| points.name = evil.into());
    row.worst =
        vec![Worst { at_ns: -1, value_ns: i64::MIN, cause: Some(evil.into()), ..Worst::default() }];
    row.add("evil", "evil", evil);
    let mut report = LabReport::of("evil", "does it get out?");
    report.command = evil.into();
    report.hosts = vec![HostDescription { name: evil.into(), processor: evil.into(), ..host() }];
    report.rows = vec![
        row,
        ReportRow::invalid(evil, evil),
        ReportRow { measured: Some(nothing()), ..ReportRow::named("none") },
    ];
    report.notes = vec![evil.into()];
    report
}
