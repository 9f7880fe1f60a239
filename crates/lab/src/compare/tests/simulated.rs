//! Simulated streams: false differences of equal reports, and found regressions.

use tautline_trial::snapshot;

use fastrand::Rng;
use serde_json::{Value, json};

use super::super::{
    CompareOptions, Compared, ComparedOutcome, ComparedRow, ComparedVerdict, ReadReport,
};
use super::{compared, names};

#[derive(Clone)]
struct Simulated {
    phase_us: f64,
    wire_us: [f64; 2],
    woke_us: f64,
    alike: f64,
    missed: f64,
    /// Packets per burst, and bursts per second.
    bursts: (u32, f64),
    xruns: f64,
    seconds: u32,
    latency_ns: i64,
    period: u32,
    rows: usize,
}

impl Simulated {
    fn usual(random: &mut Rng) -> Self {
        Self {
            phase_us: random.f64() * 1000.0,
            wire_us: [0.0; 2],
            woke_us: 0.0,
            alike: 0.0,
            missed: 0.0,
            bursts: (20, 0.03),
            xruns: 0.02,
            seconds: 30,
            latency_ns: 5_000_000,
            period: 48,
            rows: 1,
        }
    }

    fn report(&self, random: &mut Rng) -> Value {
        let rows: Vec<Value> = (0..self.rows).map(|row| self.row(row, random)).collect();
        json!({ "schema": 2, "experiment": "stages", "rows": rows })
    }

    fn row(&self, row: usize, random: &mut Rng) -> Value {
        // Median, tail and scatter per second in µs.
        let parts = [
            ("capture", 1_010.0, 1_030.0, 5.0),
            ("pack", 2.0, 4.0, 1.0),
            ("send", 1.0, 3.0, 1.0),
            ("wire", 60.0 + self.wire_us[0], 140.0 + self.wire_us[1], 25.0),
            ("wakeup", self.phase_us, self.phase_us + 60.0, 30.0),
            ("buffer", 2_000.0 - self.wire_us[0], 2_100.0 - self.wire_us[0], 30.0),
            ("render", 4.0, 9.0, 2.0),
            ("device", 2_000.0 - self.phase_us, 2_050.0 - self.phase_us, 20.0),
            ("sender_late", 15.0, 60.0, 30.0),
            ("receiver_late", 15.0 + self.woke_us, 60.0 + self.woke_us, 30.0),
        ];
        let stages: Vec<Value> = parts[..8]
            .iter()
            .map(|(name, ..)| json!({ "name": name, "uncertainty_ns": null }))
            .collect();
        let lost = self.lost(random);
        let is_lost = |at: u32| lost.iter().any(|(second, _)| *second == at);
        let parts: Vec<Value> = parts
            .into_iter()
            .map(|(name, middle, tail, scatter)| {
                let [p50, p99] = [middle, tail].map(|at| self.seconds_of(at, scatter, random));
                let max: Vec<i64> = p99.iter().map(|p99| p99 + 10_000).collect();
                // 999 packets have no p99.
                let p99: Vec<Option<i64>> =
                    (0..).zip(p99).map(|(at, p99)| (!is_lost(at)).then_some(p99)).collect();
                json!({ "name": name, "p50_ns": p50, "p99_ns": p99, "max_ns": max })
            })
            .collect();
        let due = u64::from(self.seconds) * 1000;
        let missed: u32 = lost.iter().map(|(_, count)| count).sum();
        let xruns: Vec<(i64, u32)> = (0..self.seconds)
            .filter(|_| random.f64() < self.xruns)
            .map(|second| (i64::from(second) * 1_000_000_000 + 5, 3))
            .collect();
        let constant = json!({ "p50_ns": self.latency_ns, "p99_ns": self.latency_ns, "max_ns": self.latency_ns });
        json!({
            "name": format!("{row}: {} in packets of 1ms", self.latency_ns), "invalid": null,
            "configured_ns": self.latency_ns, "uncertainty_ns": 0, "stages": stages,
            "missed": { "due": due, "missed": missed, "at_most": 0.0 },
            "intervals": vec![constant; self.seconds as usize],
            "events": [{ "key": "receiver_xruns", "words": "", "values": xruns, "without_time": 0 }],
            "stream": {
                "rate": 48_000, "period": self.period, "periods": 2, "ptime_ns": 1_000_000,
                "seconds": self.seconds, "due": due, "late": [], "lost": lost, "underrun_discarded": [], "parts": parts,
            },
        })
    }

    fn seconds_of(&self, middle: f64, scatter: f64, random: &mut Rng) -> Vec<i64> {
        let mut last = 0.0;
        let each = (0..self.seconds).map(|_| {
            let new = (random.f64() + random.f64() + random.f64() - 1.5) * 2.0;
            last = self.alike * last + (1.0 - self.alike * self.alike).sqrt() * new;
            ((middle + scatter * last).max(0.1) * 1000.0) as i64
        });
        each.collect()
    }

    fn lost(&self, random: &mut Rng) -> Vec<(u32, u32)> {
        let (length, often) = self.bursts;
        let each = (0..self.seconds).map(|second| {
            let single = (0..1000).filter(|_| random.f64() < self.missed).count() as u32;
            let burst = if random.f64() < often { random.u32(1..=2 * length) } else { 0 };
            (second, single + burst)
        });
        each.filter(|(_, count)| *count > 0).collect()
    }
}

fn reported(seed: u64, like: impl Fn(&mut Simulated)) -> usize {
    let mut random = Rng::with_seed(seed);
    let mut one = || {
        let mut simulated = Simulated::usual(&mut random);
        like(&mut simulated);
        simulated.report(&mut random)
    };
    (0..PAIRS).filter(|_| compared(&one(), &one()).outcome != ComparedOutcome::Same).count()
}

fn found(figure: &str, like: impl Fn(&mut Simulated), worse: impl Fn(&mut Simulated)) -> usize {
    let mut random = Rng::with_seed(11);
    (0..20)
        .filter(|_| {
            let mut one = Simulated::usual(&mut random);
            like(&mut one);
            let first = one.report(&mut random);
            one.phase_us = random.f64() * 1000.0;
            worse(&mut one);
            let second = one.report(&mut random);
            let there = compared(&first, &second);
            there.rows.iter().any(|row| {
                let mut worse =
                    row.figures.iter().filter(|one| one.verdict == ComparedVerdict::More);
                worse.any(|one| row.words(one) == figure)
            })
        })
        .count()
}

/// An error of 15 % fails in 98 of 100 runs.
const PAIRS: usize = 60;
const STATED: usize = PAIRS / 20;

type Change = fn(&mut Simulated);

#[test]
fn equal_pairs_differ_in_at_most_5_percent() {
    let likes: [Change; 5] = [
        |_| {},
        |one| (one.seconds, one.rows) = (20, 4),
        |one| one.seconds = 10,
        |one| (one.missed, one.bursts) = (0.01, (200, 0.2)),
        |one| (one.alike, one.seconds) = (0.6, 60),
    ];
    for (seed, like) in (1..).zip(likes) {
        let pairs = reported(seed, like);
        assert!(pairs <= STATED, "{seed}: {pairs}");
    }
}

#[test]
fn regressions_are_found() {
    let cases: [(&str, Change, Change); 7] = [
        // Usual error of a second: 25 µs.
        ("wire p99", |_| {}, |one| one.wire_us = [0.0, 50.0]),
        ("wire p99", |one| one.rows = 6, |one| one.wire_us = [0.0, 50.0]),
        ("wire p50", |one| one.seconds = 10, |one| one.wire_us = [150.0, 150.0]),
        ("receiver woke late, p50", |_| {}, |one| one.woke_us = 100.0),
        ("missed", |one| one.missed = 0.01, |one| one.missed = 0.02),
        ("lost", |one| one.bursts.1 = 0.0, |one| one.bursts.1 = 0.6),
        ("receiver's xruns", |_| {}, |one| one.xruns = 0.6),
    ];
    for (at, (figure, like, worse)) in cases.into_iter().enumerate() {
        let found = found(figure, like, worse);
        assert!(found >= 19, "{at}: {figure} {found}");
    }
}

#[test]
fn a_single_burst_is_no_difference() {
    let mut random = Rng::with_seed(3);
    let mut one = Simulated::usual(&mut random);
    one.bursts.1 = 0.0;
    let first = one.report(&mut random);
    let mut second = first.clone();
    second["rows"][0]["stream"]["lost"] = json!([[17, 400]]);
    second["rows"][0]["missed"]["missed"] = json!(400);
    let there = compared(&first, &second);
    assert_eq!(there.outcome, ComparedOutcome::Same, "{there}");
    snapshot!(there);
}

#[test]
fn xruns_without_instants_are_after_those_that_have_them() {
    let mut random = Rng::with_seed(4);
    let one = Simulated { xruns: 0.0, ..Simulated::usual(&mut random) };
    let first = one.report(&mut random);
    let mut second = first.clone();
    // The first thousand; later ones are unlisted.
    let reported: Vec<(i64, u32)> = (0..10).map(|second| (second * 1_000_000_000, 100)).collect();
    second["rows"][0]["events"][0]["values"] = json!(reported);
    second["rows"][0]["events"][0]["without_time"] = json!(500);
    let there = compared(&first, &second);
    let xruns = there.rows[0].figures.iter().find(|one| one.key == "receiver_xruns_per_s").unwrap();
    let [_, counted] = xruns.counted.unwrap();
    assert_eq!((counted.seconds_with, counted.seconds), (10, 10), "{xruns:?}");
    assert_eq!(xruns.verdict, ComparedVerdict::More);
}

fn pair(change: impl Fn(&mut Simulated)) -> [Value; 2] {
    let mut random = Rng::with_seed(7);
    let mut one = Simulated::usual(&mut random);
    let first = one.report(&mut random);
    change(&mut one);
    [first, one.report(&mut random)]
}

fn figure<'a>(row: &'a ComparedRow, words: &str) -> &'a super::super::ComparedFigure {
    row.figures.iter().find(|figure| row.words(figure) == words).unwrap()
}

#[test]
fn single_streams_are_compared_despite_different_settings() {
    let [first, second] = pair(|one| (one.latency_ns, one.wire_us) = (10_000_000, [100.0, 100.0]));
    let there = compared(&first, &second);
    let row = &there.rows[0];
    snapshot!(row.other_name.as_deref().unwrap());
    snapshot!(row.lacks.join("\n"));
    assert_eq!(figure(row, "latency p50").verdict, ComparedVerdict::Follows);
    assert_eq!(figure(row, "wire p50").verdict, ComparedVerdict::More);
    assert_eq!(there.outcome, ComparedOutcome::Worse, "{there}");
    let [first, second] = pair(|one| one.latency_ns = 10_000_000);
    let there = compared(&first, &second);
    assert_eq!(there.outcome, ComparedOutcome::Undecided, "{there}");
    snapshot!(there.reasons[0]);
}

/// Moves `by_ns` from `buffer` to `pack`, as packets of several periods do.
fn with_longer_packets(report: &mut Value, by_ns: i64) {
    let row = &mut report["rows"][0];
    row["stream"]["ptime_ns"] = json!(1_000_000 + by_ns);
    for (name, more) in [("pack", by_ns), ("buffer", -by_ns)] {
        let parts = row["stream"]["parts"].as_array_mut().unwrap();
        let part = parts.iter_mut().find(|part| part["name"] == name).unwrap();
        for key in ["p50_ns", "p99_ns", "max_ns"] {
            for value in part[key].as_array_mut().unwrap() {
                *value = value.as_i64().map_or(Value::Null, |value| json!(value + more));
            }
        }
        let stages = row["stages"].as_array_mut().unwrap();
        let stage = stages.iter_mut().find(|stage| stage["name"] == name).unwrap();
        stage["summary"] = json!({ "count": 9, "p50_ns": 10_000_000 + more });
    }
}

#[test]
fn stages_of_other_periods_or_packets_are_not_judged() {
    let [mut first, second] = pair(|one| one.period = 480);
    let there = compared(&first, &second);
    assert_eq!(there.outcome, ComparedOutcome::Undecided, "{there}");
    for words in ["capture p50", "pack p99", "wire p50", "receiver woke late, p50"] {
        assert_eq!(figure(&there.rows[0], words).verdict, ComparedVerdict::Follows, "{words}");
    }
    assert_eq!(figure(&there.rows[0], "latency p50").verdict, ComparedVerdict::None);
    let [_, mut longer] = pair(|_| {});
    with_longer_packets(&mut longer, 4_000_000);
    with_longer_packets(&mut first, 0);
    let there = compared(&first, &longer);
    assert_eq!(there.outcome, ComparedOutcome::Undecided, "{there}");
    snapshot!(there.reasons[0]);
    let minimum = there.rows[0].sentences();
    let minimum = minimum.iter().find(|sentence| sentence.contains("minimum latency")).unwrap();
    assert!(minimum.contains("+4.000 ms"), "{minimum}");
    snapshot!(minimum);
    assert!(!there.hint().contains("8 s"), "{there}");
    // Misses are still judged.
    let [_, mut lossy] = pair(|one| one.missed = 0.05);
    with_longer_packets(&mut lossy, 4_000_000);
    let there = compared(&first, &lossy);
    assert_eq!(there.outcome, ComparedOutcome::Worse, "{there}");
}

#[test]
fn undecided_hint_names_short_rows_or_other_settings() {
    let [first, second] = pair(|one| one.latency_ns = 10_000_000);
    let otherwise = compared(&first, &second).hint();
    assert!(otherwise.contains("taut lab min-latency"), "{otherwise}");
    let [first, second] = pair(|one| (one.latency_ns, one.seconds) = (10_000_000, 5));
    let short = compared(&first, &second).hint();
    assert!(short.contains("8 s"), "{short}");
}

#[test]
fn of_several_rows_none_is_taken_for_another() {
    let [first, second] = pair(|one| (one.latency_ns, one.rows) = (10_000_000, 2));
    let there = compared(&first, &second);
    assert_eq!(names(&there, |row| row.other_name.is_some()), [""; 0], "{there}");
    assert_eq!(names(&there, |row| row.gone).len(), 1, "{there}");
}

#[test]
fn stage_one_period_longer_is_found_and_less_is_phase() {
    let by = |more: i64| {
        let [first, mut second] = pair(|_| {});
        let parts = second["rows"][0]["stream"]["parts"].as_array_mut().unwrap();
        let wakeup = parts.iter_mut().find(|part| part["name"] == "wakeup").unwrap();
        for key in ["p50_ns", "p99_ns"] {
            wakeup[key].as_array_mut().unwrap().iter_mut().for_each(|value| {
                *value = json!(value.as_i64().unwrap() + more);
            });
        }
        compared(&first, &second)
    };
    assert_eq!(by(900_000).outcome, ComparedOutcome::Same);
    let more = by(1_100_000);
    assert!(more.reasons[0].contains("wakeup p50"), "{more}");
}

#[test]
fn seconds_of_few_packets_have_their_greatest_for_a_tail() {
    let [mut first, mut second] = pair(|one| one.wire_us = [0.0, 100.0]);
    for report in [&mut first, &mut second] {
        for part in report["rows"][0]["stream"]["parts"].as_array_mut().unwrap() {
            let seconds = part["p99_ns"].as_array().unwrap().len();
            part["p99_ns"] = json!(vec![Value::Null; seconds]);
        }
    }
    let there = compared(&first, &second);
    assert_eq!(figure(&there.rows[0], "wire max").verdict, ComparedVerdict::More, "{there}");
}

#[test]
fn a_tail_is_seen_in_the_seconds_that_lost_something() {
    let mut random = Rng::with_seed(9);
    let one = Simulated { bursts: (20, 0.0), ..Simulated::usual(&mut random) };
    let first = one.report(&mut random);
    let mut second = one.report(&mut random);
    let lossy = || (0..30).filter(|second| second % 3 > 0);
    let stream = &mut second["rows"][0]["stream"];
    stream["lost"] = json!(lossy().map(|second| [second, 1]).collect::<Vec<_>>());
    for part in stream["parts"].as_array_mut().unwrap() {
        for second in lossy() {
            part["p99_ns"][second] = Value::Null;
            if part["name"] == "wire" {
                part["max_ns"][second] = json!(4_000_000);
            }
        }
    }
    let there = compared(&first, &second);
    let tail = there.rows[0]
        .figures
        .iter()
        .find(|one| one.part.as_deref() == Some("wire") && one.key != "p50_ns");
    let tail = tail.unwrap();
    assert_eq!((tail.key, tail.verdict), ("max_ns", ComparedVerdict::More), "{there}");
}

#[test]
fn streams_with_stalls_are_compared_by_all_packets() {
    let [mut first, mut second] = pair(|one| one.wire_us = [150.0, 150.0]);
    for report in [&mut first, &mut second] {
        report["experiment"] = json!("min-latency");
        report["rows"][0]["stalls"] = json!(0);
    }
    let there = compared(&first, &second);
    assert_eq!(figure(&there.rows[0], "wire p50").verdict, ComparedVerdict::More, "{there}");
}

#[test]
fn a_report_of_any_numbers_is_refused_or_compared() {
    let [mut first, mut second] = pair(|_| {});
    for report in [&mut first, &mut second] {
        let row = &mut report["rows"][0];
        row["uncertainty_ns"] = json!(i64::MAX);
        row["stages"][3]["uncertainty_ns"] = json!(i64::MAX);
        row["events"][0]["values"] = json!([[i64::from(u32::MAX) * 1_000_000_000, 1]]);
        row["events"][0]["without_time"] = json!(1);
    }
    let there = compared(&first, &second);
    assert!(figure(&there.rows[0], "wire p50").threshold_ns.unwrap() > 1e19, "{there}");
    for (key, value, what) in [
        ("seconds", json!(1_000_001), "a row of 1000001 seconds"),
        ("seconds", json!(u32::MAX), "a row of 4294967295 seconds"),
        ("due", json!(u64::MAX), "a row of 18446744073709551615 packets"),
    ] {
        let mut crafted = first.clone();
        crafted["rows"][0]["stream"][key] = value;
        let (refused, _) = ReadReport::of(crafted.to_string().as_bytes()).unwrap_err();
        assert!(refused.ends_with(what), "{refused}");
    }
    let parts = first["rows"][0]["stream"]["parts"].as_array_mut().unwrap();
    parts.push(parts[0].clone());
    let (refused, _) = ReadReport::of(first.to_string().as_bytes()).unwrap_err();
    snapshot!(refused);
}

#[test]
fn older_stream_reports_compare_only_latency_and_misses() {
    let [mut first, second] = pair(|_| {});
    first["rows"][0]["stages"] = json!([{ "name": "wire", "uncertainty_ns": 7 }]);
    first["rows"][0].as_object_mut().unwrap().remove("stream");
    let there = compared(&first, &second);
    assert_eq!(there.rows[0].figures.len(), 3, "{there}");
    assert_eq!(there.outcome, ComparedOutcome::Undecided);
    snapshot!(there.reasons[0]);
}

#[test]
fn stage_missing_in_the_second_report_is_reported() {
    let [first, mut second] = pair(|_| {});
    second["rows"][0]["stream"]["parts"].as_array_mut().unwrap().remove(3);
    let there = compared(&first, &second);
    snapshot!(there.rows[0].lacks.join("\n"));
    assert_eq!(there.outcome, ComparedOutcome::Undecided);
}

#[test]
fn how_unsure_the_clocks_are_is_no_difference_of_the_network() {
    let [mut first, mut second] = pair(|one| one.wire_us = [100.0, 100.0]);
    for report in [&mut first, &mut second] {
        report["rows"][0]["stages"][3]["uncertainty_ns"] = json!(60_000);
    }
    let there = compared(&first, &second);
    assert_eq!(figure(&there.rows[0], "wire p50").threshold_ns, Some(120_000.0));
    assert_eq!(there.outcome, ComparedOutcome::Same, "{there}");
}

#[test]
fn threshold_can_be_set() {
    let [first, second] = pair(|one| one.wire_us = [100.0, 100.0]);
    let read = |report: &Value| ReadReport::of(report.to_string().as_bytes()).unwrap();
    let options = CompareOptions { threshold: Some(tautline_proto::time::Span::from_micros(200)) };
    let there = Compared::of(&read(&first), &read(&second), options);
    assert_eq!(there.outcome, ComparedOutcome::Same, "{there}");
}

#[test]
fn too_short_stream_is_reported_once_not_per_figure() {
    let mut random = Rng::with_seed(7);
    let short = Simulated { seconds: 5, ..Simulated::usual(&mut random) }.report(&mut random);
    let there = compared(&short, &short);
    let text = there.to_string();
    let lines = text.lines().filter(|line| !line.starts_with("verdict: "));
    let why: Vec<&str> = lines.filter(|line| line.contains(" unknown (")).collect();
    assert_eq!(why.len(), 2, "of times and of what is counted: {text}");
    snapshot!(why[0]);
    assert!(!text.contains("note: "), "nothing was compared that has to be explained: {text}");
}
