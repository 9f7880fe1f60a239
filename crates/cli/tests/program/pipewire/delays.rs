//! `taut lab delay` from node to node.

use serde_json::Value;

use crate::common::desktop::{Desktop, QUANTUM};
use crate::common::host::{mostly, steady, timed};
use crate::common::messages;
use crate::common::program::Running;

pub(super) fn delay(lab: Running) -> (f64, f64) {
    let report = lab.end().report().0;
    let row = &report["rows"][0];
    let frames = |nanos: &Value| {
        nanos.as_f64().unwrap_or_else(|| panic!("no delay in {report:#}")) * 48_000.0 / 1e9
    };
    (frames(&row["measured"]["p50_ns"]), frames(&row["uncertainty_ns"]))
}

fn lab(desktop: &Desktop, output: &str, input: &str, seconds: u32) -> Running {
    lab_with(QUANTUM, desktop, (output, input), seconds)
}

pub(super) fn lab_with(
    period: usize,
    desktop: &Desktop,
    (output, input): (&str, &str),
    seconds: u32,
) -> Running {
    let line = format!("lab delay --output {output} --input {input} --period {period}");
    desktop.taut(&format!("{line} --settle 1s --duration {seconds}s --report json")).start()
}

mod exclusive {
    use super::*;

    #[test]
    fn lab_delay_is_nothing_where_two_nodes_are_linked_directly() {
        timed(|| {
            let Some(desktop) = Desktop::start() else { return };
            let lab = lab(&desktop, "pipewire:Marks", "pipewire:Ear", 10);
            // A connection needs both nodes to run.
            let lab = lab.wait_for(messages::MARKS_PLAYED);
            for (name, ports) in [("Marks", 2), ("Ear", 4)] {
                desktop.node(name, ports);
                desktop.runs(name);
            }
            desktop.link("Marks:capture_FL", "Ear:playback_FL");
            let (measured, uncertainty) = delay(lab);
            mostly(|| assert!(measured.abs() <= uncertainty, "{measured} ± {uncertainty}"));
        });
    }

    #[test]
    fn duplex_pipewire_node_receives_itself_one_cycle_later() {
        steady(|| {
            let Some(desktop) = Desktop::with_cycles_of(1024) else { return };
            let lab = lab_with(1024, &desktop, ("pipewire:Loop", "pipewire:Loop"), 3);
            desktop.node("Loop", 4);
            desktop.runs("Loop");
            for channel in [1, 2] {
                desktop.link(&format!("Loop:out_{channel}"), &format!("Loop:in_{channel}"));
            }
            let (frames, unsure) = delay(lab);
            assert!((frames - 1024.0).abs() <= unsure && unsure < 8.0, "{frames} ± {unsure}");
        });
    }
}
