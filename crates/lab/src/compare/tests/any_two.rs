//! Any two reports, and stage differences.

use tautline_trial::snapshot;

use serde_json::{Value, json};

use super::super::{ComparedOutcome, ComparedStage, ComparedVerdict};
use super::{compared, read, report};

fn stages(medians: &[(&str, i64)]) -> Value {
    let stage = |(name, median): &(&str, i64)| {
        let summary = json!({ "count": 60_000, "p50_ns": median * 1000, "p99_ns": null });
        json!({ "name": name, "summary": summary, "uncertainty_ns": null })
    };
    medians.iter().map(stage).collect()
}

fn of_stages(seed: u64, medians: &[(&str, i64)]) -> Value {
    let mut report = report(&[20_000], seed);
    report["rows"][0]["stages"] = stages(medians);
    report["rows"][0]["uncertainty_ns"] = json!(21_000);
    report
}

fn of_run(address: &str, (latency_us, lost): (i64, u64), medians: &[(&str, i64)]) -> Value {
    json!({
        "schema": 2, "role": "recv", "duration_ns": 1, "host": { "cpus": 2 }, "notes": [],
        "streams": [{
            "address": address, "refused": null, "stages": stages(medians),
            "latency": {
                "configured_ns": 20_000_000, "uncertainty_ns": 5_000,
                "measured": { "count": 9, "p50_ns": latency_us * 1000 },
            },
            "counters": { "packets_received": 60_000 - lost, "lost": lost, "late": 0, "xruns": 1 },
        }],
    })
}

fn differences(stages: &[ComparedStage]) -> Vec<(&str, Option<i64>, bool)> {
    stages.iter().map(|stage| (stage.name.as_str(), stage.difference_ns, stage.differs)).collect()
}

#[test]
fn stages_that_differ_are_listed_in_signed_ms_with_bars() {
    let first = of_stages(1, &[("wakeup", 60), ("buffer", 12_300), ("device", 7_000)]);
    let second = of_stages(1, &[("wakeup", 75), ("buffer", 300), ("device", 11_010)]);
    let there = compared(&first, &second);
    assert_eq!(there.outcome, ComparedOutcome::NoRegression, "{there}");
    // 15 µs are less than a frame.
    let expected = [
        ("wakeup", Some(15_000), false),
        ("buffer", Some(-12_000_000), true),
        ("device", Some(4_010_000), true),
    ];
    assert_eq!(differences(&there.rows[0].stages), expected);
    snapshot!(there.to_string());
    let same = compared(&first, &first);
    assert_eq!(same.outcome, ComparedOutcome::Same);
    assert!(same.to_string().contains("verdict: no difference shown in any"), "{same}");
}

#[test]
fn regression_counts_despite_other_differences() {
    let mut second = of_stages(2, &[("buffer", 300)]);
    second["rows"][0]["missed"]["missed"] = json!(600);
    let there = compared(&of_stages(1, &[("buffer", 12_300)]), &second);
    assert_eq!(there.outcome, ComparedOutcome::Worse, "{there}");
    assert_eq!(there.rows[0].stages[0].difference_ns, Some(-12_000_000));
}

#[test]
fn reports_of_one_run_are_compared_with_each_other() {
    let a = of_run("rtp://127.0.0.1:5004", (20_000, 0), &[("wire", 60), ("device", 2_000)]);
    let b = of_run("rtp://127.0.0.1:6004", (20_004, 0), &[("wire", 4_060), ("device", 2_000)]);
    let there = compared(&a, &b);
    assert_eq!(there.outcome, ComparedOutcome::NoRegression, "{there}");
    let expected = [("wire", Some(4_000_000), true), ("device", Some(0), false)];
    assert_eq!(differences(&there.rows[0].stages), expected);
    snapshot!(there.to_string());
    let longer = of_run("rtp://127.0.0.1:5004", (24_000, 0), &[]);
    assert_eq!(compared(&a, &longer).reasons, ["rtp://127.0.0.1:5004: p50"]);
    assert_eq!(compared(&longer, &a).outcome, ComparedOutcome::Better);
    let often: Vec<_> = (0..20).map(|number| (3 * number, 45)).collect();
    let timed = |run: &Value, misses: &[(i64, u64)]| {
        let mut run = run.clone();
        run["duration_ns"] = json!(60_000_000_000_i64);
        run["streams"][0]["misses"] = losing(misses, 60)["streams"][0]["misses"].clone();
        run["streams"][0]["counters"]["xruns"] = json!(0);
        run
    };
    let lossy = timed(&of_run("rtp://127.0.0.1:5004", (20_000, 900), &[]), &often);
    let there = compared(&timed(&a, &[]), &lossy);
    assert_eq!(
        (there.outcome, &there.reasons[..]),
        (ComparedOutcome::Worse, &["rtp://127.0.0.1:5004: missed".to_owned()][..])
    );
    let mut stopped = timed(&a, &often);
    stopped["streams"][0]["gaps"] = json!({ "not_sent": 900 });
    let reasons = compared(&timed(&a, &[]), &stopped).reasons;
    assert_eq!(reasons, there.reasons, "packets that were not sent");
    let keys: Vec<_> = compared(&stopped, &stopped).rows.remove(0).figures;
    let keys: Vec<_> = keys.iter().map(|figure| figure.key).collect();
    assert_eq!(keys, ["p50_ns", "missed_share", "receiver_xruns_per_s"], "of this device only");
    let counted = &there.rows[0].counters[0];
    assert_eq!((counted.name.as_str(), counted.first, counted.second), ("lost", 0, 900));
    assert_eq!(compared(&a, &a).outcome, ComparedOutcome::Same);
}

#[test]
fn both_directions_of_a_call_are_rows() {
    let mut directions = [of_run("rtp://a", (20_000, 0), &[]), of_run("rtp://a", (20_000, 0), &[])];
    directions[1]["role"] = json!("send");
    let call = json!({ "schema": 2, "role": "call", "directions": directions });
    let there = compared(&call, &call);
    let names: Vec<&str> = there.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(
        (names, there.outcome),
        (vec!["recv rtp://a", "send rtp://a"], ComparedOutcome::Same)
    );
}

#[test]
fn rows_of_only_one_report_are_listed() {
    let first = of_run("rtp://a", (20_000, 0), &[("wire", 60), ("device", 2_000)]);
    let mut second =
        of_run("rtp://a", (20_000, 0), &[("wire", 60), ("resample", 330), ("device", 2_000)]);
    second["schema"] = json!(3);
    second["streams"][0]["counters"]["receivers_lost"] = json!(0);
    second["streams"][0]["of another version"] = json!([1]);
    let there = compared(&first, &second);
    let row = &there.rows[0];
    assert_eq!(row.only_second, ["stage resample", "receivers_lost"]);
    assert!(row.only_first.is_empty());
    assert_eq!(row.stages[1].second_ns, Some(330_000));
    assert_eq!((row.stages[1].first_ns, row.stages[1].differs), (None, false));
    assert!(there.notes[0].contains("schema 2, the second 3"), "{there}");
    assert_eq!(compared(&second, &first).rows[0].only_first, ["stage resample", "receivers_lost"]);
}

#[test]
fn a_run_is_not_compared_with_an_experiment() {
    let mut stages = of_stages(1, &[("wire", 60)]);
    stages["experiment"] = json!("stages");
    let run = read(&of_run("rtp://a", (20_000, 0), &[("wire", 9_060)]));
    let differ = read(&stages).commands_that_differ(&run);
    assert_eq!(differ, Some(["taut lab stages".to_owned(), "taut recv".to_owned()]));
    assert_eq!(run.commands_that_differ(&run), None);
    // Without common row names there is no regression.
    let mut two = report(&[5_000, 5_000], 1);
    two["experiment"] = json!("kernel");
    two["rows"][0]["name"] = json!("another");
    two["rows"][1]["name"] = json!("a third");
    assert_eq!(read(&stages).commands_that_differ(&read(&two)), None);
    let there = compared(&stages, &two);
    assert_eq!(there.outcome, ComparedOutcome::Undecided, "{there}");
    assert_eq!(there.rows.len(), 3);
}

#[test]
fn xruns_and_cpu_time_of_runs_are_compared() {
    let with = |seconds: &[i64], cpu_ns: i64| {
        let mut run = of_run("rtp://a", (20_000, 0), &[]);
        let xrun = |second: &i64| json!({ "at_ns": 7 + second * 1_000_000_000, "count": 1 });
        let xruns: Vec<Value> = seconds.iter().map(xrun).collect();
        run["started_ns"] = json!(7);
        run["duration_ns"] = json!(60_000_000_000_i64);
        run["host"]["cpu_ns"] = json!(cpu_ns);
        run["streams"][0]["counters"]["xruns"] = json!(seconds.len());
        run["streams"][0]["xruns"] = json!(xruns);
        run
    };
    let quiet = with(&[1], 3_400_000_000);
    let busy = with(&(0..20).map(|number| 3 * number).collect::<Vec<_>>(), 11_400_000_000);
    let there = compared(&quiet, &busy);
    assert_eq!(there.outcome, ComparedOutcome::Worse, "{there}");
    let xruns = there.rows[0].figures.iter().find(|figure| figure.key == "receiver_xruns_per_s");
    assert_eq!(xruns.map(|figure| figure.verdict), Some(ComparedVerdict::More), "{there}");
    assert!(there.notes[0].contains("5.7 % of a core"), "{there}");
    assert!(there.notes[0].contains("19.0 %"), "{there}");
    let same = compared(&quiet, &quiet);
    assert_eq!(same.outcome, ComparedOutcome::Same, "{same}");
    assert!(!same.to_string().contains("of a core"), "{same}");
}

fn losing(misses: &[(i64, u64)], seconds: i64) -> Value {
    let lost: u64 = misses.iter().map(|(_, count)| count).sum();
    let mut run = of_run("rtp://a", (20_000, lost), &[]);
    let miss = |(second, count): &(i64, u64)| json!({ "at_ns": 7 + second * 1_000_000_000, "count": count });
    run["started_ns"] = json!(7);
    run["duration_ns"] = json!(seconds * 1_000_000_000);
    run["streams"][0]["counters"]["xruns"] = json!(0);
    run["streams"][0]["misses"] = misses.iter().map(miss).collect();
    run
}

#[test]
fn a_burst_of_misses_in_a_run_is_no_difference() {
    let missed = |a: &Value, b: &Value| {
        let there = compared(a, b);
        let figure = there.rows[0].figures.iter().find(|figure| figure.key == "missed_share");
        (figure.unwrap().verdict, there.outcome)
    };
    let quiet = losing(&[], 60);
    let burst = losing(&[(9, 400)], 60);
    assert_eq!(missed(&quiet, &burst), (ComparedVerdict::None, ComparedOutcome::Same));
    let often: Vec<_> = (0..20).map(|number| (3 * number, 20)).collect();
    let often = losing(&often, 60);
    assert_eq!(missed(&quiet, &often), (ComparedVerdict::More, ComparedOutcome::Worse));
    assert_eq!(missed(&often, &burst), (ComparedVerdict::Less, ComparedOutcome::Better));
    // Without times, or in a short run, nothing is known.
    let mut untimed = often.clone();
    untimed["streams"][0]["misses"] = json!([]);
    let unknown = (ComparedVerdict::Unknown, ComparedOutcome::Undecided);
    assert_eq!(missed(&quiet, &untimed), unknown);
    assert_eq!(missed(&losing(&[], 3), &losing(&[(1, 400)], 3)), unknown);
    let none = (ComparedVerdict::None, ComparedOutcome::Same);
    assert_eq!(missed(&losing(&[], 3), &losing(&[], 3)), none);
}
