//! One direction of a card: its PCM, what sets its pace, and a period of sound.

use tautline_proto::device::{Direction, Side};

use super::pace::{Block, PcmPace};
use super::pcm::{CardPcm, PcmError, Reading};

/// What a card has for one direction.
pub(super) struct CardSide {
    pub(super) direction: Direction,
    pub(super) pcm: CardPcm,
    pub(super) pace: PcmPace,
    block: Box<[f32]>,
    /// Where it was when its period was found to be ready.
    pub(super) ready: Option<Reading>,
}

impl CardSide {
    pub(super) fn new(direction: Direction, pcm: CardPcm) -> Self {
        let settings = pcm.settings();
        let block = vec![0.0; settings.channels.samples_in(settings.period)].into();
        let pace = PcmPace::new(direction, settings);
        Self { direction, pcm, pace, block, ready: None }
    }

    /// A card that plays begins with a whole buffer of silence.
    pub(super) fn prime(&mut self) -> Result<(), PcmError> {
        if self.direction == Direction::Playback {
            self.block.fill(0.0);
            self.pcm.fill(&mut self.block)?;
        }
        Ok(())
    }

    /// Takes what was captured, or makes room for what is to be played.
    pub(super) fn take(&mut self) -> Result<(), PcmError> {
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
    pub(super) fn give(&mut self) -> Result<(), PcmError> {
        if self.direction == Direction::Playback {
            self.pcm.transfer(&mut self.block)?;
        }
        if let Some(reading) = self.ready.take() {
            self.pace.finish(&reading);
        }
        Ok(())
    }
}
