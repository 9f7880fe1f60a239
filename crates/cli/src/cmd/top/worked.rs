//! Table of the plugins that local workers run for other machines.

use tautline_report::snapshot::{OffloadSnapshot, Snapshot};

use super::messages::clean;
use super::programs::Programs;
use crate::screen::columns;

const HEAD: [&str; 7] = ["PLUGIN", "FOR", "STATE", "SHARE", "BLOCKS", "MISSED", "RESTARTS"];

pub(super) fn lines(programs: &Programs) -> Vec<String> {
    programs.runs().filter(|run| run.role == "work").flat_map(of).collect()
}

fn of(run: &Snapshot) -> Vec<String> {
    let plural = if run.offloads.len() == 1 { "" } else { "s" };
    let count = run.offloads.len();
    let title = format!("work {}: {count} plugin{plural} for other machines", run.pid);
    let mut lines = vec![title];
    if count > 0 {
        let head = HEAD.map(str::to_owned);
        let rows: Vec<_> = [head].into_iter().chain(run.offloads.iter().map(row)).collect();
        lines.extend(columns(&rows).iter().map(|line| format!("  {line}")));
    }
    lines
}

fn row(worked: &OffloadSnapshot) -> [String; HEAD.len()] {
    let OffloadSnapshot { plugin, client, phase, share, blocks, missed, restarts, .. } = worked;
    [
        clean(plugin),
        clean(client),
        clean(phase),
        format!("{:.1} %", share * 100.0),
        blocks.to_string(),
        missed.to_string(),
        restarts.to_string(),
    ]
}
