//! Two devices that stay open while calls come and go, of which each call has a part.

use tautline_audio::{Extras, Notes, SharedPart, SharedParts, StreamLatency, shared};
use tautline_engine::watching::run::Running;
use tautline_proto::device::{Direction, Stop};
use tautline_proto::time::Span;

use super::{EndDevices, NoteTeller};
use crate::failure::Failure;
use crate::flags::EndFlags;

/// What one of the two devices has beside its sound.
struct SharedSide {
    running: Running,
    notes: Notes,
    latency: StreamLatency,
}

/// See the module.
pub(in crate::cmd) struct SharedSound {
    parts: SharedParts,
    capture: SharedSide,
    playback: SharedSide,
    teller: NoteTeller,
}

/// How the devices are shared.
pub(in crate::cmd) struct SoundSharing {
    pub(in crate::cmd) devices: EndDevices,
    /// Calls that may be at a time.
    pub(in crate::cmd) calls: usize,
    /// Whether each hears the others.
    pub(in crate::cmd) bridged: bool,
    /// What recordings by `file:` are coded in: of what is captured and of what is played.
    pub(in crate::cmd) formats: [tautline_dsp::format::SampleFormat; 2],
}

/// Parts beyond those of the calls that there may be: a call that is over gives its own back a moment later.
const SPARE: usize = 4;

impl SharedSound {
    /// Opens the devices, and has them run from now on.
    pub(in crate::cmd) fn open(
        flags: &EndFlags,
        (input, output): (&tautline_audio::DeviceSpec, &tautline_audio::DeviceSpec),
        sharing: &SoundSharing,
        stop: &Stop,
    ) -> Result<Self, Failure> {
        let EndDevices { capture, playback } = sharing.devices;
        let [captured, played] = sharing.formats;
        let open = |spec, direction, settings, record_format| {
            let extras = Extras { listener: None, record_format };
            tautline_audio::open_supervised(spec, direction, settings, extras)
        };
        let playback = open(output, Direction::Playback, playback, played)?;
        let capture = open(input, Direction::Capture, capture, captured)?;
        let parts = sharing.calls.saturating_add(SPARE);
        let (processes, parts) =
            shared(capture.device.as_ref(), playback.device.as_ref(), parts, sharing.bridged);
        let scheduler = flags.timing.scheduler;
        let running = Running::start(playback.device, processes.playback, scheduler, stop)?;
        let playback = SharedSide { running, notes: playback.notes, latency: playback.latency };
        let running = Running::start(capture.device, processes.capture, scheduler, stop)?;
        let capture = SharedSide { running, notes: capture.notes, latency: capture.latency };
        let teller = NoteTeller::new(flags.running.voice());
        Ok(Self { parts, capture, playback, teller })
    }

    /// A part for a call, if there is one left.
    pub(in crate::cmd) fn take(&self) -> Option<SharedPart> {
        self.parts.take()
    }

    /// Whether calls hear one another.
    pub(in crate::cmd) fn are_bridged(&self) -> bool {
        self.parts.are_bridged()
    }

    /// Whether nothing more is played: the device is gone for good.
    pub(in crate::cmd) fn is_over(&self) -> bool {
        self.playback.running.is_over()
    }

    /// Tells what there is to tell of the devices, and others in their graphs what the sound of calls takes: the longest
    /// of what each sends and of what each hears. To be called now and then.
    pub(in crate::cmd) fn turn(&mut self, latencies: impl Iterator<Item = [Span; 2]>) {
        let longest = latencies.fold([Span::ZERO; 2], |[sent, heard], [more_sent, more_heard]| {
            [sent.max(more_sent), heard.max(more_heard)]
        });
        self.capture.latency.set(longest[0]);
        self.playback.latency.set(longest[1]);
        let notes = [self.playback.notes.take(), self.capture.notes.take()];
        self.teller.tell(notes.iter().flatten());
    }

    /// Stops the devices. Of the others' sound in what was sent: how often its place was found anew, and for how many
    /// periods it was not there.
    pub(in crate::cmd) fn end(self) -> Result<[u64; 2], Failure> {
        let bridged = [self.parts.realigned(), self.parts.missed()];
        self.parts.end();
        self.playback.running.end()?;
        self.capture.running.end()?;
        Ok(bridged)
    }
}
