use serde_json::{Value, json};

use super::*;
use crate::statistics::Missed;

/// A report of rows with a minute of seconds each, around these medians.
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
                "name": format!("test {index}"), "void": null, "uncertainty_ns": 5_000,
                "configured_ns": 5_000_000, "intervals": intervals, "of another version": [1, 2],
                "missed": { "due": 60_000, "missed": 3, "at_most": 0.0 },
            })
        })
        .collect();
    json!({ "schema": 1, "experiment": "ladder", "rows": rows })
}

fn read(report: &Value) -> ReadReport {
    ReadReport::of(&report.to_string()).unwrap()
}

fn verdicts(row: &ComparedRow) -> Vec<(&'static str, SeriesDifference)> {
    row.figures.iter().map(|figure| (figure.key, figure.verdict)).collect()
}

#[test]
fn what_is_slower_beyond_what_both_do_not_know_is_a_regression() {
    let first = read(&report(&[5_000, 5_000, 5_000], 1));
    let second = read(&report(&[5_000, 5_030, 5_008], 2));
    let compared = Compared::of(&first, &second);
    assert!(compared.is_regression());
    assert_eq!(compared.worse(), ["test 1"], "8 us are less than what both do not know");
    use SeriesDifference::{More, None};
    let expected = [("p50_ns", More), ("p99_ns", More), ("missed_share", None)];
    assert_eq!(verdicts(&compared.rows[1]), expected);
    let back = Compared::of(&second, &first);
    assert!(!back.is_regression());
    assert_eq!(back.rows[1].figures[0].verdict, SeriesDifference::Less);
    let text = compared.to_string();
    assert!(text.lines().any(|line| line.contains("test 1") && line.contains("SLOWER")), "{text}");
}

#[test]
fn runs_of_one_kind_are_seldom_told_to_differ_however_many_rows_they_have() {
    let told = (0..60)
        .filter(|seed| {
            let pair = [0, 1].map(|one| {
                let mut report = report(&[5_000; 6], 2 * seed + one);
                for row in report["rows"].as_array_mut().unwrap() {
                    row["uncertainty_ns"] = json!(0);
                }
                read(&report)
            });
            let compared = Compared::of(&pair[0], &pair[1]);
            compared.figures().any(|figure| is_told(figure.verdict))
        })
        .count();
    assert!(told <= 3, "{told}");
}

#[test]
fn what_more_is_missed_is_a_regression() {
    let first = report(&[5_000], 1);
    let mut second = report(&[5_000], 1);
    second["rows"][0]["missed"]["missed"] = json!(30);
    let compared = Compared::of(&read(&first), &read(&second));
    assert!(compared.is_regression());
    assert!(compared.to_string().contains("MORE"), "{compared}");
    assert!(compared.notes[0].contains("bursts"));
    second["rows"][0]["missed"]["missed"] = json!(6);
    assert!(!Compared::of(&read(&first), &read(&second)).is_regression());
}

#[test]
fn the_chance_of_what_is_missed_is_that_of_the_reference() {
    // By whole numbers of any length (Python's math.comb and Fraction); the first is R's example, too.
    for (a, n, b, m, p) in [
        (1, 10, 11, 14, 0.002_759_456_185_220_083_6),
        (3, 60_000, 6, 60_000, 0.507_796_092_998_008_1),
        (0, 1000, 0, 1000, 1.0),
        (0, 1000, 8, 1000, 0.007_703_480_851_083_897),
        (5, 5, 0, 5, 0.007_936_507_936_507_936),
    ] {
        let of = |missed, due| Missed { missed, due, at_most: 1.0 };
        let found = missed::fisher(of(a, n), of(b, m));
        assert!((found / p - 1.0).abs() < 1e-9, "{a} of {n}, {b} of {m}: {found}, not {p}");
    }
}

#[test]
fn what_cannot_be_compared_is_said() {
    let first = report(&[5_000, 5_000, 5_000, 5_000], 1);
    let mut second = report(&[5_000, 9_000, 9_000, 9_000], 2);
    second["rows"][0]["name"] = json!("another");
    second["rows"][1]["void"] = json!("no packet came");
    second["rows"][2]["configured_ns"] = json!(9_000_000);
    second["rows"][3]["intervals"].as_array_mut().unwrap().truncate(7);
    let compared = Compared::of(&read(&first), &read(&second));
    assert!(!compared.is_regression());
    let why: Vec<_> = compared.rows.iter().filter_map(|row| row.unknown.as_deref()).collect();
    assert_eq!(
        why,
        [
            "only the first report has it",
            "void in the second report: no packet came",
            "configured otherwise in the second report",
            "only the second report has it",
        ]
    );
    assert_eq!(
        compared.rows[3].figures[0].why.as_deref(),
        Some("too short: 60 and 7 seconds in which it is known, and 8 are the least")
    );
    let mut other = second.clone();
    other["experiment"] = json!("kernel");
    let compared = Compared::of(&read(&first), &read(&other));
    assert!(compared.notes[0].contains("of ladder, the second of kernel"), "{compared}");
    assert!(compared.rows.is_empty() && !compared.is_regression());
}

#[test]
fn what_only_the_first_has_measured_is_gone_and_of_nothing_nothing_is_said() {
    let first = report(&[5_000, 5_000, 5_000], 1);
    let mut second = report(&[5_000, 5_000, 5_000], 2);
    second["rows"][0]["name"] = json!("another");
    second["rows"][1]["void"] = json!("no packet came");
    second["rows"][2]["intervals"] = json!([]);
    let compared = Compared::of(&read(&first), &read(&second));
    assert_eq!(compared.gone(), ["test 0", "test 1", "test 2"]);
    // What the first lacked is no loss.
    assert_eq!(Compared::of(&read(&second), &read(&first)).gone(), ["another"]);
    let same = Compared::of(&read(&first), &read(&first));
    assert!(same.gone().is_empty() && same.says_something());
    let mut short = report(&[5_000], 1);
    short["rows"][0]["intervals"].as_array_mut().unwrap().truncate(7);
    short["rows"][0]["missed"] = json!(null);
    let compared = Compared::of(&read(&short), &read(&short));
    assert!(!compared.says_something() && compared.gone().is_empty());
    let mut other = first.clone();
    other["experiment"] = json!("kernel");
    assert!(!Compared::of(&read(&first), &read(&other)).says_something());
}

#[test]
fn another_file_is_refused_in_one_sentence() {
    let path = std::path::Path::new("/nowhere/at all.json");
    let refused = ReadReport::read(path).unwrap_err().to_string();
    assert!(refused.starts_with("reading /nowhere/at all.json: No such file"), "{refused}");
    let folder = tempfile();
    for text in ["", "sound", "{}", "[1]", "{\"streams\": []}", "{\"experiment\": 1, \"rows\": []}"]
    {
        std::fs::write(&folder, text).unwrap();
        let refused = ReadReport::read(&folder).unwrap_err().to_string();
        assert!(refused.contains("is no report of taut lab: "), "{refused}");
        assert!(!refused.contains('\n'), "{refused}");
    }
    std::fs::remove_file(folder).unwrap();
}

fn tempfile() -> std::path::PathBuf {
    std::env::temp_dir().join(format!("tautline-lab-compare-{}.json", std::process::id()))
}

#[test]
fn programs_read_the_verdicts() {
    let compared = Compared::of(&read(&report(&[5_000], 1)), &read(&report(&[5_100], 2)));
    let json: Value = serde_json::from_str(&compared.to_json().unwrap()).unwrap();
    let figure = &json["rows"][0]["figures"][0];
    assert_eq!((&figure["key"], &figure["verdict"]), (&json!("p50_ns"), &json!("more")));
    assert!(figure["interval"][0].as_f64().unwrap() > 90_000.0);
}
