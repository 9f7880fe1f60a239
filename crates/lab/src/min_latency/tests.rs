use serde_json::json;
use tautline_proto::time::Frames;
use tautline_sim::clock::TrueTime;
use tautline_sim::link::{Jitter, PathModel};
use tautline_sim::scenario::Scenario;
use tautline_sim::world::play;
use tautline_trial::snapshot;

use super::*;
use crate::streams::tests::{outcome, read};

fn searched(
    max_latency: u32,
    goes: impl Fn(LatencyTry) -> SearchResult,
) -> (Vec<LatencyTry>, LatencySearch) {
    let (mut search, mut all) = (LatencySearch::new(max_latency), Vec::new());
    while let Some(next) = search.next() {
        all.push(next);
        assert!(all.len() < 60, "{all:?}");
        search.tried(goes(next));
    }
    (all, search)
}

fn whole_if(whole: bool) -> SearchResult {
    if whole { SearchResult::Whole } else { SearchResult::Missed }
}

#[test]
fn the_least_is_found_to_a_step_and_held_once() {
    for minimum in 0..400 {
        let (all, search) = searched(500, |one| whole_if(one.steps >= minimum));
        assert_eq!(search.minimum(), Some(minimum), "{all:?}");
        let held: Vec<u32> = all.iter().filter(|one| one.held).map(|one| one.steps).collect();
        assert_eq!(held, [minimum], "{all:?}");
        assert!(all.len() <= 20, "{all:?}");
        let below = all.iter().any(|one| one.steps + 1 == minimum);
        assert!(below || minimum == 0, "the result one step below is unknown: {all:?}");
    }
}

#[test]
fn misses_under_hold_are_searched_in_holds() {
    for tried in 0..40 {
        for held in tried..60 {
            let goes = |one: LatencyTry| one.steps >= if one.held { held } else { tried };
            let (all, search) = searched(100, |one| whole_if(goes(one)));
            assert_eq!(search.minimum(), Some(held), "{all:?}");
            let holds = all.iter().filter(|one| one.held).count();
            assert!(holds <= 1 + 2 * 7, "{all:?}");
        }
    }
}

#[test]
fn search_without_success_tries_the_maximum() {
    let (all, search) = searched(100, |_| SearchResult::Missed);
    assert_eq!((search.minimum(), all.last().map(|one| one.steps)), (None, Some(100)));
    let (all, search) = searched(100, |one| whole_if(!one.held));
    assert_eq!(search.minimum(), None, "{all:?}");
    assert_eq!(all.last(), Some(&LatencyTry { steps: 100, held: true }));
}

#[test]
fn stalled_try_is_repeated_without_moving_the_search() {
    let mut search = LatencySearch::new(100);
    search.tried(SearchResult::Missed);
    let next = search.next();
    for _ in 1..FROZEN_TRIES {
        assert_eq!(search.tried(SearchResult::Frozen { besides: true }), TryVerdict::Again);
        assert_eq!(search.next(), next);
    }
    let mut other = search;
    assert_eq!(search.tried(SearchResult::Frozen { besides: true }), TryVerdict::Fails);
    assert_eq!(other.tried(SearchResult::Frozen { besides: false }), TryVerdict::Unknown);
    assert_eq!(search.next(), other.next());
    assert_ne!(search.next(), next);
    assert_eq!(other.tried(SearchResult::Frozen { besides: true }), TryVerdict::Again);
}

#[test]
fn second_invalid_try_in_a_row_ends_the_search() {
    let mut search = LatencySearch::new(100);
    assert_eq!(search.tried(SearchResult::Invalid), TryVerdict::Again);
    assert_eq!(search.tried(SearchResult::Missed), TryVerdict::Fails);
    assert_eq!(search.tried(SearchResult::Invalid), TryVerdict::Again);
    assert_eq!(search.tried(SearchResult::Invalid), TryVerdict::GivesUp);
    assert_eq!((search.next(), search.gave_up(), search.minimum()), (None, true, None));
}

#[test]
fn invalid_tries_around_a_stall_do_not_end_the_search() {
    let mut search = LatencySearch::new(100);
    for finding in
        [SearchResult::Invalid, SearchResult::Frozen { besides: true }, SearchResult::Invalid]
    {
        assert_eq!(search.tried(finding), TryVerdict::Again, "{finding:?}");
    }
    assert!(!search.gave_up());
    assert_eq!(search.tried(SearchResult::Invalid), TryVerdict::GivesUp);
}

/// 1 s of a stream (10 s for a hold) with up to 3 ms path delay. With `freezes`, the receiver's
/// host stalls for 30 ms.
fn over_a_path(latency: Span, held: bool, seed: u64, freezes: bool) -> SearchResult {
    let millis = |at: i64| TrueTime::ZERO.after(Span::from_millis(at));
    let path = PathModel {
        jitter: Jitter::Uniform(Span::from_millis(3)),
        ..PathModel::ideal(Span::from_micros(200))
    };
    let mut scenario = Scenario { latency, ..Scenario::one_way(path, seed) };
    if freezes {
        scenario.receivers[0].host.stopped = vec![(millis(600), millis(630))];
    }
    let received = &play(scenario, Span::from_secs(if held { 10 } else { 1 }))[0];
    let gaps = received.gaps;
    let of_way = gaps.late_sender + gaps.late_network + gaps.late_unattributed;
    let late = of_way + gaps.late_too_short + gaps.late_receiver;
    // Silence because the program was late is an xrun.
    let starved = u64::from(received.starved > Frames::ZERO);
    // This card starves only in stalls, so they count as the host's.
    let besides = late + gaps.lost + gaps.discarded;
    let missed = besides + gaps.host_stalled + starved;
    match (missed, freezes) {
        (0, _) => SearchResult::Whole,
        (_, false) => SearchResult::Missed,
        (_, true) => SearchResult::Frozen { besides: besides > 0 },
    }
}

#[test]
fn search_under_jitter_and_stalls_equals_trying_all() {
    for seed in 0..6 {
        let first = Span::from_millis(3);
        let latency = |steps: u32| first + Span::from_micros(100).times(i64::from(steps));
        let whole = |steps| {
            [false, true]
                .iter()
                .all(|held| over_a_path(latency(steps), *held, seed, false) == SearchResult::Whole)
        };
        let minimum = (0..100).find(|steps| whole(*steps)).unwrap();
        assert!(minimum > 5, "the path holds nothing");
        let (mut search, mut number, mut frozen) = (LatencySearch::new(100), 0, 0);
        while let Some(LatencyTry { steps, held }) = search.next() {
            number += 1;
            assert!(number < 60, "it does not end");
            let found = over_a_path(latency(steps), held, seed, number % 3 != 0);
            frozen += u32::from(matches!(found, SearchResult::Frozen { .. }));
            search.tried(found);
        }
        assert!(frozen > 4, "seed {seed}: {frozen} of {number} were spoilt");
        assert_eq!(search.minimum(), Some(minimum), "seed {seed}, {number} tries");
    }
}

#[test]
fn latencies_are_whole_steps_above_the_minimum() {
    let plan = LabStream { period: 32, ptime: Span::from_micros(667), ..LabStream::default() };
    let step = Span::from_micros(100);
    assert_eq!(taken(Rate::HZ_48000, &plan), Span::from_millis(2));
    assert_eq!(whole_steps(Span::from_millis(2), step), Span::from_millis(2));
    let plan = LabStream { period: 240, periods: 3, ..LabStream::default() };
    // A block's first packet is as old as the block.
    assert_eq!(taken(Rate::HZ_48000, &plan), Span::from_millis(20));
    assert_eq!(whole_steps(Span::from_micros(2001), step), Span::from_micros(2100));
}

fn carried(lost: &[i64]) -> StreamOutcome {
    let mut outcome = outcome(4000, lost);
    outcome.sent = read(json!({"role": "send", "streams": [{}]}));
    outcome.received.streams[0].clock = read(json!({"source": "host"}));
    outcome.received.streams[0].counters.lost = lost.len() as u64;
    outcome
}

fn seen(outcome: StreamOutcome) -> MeasuredTry {
    judged(Ok(outcome), &LabStream::default(), "5ms")
}

#[test]
fn late_lost_unheard_and_xruns_each_count_as_a_miss() {
    assert_eq!(seen(carried(&[])).finding, SearchResult::Whole);
    assert_eq!(seen(carried(&[100])).finding, SearchResult::Whole);
    let found = |outcome, finding| {
        let seen = seen(outcome);
        assert_eq!(seen.finding, finding);
        seen.lacked
    };
    let lacked = |outcome| found(outcome, SearchResult::Missed);
    snapshot!(lacked(carried(&[2500, 2501])));
    let mut late = carried(&[2500]);
    late.arrivals[3000].late = true;
    snapshot!(lacked(late));
    let mut not_received = carried(&[]);
    not_received.arrivals[3000].receiver[1] = None;
    snapshot!(lacked(not_received.clone()));
    not_received.received.streams[0].counters.xruns = 1;
    snapshot!(found(not_received, SearchResult::Xruns));
    let mut sender = carried(&[]);
    sender.sent.streams[0].counters.xruns = 1;
    snapshot!(found(sender, SearchResult::Xruns));
    let mut receiver = carried(&[]);
    receiver.received.streams[0].counters.xruns = 2;
    snapshot!(found(receiver, SearchResult::Xruns));
}

#[test]
fn packets_that_were_never_sent_are_a_miss_that_no_network_made() {
    let mut outcome = carried(&[2500, 2501]);
    let unsent: Vec<u32> = outcome.departures[2500..2502].iter().map(|one| one.timestamp).collect();
    outcome.departures.retain(|packet| !unsent.contains(&packet.timestamp));
    assert_eq!(seen(outcome.clone()).finding, SearchResult::Missed);
    snapshot!(seen(outcome.clone()).lacked);
    outcome.sent.streams[0].counters.xruns = 1;
    let seen = seen(outcome);
    snapshot!(seen.lacked);
    assert_eq!(seen.finding, SearchResult::Xruns);
}

#[test]
fn all_packets_late_is_a_miss_not_an_invalid_row() {
    let mut outcome = carried(&[]);
    for packet in &mut outcome.arrivals {
        (packet.late, packet.measured) = (true, None);
    }
    let seen = seen(outcome.clone());
    assert_eq!((seen.finding, &seen.row.invalid), (SearchResult::Missed, &None));
    snapshot!(seen.lacked);
    // Missing log lines are not missed packets.
    outcome.received.incomplete_files.push("the ledger is incomplete".into());
    assert_eq!(self::seen(outcome).finding, SearchResult::Invalid);
}

#[test]
fn xruns_before_counting_are_no_miss_but_untimed_ones_are() {
    let xrun = |at_ms: i64, count: u32| json!({"at_ns": at_ms * 1_000_000, "count": count});
    let with = |end: usize, all: u64, reported: &[serde_json::Value]| {
        let mut outcome = carried(&[]);
        let report = if end == 0 { &mut outcome.sent } else { &mut outcome.received };
        report.streams[0].counters.xruns = all;
        report.streams[0].xruns = read(json!(reported));
        seen(outcome)
    };
    for (end, name) in ["sender", "receiver"].into_iter().enumerate() {
        assert_eq!(with(end, 2, &[xrun(20, 2)]).finding, SearchResult::Whole, "{name}");
        let lacked = |all, reported: &[_]| {
            let seen = with(end, all, reported);
            assert_eq!(seen.finding, SearchResult::Xruns, "{name}");
            seen.lacked
        };
        let one = format!("1 xrun of the {name}; 2000 packets were due");
        assert_eq!(lacked(3, &[xrun(1999, 2), xrun(2000, 1)]), one);
        assert_eq!(lacked(3, &[xrun(20, 2)]), one, "one is counted alone");
    }
}

#[test]
fn misses_explained_by_host_stalls_only_spoil_the_try() {
    // A sender's stall shows as an xrun, a receiver's as a late packet.
    let frozen = |end: usize, missed: u64, host_stalled: u64, lost: &[i64]| {
        let mut outcome = carried(lost);
        let report = if end == 0 { &mut outcome.sent } else { &mut outcome.received };
        report.host.stalls = 1;
        let counters = &mut report.streams[0].counters;
        counters.host_stalled = host_stalled;
        if end == 0 {
            counters.xruns = missed;
        }
        seen(outcome).finding
    };
    assert_eq!(frozen(0, 0, 0, &[]), SearchResult::Whole, "it lost nothing");
    assert_eq!(frozen(0, 1, 1, &[]), SearchResult::Frozen { besides: false });
    assert_eq!(frozen(0, 2, 1, &[]), SearchResult::Xruns);
    // A stall does not explain the other end's misses.
    assert_eq!(frozen(0, 1, 1, &[2500]), SearchResult::Frozen { besides: true });
    assert_eq!(frozen(1, 0, 1, &[2500]), SearchResult::Frozen { besides: false });
    assert_eq!(frozen(1, 0, 1, &[2500, 2900]), SearchResult::Frozen { besides: true });
    // Earlier losses are part of the stall's cost.
    assert_eq!(frozen(1, 0, 1, &[100, 2500]), SearchResult::Frozen { besides: false });
}

impl CaseHosts for () {
    fn replace_silent(&mut self) -> Result<(), HostError> {
        Ok(())
    }
}

fn lab_report(carry: impl Fn(i64, bool, u32) -> Result<StreamOutcome, HostError>) -> LabReport {
    let [first, step, max_latency, hold] = [3, 1, 20, 60_000].map(Span::from_millis);
    let options = MinLatencyOptions { first, step, max_latency, hold };
    let mut notify = |_: &ReportRow| true;
    let mut cases = Cases::of("min-latency", &mut notify);
    let number = std::cell::Cell::new(0);
    let tries = tries(&mut cases, &mut (), (&LabStream::default(), options), |(), plan| {
        number.set(number.get() + 1);
        carry(plan.latency.as_nanos() / 1_000_000, plan.duration == hold, number.get())
    });
    let mut report = cases.report;
    tries.notify(&mut report, options, false);
    report
}

fn names(report: &LabReport) -> Vec<&str> {
    report.rows.iter().map(|row| row.name.as_str()).collect()
}

#[test]
fn latency_is_not_raised_for_xruns_alone() {
    let of = |lost: &'static [i64]| {
        lab_report(move |latency, held, _| {
            let fails = held && latency < 6;
            let mut outcome = carried(if fails { lost } else { &[] });
            outcome.sent.streams[0].counters.xruns = u64::from(fails);
            Ok(outcome)
        })
    };
    let report = of(&[]);
    assert_eq!(names(&report), ["3ms", "3ms, held", "3ms, held, try 2", "3ms, held, try 3"]);
    let result = |row: &ReportRow| {
        row.figures.iter().find(|figure| figure.key == "result").unwrap().value.clone()
    };
    assert_eq!(report.rows.iter().skip(1).map(result).collect::<Vec<_>>(), ["xruns"; 3]);
    snapshot!(report.answer.unwrap());
    assert_eq!(names(&of(&[3000])).last(), Some(&MIN));
}

#[test]
fn each_try_is_a_row_and_the_last_is_the_minimum() {
    let report = lab_report(|latency, held, _| {
        let minimum = if held { 6 } else { 5 };
        Ok(carried(if latency < minimum { &[3000, 3001][..] } else { &[] }))
    });
    let all = ["3ms", "5ms", "4ms", "5ms, held", "7ms, held", MIN];
    assert_eq!(names(&report), all);
    let last: serde_json::Value = serde_json::to_value(report.rows.last().unwrap()).unwrap();
    assert_eq!((&last["result"], &last["below_ns"]), (&json!("no loss"), &json!(5_000_000)));
    snapshot!(last["below_missed"]);
    assert_eq!((&last["missed"]["due"], &last["missed"]["missed"]), (&json!(2000), &json!(0)));
    let note = report.answer.as_ref().unwrap();
    snapshot!(note);
    let second = report.to_string().lines().nth(1).map(str::to_owned);
    assert_eq!(second, Some(format!("answer: {note}")), "the result is read first");
    assert!(report.rows.last().is_some_and(|row| !row.points.is_empty()));
    assert!(report.rows[0].points.is_empty());
}

#[test]
fn expected_number_of_tries_is_never_exceeded() {
    for steps in [1, 2, 3, 7, 100, 970] {
        let millis = Span::from_millis;
        let max_latency = millis(3 + i64::from(steps));
        let options =
            MinLatencyOptions { first: millis(3), step: millis(1), max_latency, hold: millis(60) };
        let tries = MAX_TRIES_PER_DOUBLING * options.steps().ilog2() + FEWEST_TRIES;
        let mut maximum = 0;
        for minimum in 0..=steps {
            let mut search = LatencySearch::new(steps);
            let mut taken = 0;
            while let Some(next) = search.next().filter(|next| !next.held) {
                taken += 1;
                search.tried(match next.steps >= minimum {
                    true => SearchResult::Whole,
                    false => SearchResult::Missed,
                });
            }
            maximum = maximum.max(taken);
        }
        assert!(
            (tries / 2..=tries).contains(&maximum),
            "{maximum} tries of {tries} for {steps} steps"
        );
    }
    let plan = LabStream { settle: Span::from_secs(2), ..LabStream::default() };
    let [first, step, max_latency] =
        [Span::from_millis(3), Span::from_micros(100), Span::from_millis(100)];
    let options = MinLatencyOptions { first, step, max_latency, hold: Span::from_secs(60) };
    snapshot!(options.expected(&LabStream { duration: Span::from_secs(12), ..plan }));
}

#[test]
fn stalled_tries_are_rows_of_their_own() {
    let report = lab_report(|_, _, number| {
        let mut outcome = carried(if number <= 2 { &[3000] } else { &[] });
        outcome.received.host.stalls = 1;
        Ok(outcome)
    });
    assert_eq!(names(&report), ["3ms", "3ms, try 2", "3ms, try 3", MIN]);
    let results: Vec<_> = report
        .rows
        .iter()
        .map(|row| row.figures.iter().find(|figure| figure.key == "result").unwrap().value.clone())
        .collect();
    assert_eq!(results, ["host stalled", "host stalled", "no loss", "no loss"]);
    assert!(report.notes[0].ends_with(": 2"), "{:?}", report.notes);
    snapshot!(report.answer.unwrap());
}

#[test]
fn bound_names_the_excluded_holds() {
    let report = lab_report(|latency, held, number| {
        let mut outcome = carried(match (held, latency, number) {
            // 3 ms passes a try; 3 and 4 ms fail the hold, 5 ms passes it the second time.
            (true, 3, _) => &[3000],
            (true, 4, _) => &[3000],
            (true, 5, 3) => &[3000],
            _ => &[],
        });
        if held && latency == 5 {
            outcome.received.host.stalls = 1;
        }
        Ok(outcome)
    });
    let reported = report.answer.as_ref().unwrap();
    snapshot!(reported);
    let report = lab_report(|_, _, _| Ok(carried(&[])));
    let reported = report.answer.as_ref().unwrap();
    assert!(!reported.contains("stalls") && !reported.contains("failed"), "{reported}");
}

#[test]
fn failed_search_reports_the_reason_and_no_minimum() {
    let report = lab_report(|_, _, _| Ok(carried(&[3000])));
    assert!(!names(&report).contains(&MIN), "{:?}", names(&report));
    let answer = report.answer.as_ref().unwrap();
    assert!(answer.contains("up to 20ms") && answer.contains("1 lost"), "{answer}");
    let first = report.to_string().lines().nth(1).map(str::to_owned);
    assert!(first.is_some_and(|first| first.starts_with("answer: no latency")), "{report}");
    let refused =
        || HostError::Refused { place: "ssh:x".to_owned(), why: "no such device".to_owned() };
    let report = lab_report(|_, _, _| Err(refused()));
    assert_eq!(names(&report), ["3ms", "3ms, try 2"]);
    assert_eq!(report.rows[1].invalid, Some(refused().to_string()));
    let answer = report.answer.as_ref().unwrap();
    assert!(answer.contains("search aborted"), "{answer}");
    assert!(!report.says_something());
}
