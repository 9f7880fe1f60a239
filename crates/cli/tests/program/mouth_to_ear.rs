//! `taut lab mouth-to-ear`.

use serde_json::Value;
use tautline_trial::snapshot;

use crate::common::host::alongside;
use crate::common::program::{Ended, taut, words};
use crate::common::{Folder, shared};

/// Rows named `only`, with their own key. Their recordings are in `folder`.
fn run(folder: &Folder, only: &str, line: &str) -> Ended {
    let line = format!("lab mouth-to-ear --duration 1s --settle 500ms --report json {line}");
    let call = taut(words(&line)).and(["--only", only]);
    call.with("TAUT_HOME", folder.path()).in_folder(folder.path()).run()
}

fn rows(ended: &Ended) -> Vec<Value> {
    ended.json()["rows"].as_array().unwrap().clone()
}

fn nanos(row: &Value, pointer: &str) -> i64 {
    row.pointer(pointer).and_then(Value::as_i64).unwrap_or_else(|| panic!("{pointer}: {row:#}"))
}

#[test]
fn recording_confirms_a_calls_own_latency_via_udp_and_tcp() {
    shared(|| {
        let folder = Folder::new();
        let ended = run(&folder, "kept at 15 ms", "").well();
        let rows = rows(&ended);
        assert_eq!(rows.len(), 2, "{rows:#?}");
        for (row, (transport, theirs)) in rows.iter().zip([("UDP", 292), ("TCP", 321)]) {
            assert!(row["name"].as_str().unwrap().ends_with(transport), "{row:#}");
            assert_eq!(nanos(row, "/configured_ns"), 15_000_000, "{row:#}");
            assert_eq!(nanos(row, "/call_p50_ns"), 15_000_000, "{row:#}");
            // The uncertainty is mostly one frame.
            let bound = nanos(row, "/bound_ns");
            assert!(bound < 25_000, "{row:#}");
            let off = nanos(row, "/measured/p50_ns") - 15_000_000;
            assert!(off.abs() <= bound, "{row:#}");
            assert_eq!(row["verdict"], "kept", "{row:#}");
            // Of 200 marks per second; 145 were found on two cores with eight waiting programs.
            assert!(nanos(row, "/measured/count") > 100, "{row:#}");
            assert_eq!(nanos(row, "/published/0/value_ns"), theirs * 1_000_000, "{row:#}");
        }
    });
}

#[test]
fn delay_added_at_the_ear_is_found_in_the_recording() {
    let _turn = alongside();
    let folder = Folder::new();
    let ended = run(&folder, "kept at 15 ms, UDP", "--ear-delay 3370us --keep kept").well();
    let rows = rows(&ended);
    let off = nanos(&rows[0], "/measured/p50_ns") - 18_370_000;
    assert!(off.abs() <= nanos(&rows[0], "/bound_ns"), "{rows:#?}");
    assert_eq!(rows[0]["verdict"], "not kept", "{rows:#?}");
    let line = "lab align kept/001.wav --report json";
    let between = taut(words(line)).in_folder(folder.path()).run().well();
    let between = between.json();
    let off = nanos(&between["rows"][0], "/delay_p50_ns") - 18_370_000;
    assert!(off.abs() <= nanos(&rows[0], "/bound_ns"), "{between:#}");
}

#[test]
fn impossible_buffers_give_invalid_rows_unknown_rows_fail() {
    let folder = Folder::new();
    let ended = run(&folder, "mono, 4 KB, playback 4, recording 4,", "--full");
    assert_eq!(ended.status, Some(1), "{ended:#?}");
    let rows = rows(&ended);
    assert_eq!(rows.len(), 2, "UDP and TCP: {rows:#?}");
    for row in &rows {
        snapshot!("invalid", row["invalid"].as_str().unwrap());
    }
    let refused = run(&folder, "nothing", "");
    assert_eq!(refused.status, Some(2), "{refused:#?}");
    snapshot!(refused.last());
}

#[test]
fn bulk_flow_is_measured_alone_and_next_to_each_transport() {
    let _turn = alongside();
    let folder = Folder::new();
    let ended = run(&folder, "kept at 15 ms", "--bulk").well();
    let rows = rows(&ended);
    let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert!(
        matches!(names[..], [alone, udp, tcp]
        if alone.starts_with("bulk ") && udp.ends_with("UDP") && tcp.ends_with("TCP")),
        "{names:?}"
    );
    for row in &rows {
        assert!(row["invalid"].is_null(), "{row:#}");
        let carried = row["bulk_mbit_per_s"].as_f64().unwrap_or_default();
        assert!(carried > 100.0, "{row:#}");
    }
    assert!(rows[0]["measured"].is_null(), "{:#}", rows[0]);
    assert!(rows[1..].iter().all(|row| nanos(row, "/measured/count") > 0), "{rows:#?}");
}
