//! `--sample-packets`.

use crate::common::loopback;
use crate::common::program::{taut, words};

#[test]
fn a_sender_that_measures_nothing_reports_no_figure() {
    let line =
        format!("send --input null: --to {} --duration 50ms --sample-packets off", loopback());
    let report = taut(words(&line)).and(["--report", "json"]).run().report();
    assert_eq!(report.stream("/sampling"), "off", "{:#}", report.0);
    assert!(report.count("packets_sent") > 0, "{:#}", report.0);
    assert_eq!(report.stream("/stages").as_array().map(Vec::len), Some(0), "{:#}", report.0);
    assert!(report.stream("/lateness").is_null(), "{:#}", report.0);
}
