//! The faults of `crates/sim/tests` on real sockets: sound returns within a second, is never
//! louder, needs no more memory, and missed packets are counted.

use std::ops::{Range, RangeInclusive};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::common::host::timed;
use crate::common::lab::Lab;
use crate::common::program::Running;
use crate::common::report::Report;
use crate::common::sound::Sound;
use crate::common::{Onlooker, PATIENT};

const TONE: &str = "--input tone:997";
const RATE: usize = 48_000;

/// Asserts silence that lasts `lasts` frames from the first to the last one, mostly in one piece,
/// with at least `after` frames of sound after it.
#[track_caller]
fn is_silent_once_and_sounds_after(received: &Sound, lasts: RangeInclusive<usize>, after: usize) {
    let silences = received.silences(RATE / 100);
    let reported = format!("frames of silence: {silences:?}, not {lasts:?}");
    let (Some(first), Some(last)) = (silences.first(), silences.last()) else {
        panic!("{reported}")
    };
    let longest = silences.iter().map(Range::len).max().unwrap_or(0);
    assert!(longest >= *lasts.start() && last.end - first.start <= *lasts.end(), "{reported}");
    let sound = (last.end..received.frames()).filter(|frame| received.sounds(*frame)).count();
    assert!(sound >= after, "{sound} frames of sound after; {reported}");
}

fn peak(received: &Sound, frames: std::ops::Range<usize>) -> i32 {
    frames.flat_map(|frame| received.frame(frame)).map(|sample| sample.abs()).max().unwrap_or(0)
}

#[track_caller]
fn never_louder_than_its_beginning(received: &Sound) {
    let begins = received.begins().unwrap();
    let (before, after) = (
        peak(received, begins..begins + RATE / 2),
        peak(received, begins + RATE / 2..received.frames()),
    );
    assert!(f64::from(after) <= f64::from(before) * 1.01, "{after} against {before}");
}

/// Allows for the allocator's reserve.
#[track_caller]
fn in_no_more_memory(program: &Running, before: u64) {
    let now = program.memory();
    assert!(now <= before + (2 << 20), "{now} bytes, {before} before");
}

fn seen(recv: &str, send: &str) -> (Lab, Onlooker, Running, Running) {
    let (lab, onlooker) = (Lab::straight(), Onlooker::new());
    let recv = lab.recv(recv);
    let send = lab.send_call(&format!("{TONE} {send}")).and(["--to", &onlooker.address()]);
    let send = send.start();
    (lab, onlooker, recv, send)
}

/// Longest time between device wake-ups among xruns, and its end since the start, in milliseconds.
fn longest_xrun(report: &Report) -> (i64, i64) {
    let nanos = |value: &Value| value.as_i64().unwrap_or_else(|| panic!("{:#}", report.0));
    let xruns = report.0["streams"][0]["xruns"].as_array().unwrap().iter();
    let each = xruns.map(|xrun| {
        let at = nanos(&xrun["at_ns"]);
        (at - nanos(&xrun["last_wakeup_ns"]), at - nanos(&report.0["started_ns"]))
    });
    let (length, at) = each.max().unwrap_or_else(|| panic!("no xrun in {:#}", report.0));
    (length / 1_000_000, at / 1_000_000)
}

mod exclusive {
    use super::*;

    #[test]
    fn receiver_stopped_for_five_seconds_recovers_within_one() {
        timed(|| {
            let patient = PATIENT.join(" ");
            let (lab, onlooker, recv, send) = seen(&patient, &patient);
            onlooker.see(2000);
            let before = recv.memory();
            recv.signal("-STOP");
            onlooker.see(5000);
            recv.signal("-CONT");
            onlooker.see(2000);
            in_no_more_memory(&recv, before);
            send.signal("-INT");
            send.end().well();
            let report = recv.end().report();
            let received = lab.received();
            never_louder_than_its_beginning(&received);
            is_silent_once_and_sounds_after(&received, 9 * RATE / 2..=6 * RATE, 3 * RATE / 2);
            // Each missed packet counts once, for the stalled receiver: late in the socket, due
            // during silence, or discarded.
            report.adds_up();
            let missed: u64 =
                ["late", "lost", "underrun_discarded"].map(|name| report.count(name)).iter().sum();
            assert!((4_500..=5_500).contains(&missed), "{missed} missed: {:#}", report.0);
            for cause in ["late_sender", "late_network", "late_unattributed", "lost"] {
                assert_eq!(report.cause(cause), 0, "{cause} in {:#}", report.0);
            }
            // The host may have stalled for a tenth of that.
            assert!(report.cause("host_stalled") < 500, "{:#}", report.0);
        });
    }

    #[test]
    fn xrun_times_are_in_both_reports_and_on_the_page() {
        timed(|| {
            let patient = PATIENT.join(" ");
            let (lab, onlooker) = (Lab::straight(), Onlooker::new());
            // Cards, because a file waits for a late program.
            let recv = format!("{patient} --packet-log heard.csv --report-file page.html");
            let recv = lab.recv_to("virtual:", &recv);
            let send = format!("--input virtual:?tone=997 {patient} --report-file sent.html");
            let send = lab.send_call(&send).and(["--to", &onlooker.address()]).start();
            onlooker.see(2_000);
            recv.signal("-STOP");
            onlooker.see(1_000);
            recv.signal("-CONT");
            onlooker.see(1_000);
            send.signal("-STOP");
            sleep(Duration::from_secs(1));
            send.signal("-CONT");
            onlooker.see(1_000);
            send.signal("-INT");
            let sent = send.end().report();
            let received = recv.end().report();
            for (report, minimum) in [(&received, 2_000), (&sent, 4_000)] {
                let (length, at) = longest_xrun(report);
                // A second, minus the delay of this test.
                assert!(length >= 500, "{length} ms: {:#}", report.0);
                let ends = report.0["duration_ns"].as_i64().unwrap() / 1_000_000;
                assert!((minimum..ends).contains(&at), "{at} ms of {ends}: {:#}", report.0);
                let kept = report.0["streams"][0]["xruns"].as_array().unwrap().iter();
                let kept: u64 = kept.map(|xrun| xrun["count"].as_u64().unwrap()).sum();
                assert_eq!(kept, report.count("xruns"), "{:#}", report.0);
            }
            let page = |name: &str| std::fs::read_to_string(lab.folder.file(name)).unwrap();
            let (received, sent) = (page("page.html"), page("sent.html"));
            assert!(received.contains("xruns are marked, each where it was"), "{received}");
            assert!(
                received.contains("each line ends in its name; xruns are marked"),
                "{received}"
            );
            let listed = "xrun times are relative to the start of the run";
            assert!(sent.contains("<h3>When: xruns</h3>") && sent.contains(listed), "{sent}");
            assert!(!received.contains(listed), "{received}");
        });
    }
}
