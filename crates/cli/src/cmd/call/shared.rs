//! The two devices of several calls: open while any of them has sound.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tautline_dsp::format::SampleFormat;
use tautline_proto::device::Stop;

use crate::cmd::call_end::{
    CallSide, DeviceChoice, EndDevices, EndPart, SharedSound, SoundSharing, directions, offer,
    without_echo,
};
use crate::failure::Failure;
use crate::flags::CallFlags;

pub(super) struct CallDevices<'a> {
    flags: &'a CallFlags,
    devices: EndDevices,
    /// What recordings by `file:` are coded in.
    formats: [SampleFormat; 2],
    /// Whether they stay open once they are: a file that is opened again begins anew.
    stay: bool,
    /// Locked by ordinary threads alone, and for as long as devices take to open.
    open: Mutex<OpenDevices>,
}

#[derive(Default)]
struct OpenDevices {
    sound: Option<SharedSound>,
    /// Ends the devices that are open.
    stop: Stop,
    /// Calls that have a part of them.
    used: usize,
    /// Whether any of these began.
    begun: bool,
}

/// A call has a part of the devices. Dropped, it has none any more.
pub(super) struct DevicesUse<'a> {
    devices: &'a CallDevices<'a>,
    /// Whether no other call had one before.
    pub(super) first: bool,
}

impl<'a> CallDevices<'a> {
    /// Those that the flags name, as they will run. Nothing is opened yet.
    pub(super) fn new(
        flags: &'a CallFlags,
        devices: EndDevices,
        of_files: bool,
    ) -> Result<Self, Failure> {
        let choice = DeviceChoice::alone(devices);
        let offer = offer(&flags.end, &choice, CallSide::Caller, flags.transport.paths());
        let usual = offer.choose(&offer).map_err(|error| Failure::usage(error.to_string()))?;
        let (sent, heard) = directions(&usual, CallSide::Caller);
        let formats = [sent.coding.sample, heard.coding.sample];
        Ok(Self { flags, devices, formats, stay: of_files, open: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, OpenDevices> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens them, so that whoever calls hears at once that they cannot be had.
    pub(super) fn open(&self) -> Result<(), Failure> {
        self.opened(&mut self.lock()).map(drop)
    }

    fn opened<'o>(&self, open: &'o mut OpenDevices) -> Result<&'o mut SharedSound, Failure> {
        let Self { flags, devices, formats, .. } = self;
        let sound = match open.sound.take() {
            Some(sound) => sound,
            None => {
                let specs = (&flags.input, &flags.output);
                let voice = flags.end.running.voice();
                let echo = without_echo(flags.echo, specs, devices, voice)?;
                let sharing = SoundSharing {
                    devices: *devices,
                    calls: flags.hosts.len(),
                    bridged: flags.bridge,
                    formats: *formats,
                };
                (open.stop, open.begun) = (Stop::default(), false);
                SharedSound::open(&flags.end, specs, &sharing, echo)?
            }
        };
        Ok(open.sound.insert(sound))
    }

    /// A part for a call that is to sound, of devices that are opened if they are not.
    pub(super) fn take(&'a self) -> Result<(EndPart, DevicesUse<'a>), Failure> {
        let mut open = self.lock();
        let part = self.opened(&mut open)?.take().ok_or_else(|| {
            Failure::running("no part of the devices is left for it; call again in a moment")
        })?;
        let first = open.used == 0;
        open.used += 1;
        Ok((part, DevicesUse { devices: self, first }))
    }

    /// Has the devices run once a call began, and closes them where none has sound any more. To be called now and then.
    pub(super) fn turn(&self) -> Result<(), Failure> {
        let mut open = self.lock();
        let OpenDevices { sound, stop, used, begun } = &mut *open;
        if *used == 0 && *begun && !self.stay {
            return close(sound, stop);
        }
        let Some(sound) = sound else { return Ok(()) };
        // What is captured is heard from its first frame on by whoever begins first.
        if *begun {
            sound.run(stop)?;
        }
        sound.turn();
        Ok(())
    }

    /// Closes them, if they are open.
    pub(super) fn end(self) -> Result<(), Failure> {
        let mut open = self.open.into_inner().unwrap_or_else(PoisonError::into_inner);
        close(&mut open.sound, &open.stop)
    }
}

fn close(sound: &mut Option<SharedSound>, stop: &Stop) -> Result<(), Failure> {
    let Some(sound) = sound.take() else { return Ok(()) };
    stop.request();
    sound.end().map(drop)
}

impl DevicesUse<'_> {
    /// The engines of the call run from now on.
    pub(super) fn begins(&self) {
        self.devices.lock().begun = true;
    }
}

impl Drop for DevicesUse<'_> {
    fn drop(&mut self) {
        let mut open = self.devices.lock();
        open.used = open.used.saturating_sub(1);
    }
}
