use tautline_trial::snapshot;

use serde_json::{Value, json};

mod any_two;
mod simulated;

use super::*;
use crate::statistics::Missed;

fn report(medians_us: &[i64], seed: u64) -> Value {
    let mut random = fastrand::Rng::with_seed(seed);
    let rows: Vec<Value> = medians_us
        .iter()
        .enumerate()
        .map(|(index, median)| {
            let intervals: Vec<Value> = (0..60)
                .map(|_| {
                    let middle = median * 1000 + random.i64(-2_000..2_000);
                    json!({ "p50_ns": middle, "p99_ns": middle + 9_000 + random.i64(0..500) })
                })
                .collect();
            json!({
                "name": format!("test {index}"), "invalid": null, "uncertainty_ns": 5_000,
                "configured_ns": 5_000_000, "intervals": intervals, "of another version": [1, 2],
                "missed": { "due": 60_000, "missed": 3, "at_most": 0.0 },
            })
        })
        .collect();
    json!({ "schema": 2, "experiment": "latency-sweep", "rows": rows })
}

fn many(rows: usize, missed: &Value) -> String {
    let rows: Vec<Value> =
        (0..rows).map(|at| json!({ "name": at.to_string(), "missed": missed })).collect();
    json!({ "schema": 2, "experiment": "x", "rows": rows }).to_string()
}

fn read(report: &Value) -> ReadReport {
    ReadReport::of(report.to_string().as_bytes()).unwrap()
}

fn compared(first: &Value, second: &Value) -> Compared {
    Compared::of(&read(first), &read(second), CompareOptions::default())
}

fn verdicts(row: &ComparedRow) -> Vec<(&'static str, ComparedVerdict)> {
    row.figures.iter().map(|figure| (figure.key, figure.verdict)).collect()
}

fn names(compared: &Compared, is: impl Fn(&ComparedRow) -> bool) -> Vec<&str> {
    compared.rows.iter().filter(|row| is(row)).map(|row| row.name.as_str()).collect()
}

fn is_worse(row: &ComparedRow) -> bool {
    row.figures.iter().any(|figure| figure.verdict == ComparedVerdict::More)
}

#[test]
fn slowdown_beyond_both_uncertainties_is_a_regression() {
    let first = report(&[5_000, 5_000, 5_000], 1);
    let second = report(&[5_000, 5_050, 5_008], 2);
    let there = compared(&first, &second);
    assert_eq!(there.outcome, ComparedOutcome::Worse);
    assert_eq!(names(&there, is_worse), ["test 1"], "8 us are less than what both do not know");
    use ComparedVerdict::{Less, More, None};
    let expected = [("p50_ns", More), ("p99_ns", More), ("missed_share", None)];
    assert_eq!(verdicts(&there.rows[1]), expected);
    let back = compared(&second, &first);
    assert_eq!(back.outcome, ComparedOutcome::Better);
    assert_eq!(back.rows[1].figures[0].verdict, Less);
    let text = there.to_string();
    assert!(text.contains("  p50 ") && text.contains("SLOWER"), "{text}");
    let verdict = text.lines().next().unwrap();
    snapshot!(verdict);
    snapshot!(back);
}

#[test]
fn figures_are_rounded_not_truncated() {
    let median = |p50_ns: i64| {
        let intervals = vec![json!({ "p50_ns": p50_ns, "p99_ns": null }); 60];
        json!({ "schema": 2, "experiment": "x", "rows": [{ "name": "a", "intervals": intervals }] })
    };
    let text = compared(&median(5_002_999), &median(5_002_999)).to_string();
    assert!(text.contains("5.003ms") && !text.contains("5.002ms"), "{text}");
}

#[test]
fn difference_below_a_frame_or_threshold_is_ignored() {
    let mut first = report(&[5_000], 1);
    let mut second = report(&[5_015], 2);
    for report in [&mut first, &mut second] {
        report["experiment"] = json!("delay");
        report["rows"][0]["uncertainty_ns"] = json!(0);
    }
    let same = compared(&first, &second);
    assert_eq!(same.outcome, ComparedOutcome::Same, "{same}");
    assert!((same.rows[0].figures[0].threshold_ns.unwrap() - 20_833.3).abs() < 1.0);
    let closer = CompareOptions { threshold: Some(Span::from_micros(10)) };
    let worse = Compared::of(&read(&first), &read(&second), closer);
    assert_eq!(worse.outcome, ComparedOutcome::Worse, "{worse}");
    // The reports' uncertainty is a threshold too.
    first["rows"][0]["uncertainty_ns"] = json!(16_000);
    let unsure = Compared::of(&read(&first), &read(&second), closer);
    assert_eq!(unsure.outcome, ComparedOutcome::Same, "{unsure}");
}

#[test]
fn differences_below_a_frame_are_compared_in_microseconds() {
    let [mut first, mut second] = [report(&[11], 1), report(&[30], 2)];
    for report in [&mut first, &mut second] {
        report["experiment"] = json!("kernel");
        report["rows"][0]["uncertainty_ns"] = json!(1_000);
    }
    let worse = compared(&first, &second);
    assert_eq!(worse.reasons, ["test 0: p50, p99"], "{worse}");
    assert_eq!(worse.rows[0].figures[0].threshold_ns, Some(2_000.0));
    // Sound has a resolution of frames.
    first["experiment"] = json!("align");
    second["experiment"] = json!("align");
    assert_eq!(compared(&first, &second).outcome, ComparedOutcome::Same);
}

#[test]
fn more_misses_are_a_regression() {
    let first = report(&[5_000], 1);
    let mut second = report(&[5_000], 1);
    second["rows"][0]["missed"]["missed"] = json!(30);
    let more = compared(&first, &second);
    assert_eq!(more.outcome, ComparedOutcome::Worse);
    assert!(more.to_string().contains("MORE"), "{more}");
    assert!(more.notes[0].contains("bursts"));
    second["rows"][0]["missed"]["missed"] = json!(6);
    assert_eq!(compared(&first, &second).outcome, ComparedOutcome::Same);
}

#[test]
fn misses_with_known_seconds_are_compared_by_second() {
    let first = report(&[5_000], 1);
    let mut second = report(&[5_000], 2);
    let mut missed = |seconds: u32, each: u32| {
        let values: Vec<Value> = (0..seconds)
            .map(|second| json!([i64::from(second) * 1_000_000_000, f64::from(each)]))
            .collect();
        second["rows"][0]["meanwhile"] = json!([{ "key": "missed", "values": values }]);
        second["rows"][0]["missed"]["missed"] = json!(seconds * each);
        second.clone()
    };
    let mut none = first.clone();
    none["rows"][0]["missed"]["missed"] = json!(0);
    assert_eq!(compared(&none, &missed(1, 60)).outcome, ComparedOutcome::Same);
    assert_eq!(compared(&none, &missed(15, 4)).outcome, ComparedOutcome::Worse);
}

#[test]
fn stalls_are_counted_and_a_quiet_machine_is_no_regression() {
    let froze = |seconds: i64| {
        let second =
            |at: i64| json!({ "at_ns": at, "count": 2, "p50_ns": 9_000_000, "max_ns": 9_000_000 });
        let mut report = report(&[5_000, 5_000], 1);
        report["experiment"] = json!("stalls");
        let row = &mut report["rows"][1];
        row["name"] = json!("stalls of every core");
        row["missed"] = json!(null);
        row["stalls"] = json!(2 * seconds);
        row["intervals"] = json!((0..seconds).map(second).collect::<Vec<_>>());
        report
    };
    let (none, few, many) = (froze(0), froze(2), froze(40));
    assert_eq!(compared(&none, &few).outcome, ComparedOutcome::Same);
    assert_eq!(compared(&few, &none).outcome, ComparedOutcome::Same);
    assert_eq!(compared(&many, &none).outcome, ComparedOutcome::Better);
    let worse = compared(&none, &many);
    assert_eq!(worse.reasons, ["stalls of every core: stalls"], "{worse}");
}

#[test]
fn probability_of_misses_equals_the_reference() {
    // Exact integers (Python's math.comb and Fraction); the first is R's example.
    for (a, n, b, m, p) in [
        (1, 10, 11, 14, 0.002_759_456_185_220_083_6),
        (3, 60_000, 6, 60_000, 0.507_796_092_998_008_1),
        (0, 1000, 0, 1000, 1.0),
        (0, 1000, 8, 1000, 0.007_703_480_851_083_897),
        (5, 5, 0, 5, 0.007_936_507_936_507_936),
    ] {
        let of = |missed, due| Missed { missed, due, at_most: 1.0 };
        let found = counts::fisher(of(a, n), of(b, m));
        assert!((found / p - 1.0).abs() < 1e-9, "{a} of {n}, {b} of {m}: {found}, not {p}");
    }
}

#[test]
fn fisher_test_of_huge_counts_is_exact_and_fast() {
    const DUE: u64 = 10_000_000_000;
    let of = |missed| Missed { missed, due: DUE, at_most: 1.0 };
    // Normal approximation: equal, 2.83 standard deviations of 35 355 apart, and far.
    for (more, p, off) in [(0, 1.0, 1e-3), (200_000, 0.004_677_7, 1e-5), (10_000_000, 0.0, 1e-300)]
    {
        let found = counts::fisher(of(DUE / 2), of(DUE / 2 + more));
        assert!((found - p).abs() <= off, "{more} more: {found}, not {p}");
    }
}

#[test]
fn empty_seconds_rank_below_all_others_without_storage() {
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..200 {
        let seconds = [random.u32(1..60), random.u32(1..60)];
        let reported = seconds.map(|seconds| {
            let any = random.u32(0..=seconds);
            (0..any).map(|at| (at, random.u32(0..5))).collect::<Vec<_>>()
        });
        let [a, b] = [0, 1].map(|at| counts::ReadCounts::of(&reported[at], seconds[at]));
        let written = |at: usize| {
            let mut all: Vec<f64> =
                reported[at].iter().map(|(_, count)| f64::from(*count)).collect();
            all.resize(seconds[at] as usize, 0.0);
            all
        };
        let known = crate::statistics::ranked(&written(0), &written(1)).delta;
        assert!((counts::by_seconds(&a, &b) - known).abs() < 1e-12, "{reported:?} of {seconds:?}");
    }
    assert_eq!(
        counts::by_seconds(&counts::ReadCounts::default(), &counts::ReadCounts::default()),
        0.0
    );
}

#[test]
fn incomparable_values_leave_the_result_undecided() {
    let first = report(&[5_000, 5_000, 5_000, 5_000], 1);
    let mut second = report(&[5_000, 9_000, 9_000, 9_000], 2);
    second["rows"][0]["name"] = json!("another");
    second["rows"][1]["invalid"] = json!("no packet came");
    second["rows"][2]["configured_ns"] = json!(9_000_000);
    second["rows"][3]["intervals"].as_array_mut().unwrap().truncate(7);
    let there = compared(&first, &second);
    assert_eq!(names(&there, is_worse), [""; 0], "{there}");
    let why: Vec<_> = there.rows.iter().filter_map(|row| row.unknown.as_deref()).collect();
    assert_eq!(why.len(), 3, "{why:?}");
    snapshot!(why.join("\n"));
    snapshot!(there.rows[2].lacks.join("\n"));
    assert_eq!(verdicts(&there.rows[2])[0], ("p50_ns", ComparedVerdict::Follows));
    snapshot!(there.rows[3].figures[0].why.as_deref().unwrap());
    let mut first = report(&[5_000], 1);
    first["rows"][0]["intervals"].as_array_mut().unwrap().truncate(7);
    let short = compared(&first, &first);
    assert_eq!(short.outcome, ComparedOutcome::Undecided);
    assert_eq!(short.reasons.len(), 1, "{short}");
    snapshot!(short.reasons[0]);
    let text = short.to_string();
    snapshot!(text);
}

#[test]
fn rows_missing_in_the_second_report_are_a_regression() {
    let first = report(&[5_000, 5_000, 5_000], 1);
    let mut second = report(&[5_000, 5_000, 5_000], 2);
    second["rows"][0]["name"] = json!("another");
    second["rows"][1]["invalid"] = json!("no packet came");
    second["rows"][2]["intervals"] = json!([]);
    let there = compared(&first, &second);
    assert_eq!(names(&there, |row| row.gone), ["test 0", "test 1", "test 2"]);
    assert_eq!(there.outcome, ComparedOutcome::Worse);
    assert_eq!(names(&compared(&second, &first), |row| row.gone), ["another"]);
    let same = compared(&first, &first);
    assert_eq!((names(&same, |row| row.gone), same.outcome), (vec![], ComparedOutcome::Same));
}

#[test]
fn search_with_another_result_loses_no_rows() {
    let search = |found: &[&str]| {
        let mut report = report(&vec![5_000; found.len()], 1);
        report["experiment"] = json!("load");
        for (row, name) in report["rows"].as_array_mut().unwrap().iter_mut().zip(found) {
            row["name"] = json!(name);
        }
        report
    };
    let first = search(&["1 stream", "2 streams", "2 streams, held"]);
    let second = search(&["1 stream", "1 stream, held"]);
    let there = compared(&first, &second);
    assert_eq!(names(&there, |row| row.gone), [""; 0]);
    assert_eq!(there.outcome, ComparedOutcome::Undecided);
    snapshot!(there.reasons[0]);
    assert_eq!(compared(&first, &first).outcome, ComparedOutcome::Same);
}

#[test]
fn min_latency_result_is_its_last_row_not_a_failed_hold() {
    let search = |rows: &[(&str, i64)]| {
        let mut report = report(&vec![5_000; rows.len()], 1);
        report["experiment"] = json!("min-latency");
        for (row, (name, millis)) in report["rows"].as_array_mut().unwrap().iter_mut().zip(rows) {
            row["name"] = json!(name);
            row["configured_ns"] = json!(millis * 1_000_000);
        }
        report
    };
    let first = search(&[("10ms", 10), (MIN, 10)]);
    let second = search(&[("10ms", 10), ("10ms, held", 10), (MIN, 60)]);
    let ended = |second: &Value| {
        let there = compared(&first, second);
        let search = there.rows.iter().find(|row| row.name == "the search");
        search.map(|row| row.lacks.join("; "))
    };
    let reported = ended(&second).unwrap();
    snapshot!(reported);
    assert_eq!(compared(&first, &second).outcome, ComparedOutcome::Undecided);
    let none = search(&[("10ms", 10), ("10ms, held", 10)]);
    let reported = ended(&none).unwrap();
    snapshot!(reported);
    assert_eq!(ended(&search(&[(MIN, 10), ("10ms, held", 10)])), None);
}

#[test]
fn other_file_type_is_refused_and_named() {
    let path = std::path::Path::new("/nowhere/at all.json");
    let refused = ReadReport::read(path).unwrap_err().to_string();
    snapshot!(refused);
    let folder = tempfile::tempdir().unwrap();
    let refused = ReadReport::read(folder.path()).unwrap_err().to_string();
    snapshot!(refused);
    let whole = report(&[5_000], 1).to_string();
    let path = folder.path().join("x.json");
    for (bytes, what) in [
        (&b""[..], "is empty\nhint: run the experiment again"),
        (b" \n", "is empty\nhint: "),
        (
            b"RIFF\xff\xfe\x00\x00WAVE",
            "a recording, which taut compare is for\nhint: write a report with",
        ),
        (b"fLaC\x00", "a recording"),
        (b"\x7fELF\xff", "it is not JSON\nhint: "),
        (b"sound", "it is not JSON\nhint: "),
        (b"[1", "it is not JSON\nhint: "),
        (b"[1]", "is JSON, but not a taut report\nhint: "),
        (b"[]", "is JSON, but not a taut report\nhint: "),
        (b"null", "is JSON, but not a taut report\nhint: "),
        (
            b"{\"schema\": 2, \"experiment\": \"x\", \"rows\": []}",
            "is a report without rows\nhint: run the",
        ),
        (b"<!doctype html>", "it is a page\nhint: "),
        (b"{}", "is JSON, but not a taut report\nhint: "),
        (b"{\"streams\": []}", "is JSON, but not a taut report\nhint: "),
        (b"{\"a\": \xff}", "JSON with an error: "),
        (
            b"{\"schema\": 2, \"role\": \"recv\", \"streams\": []}",
            "is a report without rows\nhint: run the",
        ),
        (b"{\"schema\": 2, \"experiment\": \"x\", \"rows\": [1]}", "JSON with other fields ("),
        (
            b"{\"experiment\": \"x\", \"rows\": []}",
            "is not a report: it is JSON without a schema\nhint: ",
        ),
        (
            whole.replace("\"due\":60000", "\"due\":10000000001").as_bytes(),
            "JSON with a row of 10000000001 packets\nhint: ",
        ),
        (
            whole.replace("\"missed\":3", "\"missed\":18446744073709551615").as_bytes(),
            "JSON with a row of 18446744073709551615 packets\nhint: ",
        ),
        (many(10_001, &Value::Null).as_bytes(), "JSON with other fields (more than 10000 rows"),
        (
            many(2, &json!({ "due": 6_000_000_000_u64, "missed": 0, "at_most": 0.0 })).as_bytes(),
            "JSON with rows of 12000000000 packets\nhint: ",
        ),
        (
            &whole.as_bytes()[..whole.len() / 2],
            "is an incomplete report\nhint: run the experiment again",
        ),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let refused = ReadReport::read(&path).unwrap_err();
        assert!(matches!(refused, ReadError::Other { .. }), "{refused}");
        let refused = refused.to_string();
        assert!(refused.contains(what), "{what}: {refused}");
        assert_eq!(refused.matches('\n').count(), 1, "{refused}");
        assert!(refused.contains("\nhint: "), "{refused}");
    }
}

#[test]
fn differing_hosts_and_commands_are_reported() {
    let mut first = report(&[5_000], 1);
    let host = |kernel: &str, stalls: u32| json!([{ "name": "local", "kernel": kernel, "processor": "P", "cpus": 2, "stalls": stalls }]);
    first["hosts"] = host("6.1", 0);
    first["command"] = json!("taut lab latency-sweep --duration 60s --report-file a.json");
    let mut second = first.clone();
    second["command"] =
        json!("/usr/bin/taut lab latency-sweep --report none --duration 60s --report-file=b.json");
    assert_eq!(compared(&first, &second).notes, [""; 0], "where it is written is nothing of it");
    second["hosts"] = host("6.12", 3);
    second["command"] = json!("taut lab latency-sweep");
    let notes = compared(&first, &second).notes;
    assert_eq!(notes.len(), 3, "{notes:?}");
    snapshot!(notes[0]);
    snapshot!(notes[1]);
    snapshot!(notes[2]);
    let mut unknown = second.clone();
    let known = |key: &String| !["hosts", "command"].contains(&key.as_str());
    unknown.as_object_mut().unwrap().retain(|key, _| known(key));
    assert_eq!(compared(&first, &unknown).notes, [""; 0], "what is not known differs from nothing");
    let busy =
        |percent: f64| json!([{ "key": "busy_percent", "values": [[0, percent], [1, percent]] }]);
    first["rows"][0]["meanwhile"] = busy(20.0);
    second["rows"][0]["meanwhile"] = busy(29.0);
    assert_eq!(compared(&first, &second).notes.len(), 3);
    second["rows"][0]["meanwhile"] = busy(80.0);
    let notes = compared(&first, &second).notes;
    snapshot!(notes[3]);
}

#[test]
fn single_finding_needs_its_own_significance() {
    let reported = compared(&report(&[5_000], 1), &report(&[5_100], 2)).to_string();
    snapshot!(reported);
}

#[test]
fn programs_read_the_verdicts() {
    let there = compared(&report(&[5_000], 1), &report(&[5_100], 2));
    let json: Value = serde_json::from_str(&there.to_json().unwrap()).unwrap();
    assert_eq!((&json["outcome"], &json["tested"]), (&json!("worse"), &json!(3)));
    let figure = &json["rows"][0]["figures"][0];
    assert_eq!((&figure["key"], &figure["verdict"]), (&json!("p50_ns"), &json!("more")));
    assert!(figure["interval"][0].as_f64().unwrap() > 90_000.0);
    assert_eq!(figure["a12"], 1.0);
    assert!(figure["p"].as_f64() < figure["p_of_all"].as_f64(), "{figure}");
}
