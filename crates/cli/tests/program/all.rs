//! Every experiment once: the page links each report, and Ctrl-C keeps finished ones.

use std::time::Instant;

use crate::common::program::{TIMEOUT, taut, words};
use crate::common::{Folder, shared};
use crate::errors::is_refused;

#[test]
fn all_writes_each_report_and_a_page_that_links_them() {
    shared(|| {
        let folder = Folder::new();
        let line = "lab all --out here --only stalls --only interval --report json";
        let ended = taut(words(line)).in_folder(folder.path()).run();
        for (step, left) in [("stalls", 2), ("sent", 1), ("interval", 1)] {
            let reported = |messages: &&String| messages.starts_with(&format!("taut: {step}: "));
            let line = ended.messages.iter().find(reported).unwrap();
            assert!(line.ends_with(&format!("({left} left)")), "{line}");
        }
        let report = ended.report().0;
        let experiments = report["experiments"].as_array().unwrap();
        let names: Vec<_> = experiments.iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["stalls", "interval"], "{report:#}");
        let page = std::fs::read_to_string(folder.file("here/index.html")).unwrap();
        for one in experiments {
            assert!(
                one["failed"].is_null() && !one["rows"].as_array().unwrap().is_empty(),
                "{report:#}"
            );
            let name = one["page"].as_str().unwrap();
            assert!(page.contains(&format!("href=\"{name}\"")), "{page}");
            let own = std::fs::read_to_string(folder.file(&format!("here/{name}"))).unwrap();
            assert!(own.contains("<svg"), "{own}");
        }
        let interval = &experiments[1]["rows"][0]["measured"]["count"];
        assert!(interval.as_u64().is_some_and(|count| count > 1000), "{report:#}");
    });
}

fn has_experiment_that_listens(all: &str) -> bool {
    let read = |path: String| std::fs::read_to_string(path).unwrap_or_default();
    read(format!("/proc/{all}/task/{all}/children")).split_whitespace().any(|child| {
        // Before exec, a child has its parent's arguments and signal handlers.
        let is_begun = read(format!("/proc/{child}/cmdline")).contains("--report-file");
        let status = read(format!("/proc/{child}/status"));
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        // Bit n − 1 belongs to signal n; SIGINT is 2 (proc_pid_status(5), signal(7)).
        is_begun && caught & 0b10 != 0
    })
}

#[test]
fn ctrl_c_ends_the_running_experiment_and_the_page_shows_done() {
    shared(|| {
        let folder = Folder::new();
        let line = "lab all --out . --only stalls --only resources --report json";
        let begun = Instant::now();
        let running = taut(words(line)).in_folder(folder.path()).start().wait_for("taut: stalls:");
        while !has_experiment_that_listens(&running.id()) {
            assert!(begun.elapsed() < TIMEOUT);
            std::thread::yield_now();
        }
        running.signal("-INT");
        let ended = running.end();
        assert_eq!(ended.status, Some(1), "{ended:#?}");
        let report = ended.json();
        assert_eq!(report["ended_early"], true, "{report:#}");
        assert!(!report["experiments"][0]["rows"].as_array().unwrap().is_empty(), "{report:#}");
        let names: Vec<_> =
            report["experiments"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
        assert_eq!(names, ["stalls"], "{report:#}");
        assert!(std::fs::read_to_string(folder.file("index.html")).unwrap().contains("stalls"));
    });
}

#[test]
fn unknown_experiment_and_bad_output_folder_are_refused() {
    is_refused(&taut(words("lab all --out /dev/null/x")), 3);
}
