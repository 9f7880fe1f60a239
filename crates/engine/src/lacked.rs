//! What a sender hears of its receivers' losses.

use tautline_io::clock::now;
use tautline_proto::redundancy::sizing::{Losses, Sizing};
use tautline_proto::wire::rtcp::LossReport;

/// What one receiver reported of losses.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lacked {
    pub(crate) last: Option<LossReport>,
    sizing: Sizing,
}

impl Lacked {
    pub(crate) fn hear(&mut self, losses: LossReport) {
        self.sizing.observe(now(), losses.tally);
        self.last = Some(losses);
    }

    /// What they come to.
    pub(crate) fn losses(&self) -> Losses {
        self.sizing.losses()
    }
}
