//! The streams of a worker, as `taut top` is told them by the local socket of this user: it asks no control port.

use tautline_api::v1::WorkStreamState;
use tautline_proto::time::Span;
use tautline_report::snapshot::{Snapshot, WorkedSnapshot};

use super::log::WorkLog;

/// These streams, of a worker that has run for so long.
pub(super) fn snapshot(states: &[WorkStreamState], log: &WorkLog, elapsed: Span) -> Snapshot {
    let worked = states.iter().map(|state| WorkedSnapshot {
        id: state.id,
        plugin: state.plugin.clone(),
        by: log.opened_by(state.id).unwrap_or_default().to_owned(),
        phase: phase(state),
        share: state.share,
        blocks: state.counters.blocks,
        missed: state.counters.gone,
        restarts: state.restarts,
    });
    Snapshot { elapsed_ns: elapsed.as_nanos(), worked: worked.collect(), ..Snapshot::default() }
}

/// In the word of the control port.
fn phase(state: &WorkStreamState) -> String {
    let word = serde_json::to_value(state.phase).ok();
    word.as_ref().and_then(|word| word.as_str()).unwrap_or_default().to_owned()
}
