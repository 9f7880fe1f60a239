//! The repair budget: its limits, and the messages about it.

use crate::common::lab::Lab;
use crate::common::messages;
use crate::common::program::{taut, words};
use crate::common::{Onlooker, loopback, shared};
use tautline_proto::text::parse_span;
use tautline_proto::time::Span;
use tautline_trial::snapshot;

#[test]
fn repair_budget_follows_the_latency_through_changes() {
    shared(|| {
        let onlooker = Onlooker::new();
        let line = format!(
            "send --input tone:440 --to {} --latency 20ms --redundancy red:1 --redundancy-budget 50ms \
         --report json --no-stall-monitor",
            onlooker.address()
        );
        let send = taut(words(&line)).controlled().start();
        // Packets are 1 ms old at departure, the buffer is 2 ms, and 1 ms is for the network.
        let send = send.request("status", "redundancy red:1 within 16ms,");
        let send = send.request("latency 40ms", "ok latency 40ms");
        let send = send.request("status", "redundancy red:1 within 36ms,");
        let send = send.request("ptime 5ms", "ok ptime 5ms");
        let send = send.request("status", "redundancy red:1 within 32ms,");
        let send = send.request("latency 12ms", "ok latency 12ms");
        let send = send.refuses("redundancy fec:2");
        let send = send.request("latency 13ms", "ok latency 13ms");
        let send = send.request("redundancy fec:2", "ok redundancy fec:2 within 5ms");
        let send = send.request("latency auto", "ok latency auto");
        let send = send.request("status", "latency auto, now 13ms");
        let send = send.request("status", "redundancy fec:2 within 50ms,");
        let report = send.request("quit", "ok quit").end().report();
        assert_eq!(report.nanos("/redundancy/budget_ns"), 50_000_000, "{:#}", report.0);
        let notes = report.notes();
        let notes: Vec<_> = notes.iter().filter(|note| note.contains("redundancy")).collect();
        assert_eq!(notes.len(), 5, "{notes:#?}");
        notes.iter().enumerate().for_each(|(at, note)| snapshot!(at, note));
    });
}

#[test]
fn budget_beyond_the_packets_reach_is_capped_and_reported() {
    shared(|| {
        let line = format!(
            "send --input tone:440 --to {} --duration 200ms --redundancy red:1 --redundancy-budget 500ms \
         --report json --no-stall-monitor",
            loopback()
        );
        let report = taut(words(&line)).run().report();
        assert_eq!(report.nanos("/redundancy/budget_ns"), 64_000_000, "{:#}", report.0);
        assert_eq!(report.nanos("/latency/configured_ns"), 69_000_000, "{:#}", report.0);
        assert_eq!(report.stream("/redundancy/window"), 64, "{:#}", report.0);
        // A copy of 288 bytes, headers of 3 and 1, the extension header, and padding to a word.
        assert_eq!(report.stream("/redundancy/bytes"), 300, "{:#}", report.0);
        let notes = report.notes();
        assert!(notes.iter().any(|note| note.contains(messages::RED_TIME)), "{notes:#?}");
    });
}

#[test]
fn receiver_without_time_for_repairs_reports_it_once() {
    shared(|| {
        let short = |impair: &str, latency: &str, send: &str| {
            Lab::start(impair).carry(send, &format!("{latency} --no-stall-monitor"))
        };
        // After an xrun, packets carry less redundancy for a while. This buffer, 30 ms above the
        // default, survives a busy host.
        let send = "--input tone:440 --periods 32 --latency 66ms --redundancy red:1 --redundancy-budget 32ms \
                    --duration 3s --no-stall-monitor";
        let lossy = "--loss 5% --seed 5 --back ideal";
        let early = short("--back ideal", "--latency 6ms", send);
        let promised = short(lossy, "", send);
        let short = short(lossy, "--latency 6ms", send);
        // The window and 4 ms, or what arrivals needed so far. A busy host delays some: in the whole
        // run, no packet needs more than this.
        let curve = short.received.stream("/latency/curve").as_array().unwrap();
        let none_late = curve.iter().find(|point| point["late_share"] == 0.0).unwrap();
        let arrivals = Span::from_nanos(none_late["latency_ns"].as_i64().unwrap());
        let most = Span::from_millis(40).max(Span::from_millis(33) + arrivals);
        let is_enough = |note: &str| {
            let latency = note.split("a latency of ").nth(1).unwrap().split(' ').next().unwrap();
            let latency = parse_span(latency).unwrap();
            (Span::from_millis(36)..most).contains(&latency)
        };
        let reported = |notes: &[&str]| {
            let about = |note: &&&str| note.contains("32ms");
            notes.iter().filter(about).map(|note| is_enough(note)).collect::<Vec<_>>()
        };
        assert_eq!(reported(&short.received.notes()), [true], "{short}");
        assert_eq!(short.received.nanos("/repair/window_ns"), 32_000_000, "{short}");
        assert_eq!(short.received.nanos("/repair/needs_ns"), 36_000_000, "{short}");
        for carried in [promised, early] {
            assert!(reported(&carried.received.notes()).is_empty(), "{carried}");
        }
    });
}

#[test]
fn redundancy_can_be_added_later_only_with_header_extensions() {
    let line = format!("send --input tone:440 --to {} --duration 50ms", loopback());
    let later = taut(words(&line))
        .and(words("--redundancy-budget 10ms --no-header-extensions"))
        .controlled();
    later.start().refuses("redundancy red:1").request("quit", "ok quit").end().well();
}
