//! Streams whose packets prove another format than they are played in.

use super::{ReceiveContext, ReceiveNote, ReceivePolicy};
use crate::evidence::Contradiction;
use crate::jitter_buffer::{ReceiveCommand, StreamStatus};

/// What the packets of the sender that is heard prove.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FormatWatch {
    contradiction: Option<Contradiction>,
    sounded: bool,
}

impl FormatWatch {
    pub(super) const fn is_contradicted(&self) -> bool {
        self.contradiction.is_some()
    }

    /// Another sender is heard. Returns whether the packets of the one before were contradicted.
    pub(super) const fn forget(&mut self) -> bool {
        self.contradiction.take().is_some()
    }
}

impl ReceivePolicy {
    /// Mutes a stream whose packets come at another rate than an unannounced stream is played at. One with other samples or
    /// bytes per frame is muted by the device's thread itself, until its packets are right.
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
                // Repeated: if there is no room for this command, the next one mutes.
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

    /// Whether nothing of it was sound in its format, and its packets prove another.
    pub const fn is_disproved(&self) -> bool {
        self.watch.is_contradicted() && !self.watch.sounded
    }

    /// Whether any of it was sound in its format, and was played.
    pub const fn has_sounded(&self) -> bool {
        self.watch.sounded
    }

    /// Why it is not played any more: its packets prove another format.
    pub fn contradicted(&self) -> Option<ReceiveNote> {
        let (format, contradiction) = (self.format, self.watch.contradiction?);
        Some(ReceiveNote::Contradicted { contradiction, format })
    }
}
