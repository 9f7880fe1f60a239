//! How many packets are measured, by `--probes`.

use serde_json::Value;

use crate::common::host::steady;
use crate::common::lab::Lab;
use crate::common::loopback;
use crate::common::program::{taut, words};
use crate::errors::is_refused;

#[test]
fn a_ledger_of_few_packets_is_refused_with_the_mend() {
    for end in ["send --input null: --to", "recv --output null: --from"] {
        let line = format!("{end} {} --ledger x.csv --probes 64", loopback());
        is_refused(&taut(words(&line)), 2);
        let line = format!("{end} {} --probes 63", loopback());
        is_refused(&taut(words(&line)), 2);
    }
}

/// Tests that run alone (decision 25).
mod exclusive {
    use super::*;

    #[test]
    fn reports_say_how_many_packets_were_measured_and_have_no_figure_where_none_was() {
        steady(|| {
            for (probes, count) in [("64", 0..=64), ("off", 0..=0)] {
                let mut lab = Lab::straight();
                let carried = lab.carry(
                    &format!("--input tone:997 --duration 4s --latency 100ms --probes {probes}"),
                    &format!("--period 48 --periods 48 --probes {probes}"),
                );
                for report in [&carried.sent, &carried.heard] {
                    assert_eq!(report.stream("/probes"), probes, "{carried}");
                }
                assert!(carried.heard.count("packets_received") > 1000, "{carried}");
                let measured = carried.heard.stream("/latency/measured");
                assert!(count.contains(&measured["count"].as_i64().unwrap()), "{carried}");
                let is_absent =
                    |value: &Value| value.is_null() || value == &Value::Array(Vec::new());
                let figures = ["/stages", "/worst", "/latency/by", "/latency/measured/p50_ns"];
                for figure in figures {
                    assert_eq!(
                        is_absent(carried.heard.stream(figure)),
                        probes == "off",
                        "{figure}"
                    );
                }
                for figure in ["/stages", "/lateness"] {
                    assert_eq!(is_absent(carried.sent.stream(figure)), probes == "off", "{figure}");
                }
            }
        });
    }
}
