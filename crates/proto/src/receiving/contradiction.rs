//! Streams whose packets prove another format than they are played in.

use super::{ReceiveContext, ReceiveNote, ReceivePolicy};
use crate::evidence::{Contradiction, Pace};
use crate::ledger::Passage;
use crate::receiver::{ReceiveCommand, StreamStatus};
use crate::time::Span;
use crate::units::Rate;

/// The rate of a stream is looked at so often.
const PACED: Span = Span::from_secs(1);

/// What the packets of the sender that is heard prove.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FormatWatch {
    /// Why it is not played.
    contradiction: Option<Contradiction>,
    /// How fast packets come, if the sender announces nothing.
    pace: Option<Pace>,
    /// The other rate that the second before proved.
    other: Option<Rate>,
}

impl FormatWatch {
    pub(super) const fn is_contradicted(&self) -> bool {
        self.contradiction.is_some()
    }
}

impl ReceivePolicy {
    /// Mutes a stream whose packets come at another rate. One with other bytes per frame is muted by the device's thread
    /// itself, until its packets are right.
    pub(super) fn follow_contradiction(
        &mut self,
        status: &StreamStatus,
        context: &mut ReceiveContext<'_>,
    ) {
        match (status.contradiction, self.watch.contradiction) {
            (Some(proven), None) => self.contradict(proven),
            (None, Some(Contradiction::FrameBytes(_))) => self.watch.contradiction = None,
            (_, Some(Contradiction::Rate(_))) => {
                // Again and again: where there is no room for it, the next one mutes.
                (context.command)(ReceiveCommand::Mute(true));
            }
            _ => {}
        }
    }

    /// Looks for another rate than the one it is played at, which two seconds in a row must prove: packets that are held
    /// up, or a jump, change one.
    pub(super) fn observe_pace(&mut self, passage: &Passage) {
        if self.announced.is_some() || self.presents() {
            return;
        }
        let media = passage.media.as_frames();
        let pace = self.watch.pace.get_or_insert(Pace::from(media, passage.arrival));
        pace.observe(media, passage.arrival);
        if pace.took() < PACED {
            return;
        }
        let other = pace.rate().filter(|rate| *rate != self.config.format.rate);
        let again = other.filter(|_| self.watch.other == other);
        (self.watch.pace, self.watch.other) = (None, other);
        if let Some(rate) = again {
            self.contradict(Contradiction::Rate(rate));
        }
    }

    fn contradict(&mut self, contradiction: Contradiction) {
        let format = self.config.format;
        self.watch.contradiction = Some(contradiction);
        self.notes.note(ReceiveNote::Contradicted { contradiction, format });
    }

    /// Why none of it is played, if so: its packets prove another format.
    pub fn contradicted(&self) -> Option<ReceiveNote> {
        let (format, contradiction) = (self.config.format, self.watch.contradiction?);
        Some(ReceiveNote::Contradicted { contradiction, format })
    }
}
