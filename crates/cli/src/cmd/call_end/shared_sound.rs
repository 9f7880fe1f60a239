//! Two devices that stay open while calls come and go, of which each call has a part.

use tautline_audio::echo::WithoutEcho;
use tautline_audio::{DeviceSpec, Extras, Notes, SharedPart, SharedParts, StreamLatency, shared};
use tautline_dsp::format::SampleFormat;
use tautline_engine::watching::run::Running;
use tautline_io::thread::Scheduler;
use tautline_proto::device::{Device, Direction, Process, Stop};
use tautline_proto::time::Span;

use super::{EndDevices, NoteTeller};
use crate::failure::Failure;
use crate::flags::EndFlags;

/// A part for one end.
pub(in crate::cmd) struct EndPart {
    pub(super) part: SharedPart,
    /// What the sound takes that is sent, and that is heard: the end says it, for those who look at the devices.
    pub(super) latency: [StreamLatency; 2],
}

/// What one of the two devices has beside its sound.
struct SharedSide {
    notes: Notes,
    latency: StreamLatency,
}

pub(in crate::cmd) struct SharedSound {
    parts: SharedParts,
    capture: SharedSide,
    playback: SharedSide,
    /// Until they run: of each the device, and what it calls.
    still: Option<[StillDevice; 2]>,
    /// Once they do: what is captured first.
    running: Option<[Running; 2]>,
    scheduler: Scheduler,
    /// Of the parts that were taken.
    told: Vec<[StreamLatency; 2]>,
    teller: NoteTeller,
}

/// A device that does not run yet, and what it calls then.
type StillDevice = (Box<dyn Device>, Box<dyn Process>);

/// How the devices are shared.
pub(in crate::cmd) struct SoundSharing {
    pub(in crate::cmd) devices: EndDevices,
    /// Calls that may be at a time.
    pub(in crate::cmd) calls: usize,
    /// Whether each hears the others.
    pub(in crate::cmd) bridged: bool,
    /// What recordings by `file:` are coded in: of what is captured and of what is played.
    pub(in crate::cmd) formats: [SampleFormat; 2],
}

/// Parts beyond those of the calls that there may be: a call that is over gives its own back a moment later.
const SPARE: usize = 4;

impl SharedSound {
    pub(in crate::cmd) fn open(
        flags: &EndFlags,
        (input, output): (&DeviceSpec, &DeviceSpec),
        sharing: &SoundSharing,
        echo: Option<WithoutEcho>,
    ) -> Result<Self, Failure> {
        let EndDevices { capture, playback } = sharing.devices;
        let [captured, played] = sharing.formats;
        let open = |spec, direction, settings, record_format| {
            let extras = Extras { listener: None, record_format, looped: flags.looped };
            tautline_audio::open_supervised(spec, direction, settings, extras)
        };
        let mut playback = open(output, Direction::Playback, playback, played)?;
        let mut capture = open(input, Direction::Capture, capture, captured)?;
        if let Some(echo) = echo {
            playback.device = echo.loudspeaker.on(playback.device);
            capture.device = echo.microphone.on(capture.device);
        }
        let parts = sharing.calls.saturating_add(SPARE);
        let (processes, parts) =
            shared(capture.device.as_ref(), playback.device.as_ref(), parts, sharing.bridged);
        let still = [(capture.device, processes.capture), (playback.device, processes.playback)];
        let side = |notes, latency| SharedSide { notes, latency };
        Ok(Self {
            parts,
            capture: side(capture.notes, capture.latency),
            playback: side(playback.notes, playback.latency),
            still: Some(still),
            running: None,
            scheduler: flags.timing.scheduler,
            told: Vec::new(),
            teller: NoteTeller::new(flags.running.voice()),
        })
    }

    /// Has the devices run from now on, until `stop`.
    pub(in crate::cmd) fn run(&mut self, stop: &Stop) -> Result<(), Failure> {
        let Some([capture, playback]) = self.still.take() else { return Ok(()) };
        let playback = Running::start(playback.0, playback.1, self.scheduler, stop)?;
        let capture = Running::start(capture.0, capture.1, self.scheduler, stop)?;
        self.running = Some([capture, playback]);
        Ok(())
    }

    /// A part for a call, if there is one left.
    pub(in crate::cmd) fn take(&mut self) -> Option<EndPart> {
        let part = self.parts.take()?;
        let latency = [StreamLatency::default(), StreamLatency::default()];
        self.told.push(latency.clone());
        Some(EndPart { part, latency })
    }

    /// Whether calls hear one another.
    pub(in crate::cmd) fn are_bridged(&self) -> bool {
        self.parts.are_bridged()
    }

    /// Has calls hear silence instead of what is captured, or not any more; one another they hear all the while.
    pub(in crate::cmd) fn mute(&self, muted: bool) {
        self.parts.mute(muted);
    }

    /// Whether nothing more is played: the device is gone for good.
    pub(in crate::cmd) fn is_over(&self) -> bool {
        self.running.as_ref().is_some_and(|[_, playback]| playback.is_over())
    }

    /// Tells what there is to tell of the devices, and others in their graphs what the sound of calls takes: the longest
    /// of what each sends and of what each hears. To be called now and then.
    pub(in crate::cmd) fn turn(&mut self) {
        // An end that is over has dropped its own.
        self.told.retain(|[sent, heard]| sent.is_shared() || heard.is_shared());
        let longest = |of: usize| self.told.iter().map(|told| told[of].get()).max();
        self.capture.latency.set(longest(0).unwrap_or(Span::ZERO));
        self.playback.latency.set(longest(1).unwrap_or(Span::ZERO));
        let notes = [self.playback.notes.take(), self.capture.notes.take()];
        self.teller.tell(notes.iter().flatten());
    }

    /// Stops the devices. Of the others' sound in what was sent: how often its place was found anew, and for how many
    /// periods it was not there.
    pub(in crate::cmd) fn end(self) -> Result<[u64; 2], Failure> {
        let bridged = [self.parts.realigned(), self.parts.missed()];
        self.parts.end();
        for running in self.running.into_iter().flatten().rev() {
            running.end()?;
        }
        Ok(bridged)
    }
}
