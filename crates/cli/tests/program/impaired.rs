//! Receivers report exactly the impairments of their network.

use crate::common::host::{mostly, timed};
use crate::common::lab::Lab;
use crate::common::program::{taut, words};
use crate::common::{Folder, free_udp_ports, shared};
use crate::errors::is_refused;

/// Survives stalls of tens of milliseconds, so the host causes no losses.
const PATIENT: &str = "--period 240 --periods 32 --no-stall-monitor";
const SEND: &str = "--input tone:997 --duration 3s --latency 400ms --period 240 --periods 32";

#[test]
fn relayed_duplicates_and_reordering_are_counted() {
    shared(|| {
        let mut lab = Lab::start("--delay 2ms --reorder 5% --duplicate 5% --seed 3");
        let carried = lab.carry(SEND, PATIENT);
        assert_eq!(
            carried.received.count("duplicate"),
            carried.relayed.there("duplicated"),
            "{carried}"
        );
        assert!(carried.received.count("reordered") > 100, "{carried}");
        assert_eq!(carried.received.count("lost") + carried.received.count("late"), 0, "{carried}");
        assert!(lab.received().begins().is_some());
    });
}

#[test]
fn kernel_losses_equal_the_receivers_lost_count() {
    shared(|| {
        let Some(mut lab) = Lab::on_cable(None) else { return };
        let receiver = &lab.cable.as_ref().unwrap().right;
        if !receiver.loses(5, 5004) {
            return;
        }
        let carried = lab.carry(SEND, PATIENT);
        let (lost, missed) =
            (lab.cable.as_ref().unwrap().right.lost(), carried.received.count("lost"));
        assert!(missed <= lost && lost <= missed + 5, "{lost} were lost; {carried}");
        assert!((90..220).contains(&lost), "{carried}");
    });
}

#[test]
fn experiments_are_listed_and_bad_ones_suggest_alternatives() {
    let listed = taut(words("lab list")).run().well().out;
    let (experiments, others) = listed.split_once("\n\n").unwrap();
    assert!(experiments.contains("\nstages  "), "{listed}");
    assert!(!experiments.contains("impair"), "{listed}");
    for line in ["all ", "compare ", "impair "] {
        assert!(others.lines().any(|other| other.starts_with(line)), "{line}: {listed}");
    }
    let folder = Folder::new();
    std::fs::write(folder.file("record.csv"), "delay_us every 1ms\n5\nsix\n").unwrap();
    let ports = format!("--listen 127.0.0.1:{} --to 127.0.0.1:5004", free_udp_ports());
    for record in ["record.csv", "none.csv"] {
        let line = format!("lab impair {ports} --trace {record}");
        is_refused(&taut(words(&line)).in_folder(folder.path()), 3);
    }
}

mod exclusive {
    use super::*;

    #[test]
    fn relay_delays_as_set_and_reports_its_punctuality() {
        timed(|| {
            let mut lab = Lab::start("--delay 20ms");
            let carried = lab.carry(SEND, PATIENT);
            // The clock is mapped through the same delay both ways, so no offset results.
            let wire = carried.received.stream("/stages/3");
            assert_eq!(wire["name"], "wire", "{carried}");
            let median = wire["summary"]["p50_ns"].as_i64().unwrap();
            let late = carried.relayed.0["lateness"]["p50_ns"].as_i64().unwrap();
            mostly(|| {
                assert!((19_000_000..25_000_000).contains(&median), "{carried}");
                assert!(late < 1_000_000, "{carried}");
            });
            assert!(carried.received.missed() <= 30, "{carried}");
        });
    }
}
