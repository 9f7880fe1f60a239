//! Acoustic echo cancellation on two devices, whose converter times leave only the room to learn.
//! Adds no delay (docs/internals/decisions/0057, 0071).

mod canceller;
#[cfg(test)]
mod tests;

use tautline_proto::device::{Cycle, Device, Settings};
use tautline_proto::time::{Frames, Span};

use crate::conference::bus::{BusWriter, bus};
use crate::conference::steered::SteeredReader;
use crate::toolbox::Sides;
use crate::toolbox::part::PieceTimes;
use crate::toolbox::tapped::{DeviceTap, TappedDevice};

pub use canceller::{Canceller, NoCanceller};

const AHEAD: Span = Span::from_millis(1);
/// Maximum period in frames. Longer periods are split, so that a server may halve them.
const LONGEST: i64 = 256;

pub struct WithoutEcho {
    pub microphone: MicrophoneTap,
    pub loudspeaker: LoudspeakerTap,
}

impl WithoutEcho {
    pub fn new(microphone: Settings, loudspeaker: Settings) -> Result<Self, NoCanceller> {
        if microphone.rate != loudspeaker.rate {
            let (captured, played) = (microphone.rate, loudspeaker.rate);
            return Err(NoCanceller::Rates { captured, played });
        }
        let block = block_of(microphone.period);
        let (received, played) = (microphone.channels, loudspeaker.channels);
        let canceller = Canceller::new(microphone.rate, received, played)?;
        let (writer, reader) = bus(&Sides { capture: microphone, playback: loudspeaker }, 1);
        let reads = Settings { channels: played, period: block, ..microphone };
        let microphone = MicrophoneTap {
            canceller,
            played: SteeredReader::new(reader, reads, 1),
            frames: block,
            samples: received.samples_in(block),
            reference: vec![0.0; played.samples_in(block)].into(),
            settings: microphone,
            rest: Frames::ZERO,
        };
        Ok(Self { microphone, loudspeaker: LoudspeakerTap(writer) })
    }
}

fn block_of(period: Frames) -> Frames {
    let whole = period.count().max(1);
    let parts = whole.div_euclid(LONGEST).max(1)..=whole;
    let fits = |parts: &i64| whole % parts == 0 && whole / parts <= LONGEST;
    let parts = parts.into_iter().find(fits).unwrap_or(1);
    Frames::new(whole / parts)
}

pub struct LoudspeakerTap(BusWriter);

impl LoudspeakerTap {
    pub fn on(self, device: Box<dyn Device>) -> Box<dyn Device> {
        Box::new(TappedDevice::new(device, self))
    }
}

impl DeviceTap for LoudspeakerTap {
    #[inline(never)]
    fn after(&mut self, cycle: &mut Cycle<'_>) {
        let times = PieceTimes::of(cycle, &cycle.playback);
        self.0.begin(cycle.playback.samples.len(), times);
        self.0.write(0, cycle.playback.samples);
        self.0.end();
    }
}

pub struct MicrophoneTap {
    canceller: Canceller,
    played: SteeredReader,
    frames: Frames,
    samples: usize,
    reference: Box<[f32]>,
    settings: Settings,
    rest: Frames,
}

impl MicrophoneTap {
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
        // The rest of an unexpectedly long period counts as elapsed.
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
