//! The end of a cable at a card's output.

use tautline_proto::card_clock::CardClock;
use tautline_proto::device::{DeviceError, Settings};
use tautline_proto::time::Frames;

use super::{CableName, CablePlug, End};

/// What a card plays goes in here.
pub(crate) struct PlayingEnd {
    plug: CablePlug,
    channels: i64,
    /// The next frame, by the card's count.
    next: i64,
}

impl PlayingEnd {
    /// At the output of a card that runs like this; refused if another card plays on the cable.
    pub(crate) fn new(name: &CableName, settings: &Settings) -> Result<Self, DeviceError> {
        let plug = CablePlug::new(name, End::Playing, settings)?;
        Ok(Self { plug, channels: settings.channels.count() as i64, next: 0 })
    }

    /// The card starts; its first frame is number 0 of `clock`.
    pub(crate) fn begin(&mut self, clock: &CardClock) {
        self.next = 0;
        self.plug.ring.begin(clock);
    }

    /// The next frames. Real-time.
    pub(crate) fn play(&mut self, samples: &[f32]) {
        self.plug.ring.write(self.next, samples);
        self.next += samples.len() as i64 / self.channels;
    }

    /// The next frames are silent. Real-time.
    pub(crate) fn play_silence(&mut self, frames: Frames) {
        if frames > Frames::ZERO {
            self.plug.ring.write_silence(self.next, frames.count());
            self.next += frames.count();
        }
    }
}
