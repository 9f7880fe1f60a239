//! Takes out of what a microphone hears what a loudspeaker beside it plays.
//!
//! The devices say when each frame met either converter, so that what is left to learn is the room alone, and nothing
//! is searched for. The filter is libspeexdsp's (J.-M. Valin, *On adjusting the learning rate in frequency domain echo
//! cancellation with double-talk*, IEEE TASLP 15(3), 2007), in blocks as long as the device's period: a frame waits for
//! nothing that it would not have waited for without (docs/decisions/0057).

mod canceller;
mod ffi;
mod played;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tautline_io::thread::realtime;
use tautline_proto::clock::ClockId;
use tautline_proto::device::{Cycle, Device, Ended, Flow, Process, Settings, Stop, Word};
use tautline_proto::time::{Frames, Span};

use played::{PlayedIn, PlayedOut, played};

pub use canceller::{Canceller, NoCanceller, TAIL};

/// How much earlier the canceller is given what is played than the microphone can hear it: instants are known to less
/// than this, and no sound may come before its cause.
const AHEAD: Span = Span::from_millis(1);
/// The longest block that is cancelled at once. Longer periods are several.
const LONGEST: i64 = 1024;

/// Says whether echo is cancelled, while the devices run. Clones say it to the same ones.
#[derive(Debug, Clone)]
pub struct EchoSwitch(Arc<AtomicBool>);

impl EchoSwitch {
    /// From the next period on. What was learned is kept, and learned on where it was on before.
    pub fn set(&self, cancelled: bool) {
        self.0.store(cancelled, Ordering::Relaxed);
    }

    /// Whether it is.
    pub fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Two devices in one room.
pub struct WithoutEcho {
    /// What it captures is without what the other plays.
    pub microphone: Box<dyn Device>,
    /// As it was given.
    pub loudspeaker: Box<dyn Device>,
    /// On.
    pub switch: EchoSwitch,
}

/// A microphone and a loudspeaker in one room: the first no longer hears the second. Every period of both goes by
/// here, and none is later for it.
pub fn without_echo(
    microphone: Box<dyn Device>,
    loudspeaker: Box<dyn Device>,
) -> Result<WithoutEcho, NoCanceller> {
    let (heard, plays) = (microphone.settings(), loudspeaker.settings());
    if heard.rate != plays.rate {
        return Err(NoCanceller::Rates { captured: heard.rate, played: plays.rate });
    }
    let block = block_of(heard.period);
    let canceller = Canceller::new(heard.rate, block, heard.channels, plays.channels)?;
    let (writes, reads) = played(&plays, block);
    let switch = EchoSwitch(Arc::new(AtomicBool::new(true)));
    let room = vec![0.0; plays.channels.samples_in(block)].into();
    let ear = MicrophoneTap {
        canceller,
        played: reads,
        reference: room,
        block: heard.channels.samples_in(block),
        frames: block,
        settings: heard,
        on: Arc::clone(&switch.0),
    };
    let microphone = Box::new(EchoDevice { device: microphone, tap: Some(ear) });
    let loudspeaker =
        Box::new(EchoDevice { device: loudspeaker, tap: Some(LoudspeakerTap(writes)) });
    Ok(WithoutEcho { microphone, loudspeaker, switch })
}

/// The longest part of a period that it is a multiple of and that can be cancelled at once.
fn block_of(period: Frames) -> Frames {
    let whole = period.count().max(1);
    let parts = whole.div_euclid(LONGEST).max(1)..=whole;
    let fits = |parts: &i64| whole % parts == 0 && whole / parts <= LONGEST;
    let parts = parts.into_iter().find(fits).unwrap_or(1);
    Frames::new(whole / parts)
}

/// What a device's period goes by, besides its process.
trait EchoTap: Send {
    fn before(&mut self, _cycle: &mut Cycle<'_>) {}
    fn after(&mut self, _cycle: &mut Cycle<'_>) {}
}

/// At the loudspeaker.
struct LoudspeakerTap(PlayedIn);

impl EchoTap for LoudspeakerTap {
    fn after(&mut self, cycle: &mut Cycle<'_>) {
        let side = &cycle.playback;
        self.0.write(side.meets, side.skipped, side.samples);
    }
}

/// At the microphone.
struct MicrophoneTap {
    canceller: Canceller,
    played: PlayedOut,
    /// Room for one block of what was played.
    reference: Box<[f32]>,
    /// Samples and frames of one of what was captured.
    block: usize,
    frames: Frames,
    settings: Settings,
    on: Arc<AtomicBool>,
}

impl EchoTap for MicrophoneTap {
    fn before(&mut self, cycle: &mut Cycle<'_>) {
        let mut at = cycle.capture.meets + AHEAD;
        let each = self.settings.rate.span_of(self.frames);
        // Periods that a device made shorter than it said hold a rest that stays as it is.
        for block in cycle.capture.samples.chunks_exact_mut(self.block) {
            self.played.read(at, &mut self.reference);
            at += each;
            if self.on.load(Ordering::Relaxed) {
                self.canceller.cancel(block, &self.reference);
            }
        }
    }
}

struct EchoDevice<T> {
    device: Box<dyn Device>,
    /// Until it runs.
    tap: Option<T>,
}

impl<T: EchoTap + 'static> Device for EchoDevice<T> {
    fn settings(&self) -> Settings {
        self.device.settings()
    }

    fn clock(&self) -> Option<ClockId> {
        self.device.clock()
    }

    fn word(&self) -> Word {
        self.device.word()
    }

    fn run(&mut self, process: Box<dyn Process>, stop: &Stop) -> (Box<dyn Process>, Ended) {
        match self.tap.take() {
            Some(tap) => self.device.run(Box::new(EchoProcess { process, tap }), stop),
            // What it ran first has the tap still.
            None => self.device.run(process, stop),
        }
    }
}

struct EchoProcess<T> {
    process: Box<dyn Process>,
    tap: T,
}

impl<T: EchoTap> Process for EchoProcess<T> {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let _realtime = realtime::scope();
        self.tap.before(cycle);
        let flow = self.process.process(cycle);
        self.tap.after(cycle);
        flow
    }

    fn finish(&mut self) {
        self.process.finish();
    }
}
