//! What was seen of a try, and what is found at a point.

use tautline_proto::time::Span;

use super::judge::BlockMisses;
use super::master::MasterLog;
use super::search::CapacitySearch;
use crate::resources::Record;

/// What was seen of a try.
pub(super) struct TrySeen {
    pub(super) cost: Span,
    pub(super) log: MasterLog,
    pub(super) misses: BlockMisses,
    /// What this machine and the workers' programs did meanwhile.
    pub(super) record: Record,
}

/// Of a try, so many blocks of all are missed by what others do on the machine: too great a cost misses nearly all.
/// What is missed more seldom is for the hold to find.
pub(super) const TOO_MUCH: f64 = 0.02;

/// What was found at a point.
pub(super) struct PointFound {
    /// Blocks that cost nothing.
    pub(super) idle: TrySeen,
    /// The greatest that went when it was held, or the last that was held, if none did.
    pub(super) held: TrySeen,
    /// What was seen of the least cost that was too much.
    pub(super) beyond: Option<BothDetectors>,
    pub(super) search: CapacitySearch,
}

/// What was missed of a run: by our count, but for what the host cost, and by the word of a JACK server, where one
/// called the master.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BothDetectors {
    pub(super) missed: u64,
    pub(super) jack_xruns: Option<u32>,
}

impl BothDetectors {
    pub(super) fn of(seen: &TrySeen) -> Self {
        Self { missed: seen.misses.otherwise(), jack_xruns: seen.log.jack_xruns }
    }
}
