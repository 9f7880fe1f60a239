use tautline_trial::snapshot;

use serde_json::Value;
use tautline_proto::time::LocalTime;

use super::player::DeviceFaults;
use super::*;
use crate::compare::{CompareOptions, Compared, ReadReport};
use crate::report::LabReport;

fn measured(frames: i64) -> LabReport {
    let mut found = Loop { frames, blocks: 4000, ..Loop::default() }.measure();
    found.configured = Some(Span::from_millis(5));
    found.report(["here", "there"])
}

#[test]
fn a_delay_is_a_report_as_those_of_other_experiments_are() {
    let report = measured(240);
    let json: Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
    assert_eq!((&json["experiment"], &json["schema"]), (&"delay".into(), &2.into()));
    let row = &json["rows"][0];
    assert_eq!((&row["name"], &row["invalid"]), (&"here to there".into(), &Value::Null));
    assert_eq!(row["configured_ns"], 5_000_000);
    let measured = row["measured"]["p50_ns"].as_i64().unwrap();
    assert!((measured - 5_000_000).abs() <= row["uncertainty_ns"].as_i64().unwrap(), "{row:#}");
    assert_eq!((&row["missed"]["missed"], &row["bit_exact"]), (&0.into(), &true.into()));
    assert_eq!(row["xruns"], serde_json::json!([0, 0]));
    let points = &report.rows[0].points[0].values;
    assert_eq!(points.len() as u64, row["measured"]["count"].as_u64().unwrap());
    assert!(!report.rows[0].histogram.is_empty() && report.rows[0].intervals.len() >= 4);
    assert!(crate::page::page(&report).contains("<svg"));
}

#[test]
fn two_reports_of_delays_are_compared_as_others_are() {
    let read = |frames| ReadReport::of(measured(frames).to_json().unwrap().as_bytes()).unwrap();
    let compared = Compared::of(&read(240), &read(240), CompareOptions::default());
    assert_eq!(compared.rows[0].unknown, None, "{compared:?}");
    assert!(compared.rows[0].figures.iter().any(|figure| figure.key == "p50_ns"), "{compared:?}");
}

#[test]
fn marks_beyond_the_capacity_are_counted_and_reported() {
    let mut judge = Judge::new(SETTINGS.rate, LocalTime::ZERO).with_room(5);
    for mark in 0..20 {
        let (played, received) = at(mark, 1000);
        judge.played(played);
        judge.received(received);
    }
    let found = MeasuredDelay::new([SETTINGS; 2], None, judge.finish(LocalTime::NEVER));
    assert_eq!((found.marks.measured().count, found.marks.delays.values().len()), (20, 5));
    assert_eq!(found.marks.uncertainty_95(), None, "{found:?}");
    snapshot!(remarks(&found.clone().report(["here", "there"])));
}

#[test]
fn few_marks_have_a_median_and_the_error_of_their_spread() {
    let row = |moved: i64| {
        let mut judge = Judge::new(SETTINGS.rate, LocalTime::ZERO).with_room(10);
        for mark in 0..9 {
            let (played, received) = at(mark, if mark == 4 { 1000 + moved } else { 1000 });
            judge.played(played);
            judge.received(received);
        }
        let found = MeasuredDelay::new([SETTINGS; 2], None, judge.finish(LocalTime::NEVER));
        let report = found.report(["here", "there"]);
        (report.rows[0].measured.unwrap().p50_ns, report.rows[0].uncertainty.unwrap())
    };
    let (median, alike) = row(0);
    assert_eq!(median, Some(1_000_000));
    // An xrun moved one mark by 9 ms.
    let (median, moved) = row(9_000);
    assert_eq!(median, Some(1_000_000));
    assert!(alike < Span::from_micros(1) && moved > Span::from_millis(1), "{alike} {moved}");
}

#[test]
fn row_without_a_received_mark_is_invalid() {
    let spoil = |sound: &mut Vec<f32>| sound.fill(0.0);
    let report = Loop { spoil, ..Loop::default() }.measure().report(["here", "there"]);
    assert!(!report.says_something());
    let why = report.rows[0].invalid.clone().unwrap();
    snapshot!(why);
}

#[test]
fn the_polarity_is_that_of_three_marks_of_four_or_unsure() {
    for (turned, reported) in [(5, "as played"), (6, "unsure"), (14, "unsure"), (15, "turned")] {
        let mut judge = Judge::new(SETTINGS.rate, LocalTime::ZERO);
        for mark in 0..20 {
            let (played, mut received) = at(mark, 1000);
            // The last mark belongs to the minority.
            let is_turned = if turned > 10 { mark < turned } else { mark >= 20 - turned };
            received.gain *= if is_turned { -1.0 } else { 1.0 };
            judge.played(played);
            judge.received(received);
        }
        let outcome = judge.finish(LocalTime::NEVER);
        let found = MeasuredDelay::new([SETTINGS; 2], None, outcome);
        assert_eq!(found.marks.polarity(), Some(reported), "{turned}: {found:?}");
    }
}

#[test]
fn samples_changed_only_by_xruns_are_reported_as_such() {
    let reported = |lost: u64, xruns: [u64; 2], skipped: [i64; 2]| {
        let mut judge = Judge::new(SETTINGS.rate, LocalTime::ZERO);
        for mark in 0..2000 {
            let (played, mut received) = at(mark, 1000);
            received.gain = 10_f64.powf(Marker::LEVEL_DB / 20.0);
            received.words = received.frame as u64 / 64;
            received.words -= if mark > 1000 { lost.min(received.words) } else { 0 };
            judge.played(played);
            judge.received(received);
        }
        let outcome = judge.finish(LocalTime::NEVER);
        let mut found = MeasuredDelay::new([SETTINGS; 2], None, outcome);
        let [output, input] =
            [0, 1].map(|end| DeviceFaults { xruns: xruns[end], skipped: skipped[end] });
        found.devices(output, input, 0);
        (found.marks.bit_exact(), found.marks.exactness.and_then(Exactness::name))
    };
    assert_eq!(reported(0, [3, 3], [0, 0]), (Some(true), None), "of xruns before, say");
    // Three xruns each: 20 skipped words, and two more per xrun.
    assert_eq!(reported(32, [3, 3], [0, 1280]), (Some(false), Some("xruns")));
    assert_eq!(reported(36, [3, 3], [0, 1280]), (Some(false), Some("other")));
    assert_eq!(
        reported(32, [0, 0], [0, 0]),
        (Some(false), Some("other")),
        "no device skipped frames"
    );
    // Without any word, xruns cannot be the only cause.
    assert_eq!(reported(u64::MAX, [3, 3], [0, 1 << 30]), (Some(false), Some("other")));
}

#[test]
fn bound_is_wider_for_correlated_neighbouring_groups() {
    let bound = |place: fn(i64) -> i64| {
        let delay = |mark: i64| Span::from_micros(5 * place(mark / 5) + mark % 5);
        let values: Vec<_> = (0..100)
            .map(|mark| (LocalTime::ZERO + Span::from_millis(10 * mark), delay(mark)))
            .collect();
        bound::bound_95(&values, &[], Span::ZERO).unwrap().as_nanos() as f64
    };
    let (alike, mixed) = (bound(|group| group), bound(|group| group * 7 % 20));
    assert!((mixed - 13_849.0).abs() < 10.0, "{mixed}");
    assert!(alike > 3.0 * mixed, "{alike} {mixed}");
}
