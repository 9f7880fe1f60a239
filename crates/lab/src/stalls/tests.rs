use tautline_trial::snapshot;

use super::*;
use crate::answer::parsed;
use crate::statistics::Missed;

fn at(micros: i64) -> LocalTime {
    LocalTime::ZERO + Span::from_micros(micros)
}

/// Checked every millisecond for a second, with these stalls.
fn noted(core: usize, frozen: &[(i64, i64)]) -> CoreLog {
    let mut late = Series::with_room(1000);
    let mut schedule = OpenSchedule::new(at(0), Span::from_millis(1), at(1_000_000));
    while let Some(due) = schedule.next() {
        let holds = frozen.iter().find(|(from, to)| (at(*from)..at(*to)).contains(&due));
        let woke = holds.map_or(due, |(_, to)| at(*to)) + Span::from_micros(20);
        schedule.pass(woke, |due| late.push(due, woke - due));
    }
    CoreLog { core, late, cost: Span::from_millis(15) }
}

fn reported(logs: &[CoreLog], own: impl Fn(&Stall) -> bool) -> LabReport {
    let mut report = LabReport::of("stalls", "");
    notify(&mut report, logs, own);
    report
}

fn figure(row: &ReportRow, key: &str) -> serde_json::Value {
    row.figures.iter().find(|figure| figure.key == key).unwrap().value.clone()
}

#[test]
fn stall_counts_for_every_period_it_covered() {
    let report = reported(&[noted(0, &[(499_500, 509_500)])], |_| false);
    let row = &report.rows[0];
    assert_eq!(row.missed, Some(Missed::of(9, 1000)), "the tenth woke within its period");
    assert_eq!(row.worst[0].value_ns, 9_520_000);
    assert_eq!(row.worst[0].at_ns, 500_000_000);
    assert_eq!(row.worst[1].value_ns, 8_520_000);
    assert_eq!(row.measured.unwrap().p50_ns, Some(20_000));
}

#[test]
fn host_stall_needs_a_stall_of_every_core() {
    let one = noted(2, &[(100_000, 110_000), (500_000, 540_000)]);
    let other = noted(3, &[(300_000, 305_000), (510_000, 530_000), (700_000, 703_000)]);
    let report = reported(&[one, other], |_| false);
    let all = &report.rows[2];
    assert_eq!((report.hosts[0].stalls, figure(all, "stalls")), (Some(1), 1.into()));
    assert_eq!(all.worst.len(), 1);
    assert_eq!((all.worst[0].at_ns, all.worst[0].value_ns), (510_000_000, 20_020_000));
    assert_eq!(figure(all, "stalled_ns"), 20_020_000);
    let because = |row: &ReportRow| row.worst.iter().filter(|worst| worst.cause.is_some()).count();
    assert_eq!(because(&report.rows[0]), 10, "its ten worst lie in the stall");
    snapshot!(report.rows[1].worst[0].cause.as_deref().unwrap());
    assert_eq!(report.rows[1].name, "core 3");
}

#[test]
fn a_program_that_was_stopped_is_no_frozen_host() {
    let logs = [noted(0, &[(500_000, 900_000)]), noted(1, &[(500_000, 900_000)])];
    let report = reported(&logs, |stall| stall.from == at(500_000));
    assert_eq!(report.hosts[0].stalls, Some(0));
    assert!(report.notes[0].contains("stopped for 400.02ms"), "{:?}", report.notes);
}

#[test]
fn cost_of_monitoring_is_reported_per_core() {
    let report = reported(&[noted(0, &[])], |_| false);
    let cost = figure(&report.rows[0], "cost_percent").as_f64().unwrap();
    assert!((cost - 1.5).abs() < 0.01, "{cost}");
    assert_eq!(figure(&report.rows[1], "stalls"), 0);
}

#[test]
fn unavailable_core_is_an_invalid_row_and_others_run() {
    let core = tautline_io::thread::affinity::usable_cores()[0];
    let words = format!("--cpus {core},1048576 --scheduler other --period 1ms --duration 50ms");
    let options = parsed(&words);
    let report = measure(&options, &Stop::default());
    let invalid = report.rows.iter().find(|row| row.name == "core 1048576").unwrap();
    assert!(invalid.invalid.as_ref().unwrap().contains("taskset"), "{invalid:?}");
    assert_eq!(report.rows[0].measured.unwrap().count, 50, "every one that was due");
    assert!(report.says_something());
}

#[test]
fn verdict_names_the_worst_core_and_the_longest_stall() {
    let report = reported(&[noted(0, &[]), noted(3, &[(300_000, 312_000)])], |_| false);
    let verdict = "99 of 100 wake-ups were at most 2.02ms late, on core 3 as the worst; the host never stalled";
    assert!(report.notes.iter().any(|note| note == verdict), "{:?}", report.notes);
    let report =
        reported(&[noted(0, &[(500_000, 540_000)]), noted(1, &[(510_000, 530_000)])], |_| false);
    let verdict = "the host stalled once, for up to 20.02ms: a receiver with a shorter device buffer has an xrun then";
    assert!(report.notes.iter().any(|note| note.ends_with(verdict)), "{:?}", report.notes);
}
