//! Snapshot of a worker's streams for `taut top`, via this user's local socket.

use tautline_api::v1::WorkStreamState;
use tautline_proto::time::Span;
use tautline_report::snapshot::{OffloadSnapshot, Snapshot};

use super::log::WorkLog;

pub(super) fn snapshot(states: &[WorkStreamState], log: &WorkLog, elapsed: Span) -> Snapshot {
    let worked = states.iter().map(|state| OffloadSnapshot {
        id: state.id,
        plugin: state.plugin.clone(),
        client: log.opened_by(state.id).unwrap_or_default().to_owned(),
        phase: phase(state),
        share: state.share,
        blocks: state.counters.blocks,
        missed: state.counters.expired,
        restarts: state.restarts,
    });
    Snapshot { elapsed_ns: elapsed.as_nanos(), offloads: worked.collect(), ..Snapshot::default() }
}

fn phase(state: &WorkStreamState) -> String {
    let word = serde_json::to_value(state.phase).ok();
    word.as_ref().and_then(|word| word.as_str()).unwrap_or_default().to_owned()
}
