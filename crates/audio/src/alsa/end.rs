//! One direction of a card: its PCM, what sets its pace, and a period of sound.

use tautline_proto::device::{Direction, Side};

use super::pace::{Block, Pace};
use super::pcm::{Pcm, Reading, Trouble};

/// What a card has for one direction.
pub(super) struct End {
    pub(super) direction: Direction,
    pub(super) pcm: Pcm,
    pub(super) pace: Pace,
    block: Box<[f32]>,
    /// Where it was when its period was found to be ready.
    pub(super) ready: Option<Reading>,
}

impl End {
    pub(super) fn new(direction: Direction, pcm: Pcm) -> Self {
        let settings = pcm.settings();
        let block = vec![0.0; settings.channels.samples_in(settings.period)].into();
        let pace = Pace::new(direction, settings);
        Self { direction, pcm, pace, block, ready: None }
    }

    /// A card that plays begins with a whole buffer of silence.
    pub(super) fn prime(&mut self) -> Result<(), Trouble> {
        if self.direction == Direction::Playback {
            self.block.fill(0.0);
            self.pcm.fill(&mut self.block)?;
        }
        Ok(())
    }

    /// Takes what was captured, or makes room for what is to be played.
    pub(super) fn take(&mut self) -> Result<(), Trouble> {
        match self.direction {
            Direction::Capture => self.pcm.transfer(&mut self.block),
            Direction::Playback => {
                self.block.fill(0.0);
                Ok(())
            }
        }
    }

    /// The period that is ready, as a process sees it.
    pub(super) fn side(&mut self, met: Block) -> Side<'_> {
        Side {
            samples: &mut self.block,
            meets: met.meets,
            uncertainty: met.uncertainty,
            skipped: met.skipped,
        }
    }

    /// Writes what is to be played. The period is done with.
    pub(super) fn give(&mut self) -> Result<(), Trouble> {
        if self.direction == Direction::Playback {
            self.pcm.transfer(&mut self.block)?;
        }
        if let Some(reading) = self.ready.take() {
            self.pace.finish(&reading);
        }
        Ok(())
    }
}
