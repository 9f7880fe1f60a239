//! Takes out of what a microphone hears what a loudspeaker beside it plays.
//!
//! The devices say when each frame met either converter, so that what is left to learn is the room alone, and nothing
//! is searched for. The filter is libspeexdsp's (J.-M. Valin, *On adjusting the learning rate in frequency domain echo
//! cancellation with double-talk*, IEEE TASLP 15(3), 2007), in blocks as long as the device's period: a frame waits for
//! nothing that it would not have waited for without (docs/decisions/0057).

mod canceller;
mod ffi;
#[cfg(test)]
mod tests;

use tautline_proto::device::{Cycle, Device, Settings};
use tautline_proto::time::{Frames, Span};

use crate::shared::bus::{BusWriter, bus};
use crate::shared::piece::PieceTimes;
use crate::shared::steered::SteeredReader;
use crate::toolbox::sides::Sides;
use crate::toolbox::tapped::{DeviceTap, TappedDevice};

pub use canceller::{Canceller, NoCanceller, TAIL};

/// How much earlier the canceller is given what is played than the microphone can hear it: instants are known to less
/// than this, and no sound may come before its cause.
const AHEAD: Span = Span::from_millis(1);
/// The longest block that is cancelled at once. Longer periods are several, so that a server of sound which shortens them
/// while they run, by halves, has whole blocks still.
const LONGEST: i64 = 256;

/// What is laid on two devices in one room, a microphone and a loudspeaker, so that the first no longer hears the second.
/// Every period of both goes by it, and none is later for it.
pub struct WithoutEcho {
    /// For the microphone: what it captures is without what the other plays.
    pub microphone: MicrophoneTap,
    /// For the loudspeaker, which plays as before.
    pub loudspeaker: LoudspeakerTap,
}

impl WithoutEcho {
    /// For devices that run like this. Allocates all that there ever is.
    pub fn new(microphone: Settings, loudspeaker: Settings) -> Result<Self, NoCanceller> {
        if microphone.rate != loudspeaker.rate {
            let (captured, played) = (microphone.rate, loudspeaker.rate);
            return Err(NoCanceller::Rates { captured, played });
        }
        let block = block_of(microphone.period);
        let (heard, played) = (microphone.channels, loudspeaker.channels);
        let canceller = Canceller::new(microphone.rate, block, heard, played)?;
        let (writer, reader) = bus(&Sides { capture: microphone, playback: loudspeaker }, 1);
        let reads = Settings { channels: played, period: block, ..microphone };
        let microphone = MicrophoneTap {
            canceller,
            played: SteeredReader::new(reader, reads, 1),
            frames: block,
            samples: heard.samples_in(block),
            reference: vec![0.0; played.samples_in(block)].into(),
            settings: microphone,
            rest: Frames::ZERO,
        };
        Ok(Self { microphone, loudspeaker: LoudspeakerTap(writer) })
    }
}

/// The longest part of a period that it is a multiple of and that can be cancelled at once.
fn block_of(period: Frames) -> Frames {
    let whole = period.count().max(1);
    let parts = whole.div_euclid(LONGEST).max(1)..=whole;
    let fits = |parts: &i64| whole % parts == 0 && whole / parts <= LONGEST;
    let parts = parts.into_iter().find(fits).unwrap_or(1);
    Frames::new(whole / parts)
}

pub struct LoudspeakerTap(BusWriter);

impl LoudspeakerTap {
    /// Laid on the device.
    pub fn on(self, device: Box<dyn Device>) -> Box<dyn Device> {
        Box::new(TappedDevice::new(device, self))
    }
}

impl DeviceTap for LoudspeakerTap {
    #[inline(never)]
    fn after(&mut self, cycle: &mut Cycle<'_>) {
        let times = PieceTimes::of(cycle, &cycle.playback);
        // Without room for it the microphone is not called: there is nothing to cancel then.
        self.0.begin(cycle.playback.samples.len(), times);
        self.0.write(0, cycle.playback.samples);
        self.0.end();
    }
}

pub struct MicrophoneTap {
    canceller: Canceller,
    played: SteeredReader,
    /// Frames, and samples of what is captured, that are taken at once.
    frames: Frames,
    samples: usize,
    /// Room for what was played in them.
    reference: Box<[f32]>,
    settings: Settings,
    /// Frames of the last period that were not looked at.
    rest: Frames,
}

impl MicrophoneTap {
    /// Laid on the device.
    pub fn on(self, device: Box<dyn Device>) -> Box<dyn Device> {
        Box::new(TappedDevice::new(device, self))
    }
}

impl DeviceTap for MicrophoneTap {
    #[inline(never)]
    fn before(&mut self, cycle: &mut Cycle<'_>) {
        let mut times = PieceTimes::of(cycle, &cycle.capture);
        times.meets += AHEAD;
        let each = self.settings.rate.span_of(self.frames);
        // A period that is no longer as the device said holds a rest, which stays as it is: its time passes all the same.
        times.skipped += core::mem::take(&mut self.rest);
        self.rest = self.settings.channels.frames_in(cycle.capture.samples.len() % self.samples);
        for block in cycle.capture.samples.chunks_exact_mut(self.samples) {
            self.played.read(self.frames.as_len(), times, |_| true);
            times = times.after(each);
            match self.played.block(0, self.reference.len()) {
                Some(played) => self.reference.copy_from_slice(played),
                None => self.reference.fill(0.0),
            }
            self.canceller.cancel(block, &self.reference);
        }
    }
}
