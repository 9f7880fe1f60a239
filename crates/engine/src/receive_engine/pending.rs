//! Packets that were played and wait for what the sound says of them.

use std::collections::VecDeque;

use tautline_proto::ledger::PacketTrace;

use crate::monitor::sound::FoundPacket;

/// The packets of one stream that are not in the statistics yet, in the order of their turns.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    waiting: VecDeque<PacketTrace>,
}

/// A packet that was not found in the sound after this many others is entered without.
const PATIENCE: usize = 1024;

impl Pending {
    /// A packet whose turn came, or was over.
    pub(crate) fn push(
        &mut self,
        passage: PacketTrace,
        mut enter: impl FnMut(&PacketTrace, Option<&FoundPacket>),
    ) {
        self.waiting.push_back(passage);
        if self.waiting.len() > PATIENCE
            && let Some(oldest) = self.waiting.pop_front()
        {
            enter(&oldest, None);
        }
    }

    /// A packet that was found in the sound. Those before it were not.
    pub(crate) fn found(
        &mut self,
        found: FoundPacket,
        mut enter: impl FnMut(&PacketTrace, Option<&FoundPacket>),
    ) {
        let same = |p: &PacketTrace| p.media == found.media && !p.late;
        let Some(before) = self.waiting.iter().position(same) else { return };
        for passage in self.waiting.drain(..=before) {
            enter(&passage, same(&passage).then_some(&found));
        }
    }

    /// Nothing more will be found.
    pub(crate) fn finish(&mut self, mut enter: impl FnMut(&PacketTrace, Option<&FoundPacket>)) {
        for passage in self.waiting.drain(..) {
            enter(&passage, None);
        }
    }
}
