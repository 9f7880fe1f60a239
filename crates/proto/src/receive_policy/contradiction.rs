//! Streams whose packets contradict their format.

use super::{ReceiveContext, ReceiveNote, ReceivePolicy};
use crate::evidence::Contradiction;
use crate::jitter_buffer::{ReceiveCommand, StreamStatus};

/// Contradiction proven by packets.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FormatWatch {
    contradiction: Option<Contradiction>,
    sounded: bool,
}

impl FormatWatch {
    pub(super) const fn is_contradicted(&self) -> bool {
        self.contradiction.is_some()
    }

    /// Returns whether the previous sender's packets contradicted their format.
    pub(super) const fn forget(&mut self) -> bool {
        self.contradiction.take().is_some()
    }
}

impl ReceivePolicy {
    /// Mutes an unannounced stream that arrives at another rate. The device thread mutes wrong
    /// samples.
    pub(super) fn follow_contradiction(
        &mut self,
        status: &StreamStatus,
        context: &mut ReceiveContext<'_>,
    ) {
        self.watch.sounded |= status.fits && status.contradiction.is_none();
        let goes_by_rate = self.announced.is_none() && !self.presents();
        let proven = status
            .contradiction
            .filter(|proven| goes_by_rate || !matches!(proven, Contradiction::Rate(_)));
        match (proven, self.watch.contradiction) {
            (_, Some(Contradiction::Rate(_))) => {
                // If the queue is full, the next command mutes.
                (context.command)(ReceiveCommand::Mute(true));
            }
            (Some(proven), None) => self.contradict(proven),
            (None, Some(_)) => self.watch.contradiction = None,
            (Some(_), Some(_)) | (None, None) => {}
        }
    }

    fn contradict(&mut self, contradiction: Contradiction) {
        let format = self.format;
        self.watch.contradiction = Some(contradiction);
        self.notes.note(ReceiveNote::Contradicted { contradiction, format });
    }

    /// Whether packets prove another format and no sound was plausible.
    pub const fn is_disproved(&self) -> bool {
        self.watch.is_contradicted() && !self.watch.sounded
    }

    /// Whether plausible sound was played.
    pub const fn has_sounded(&self) -> bool {
        self.watch.sounded
    }

    /// Reason for muting.
    pub fn contradicted(&self) -> Option<ReceiveNote> {
        let (format, contradiction) = (self.format, self.watch.contradiction?);
        Some(ReceiveNote::Contradicted { contradiction, format })
    }
}
