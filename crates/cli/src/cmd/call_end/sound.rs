//! From what an end captures, and on what it plays.

use tautline_audio::echo::WithoutEcho;
use tautline_audio::{Extras, Notes, StreamLatency};
use tautline_proto::device::{Device, Direction, Listener};

use super::{EndPart, EndSetup};
use crate::failure::Failure;

/// The devices of an end.
pub(in crate::cmd) enum EndSound {
    /// A part of devices that are open.
    Part(EndPart),
    /// Those of its own, which it opens: without echo, if there is what takes it out.
    Own(Option<Box<WithoutEcho>>),
}

pub(super) enum SoundSide {
    /// It is open: whoever opened it has its notes, and asks for the latency.
    Part(Box<dyn Device>, StreamLatency),
    Own(Option<LayTap>),
}

/// Lays on it what takes echo out.
type LayTap = Box<dyn FnOnce(Box<dyn Device>) -> Box<dyn Device>>;

/// A device that is open.
pub(super) struct EndDevice {
    pub(super) device: Box<dyn Device>,
    pub(super) notes: Notes,
    pub(super) latency: StreamLatency,
}

impl EndSound {
    /// From what is captured, and on what is played.
    pub(super) fn of_each(self) -> (SoundSide, SoundSide) {
        match self {
            Self::Part(EndPart { part, latency: [sent, heard] }) => {
                (SoundSide::Part(part.capture, sent), SoundSide::Part(part.playback, heard))
            }
            Self::Own(Some(without)) => {
                let WithoutEcho { microphone, loudspeaker } = *without;
                let captures: LayTap = Box::new(|device| microphone.on(device));
                let plays: LayTap = Box::new(|device| loudspeaker.on(device));
                (SoundSide::Own(Some(captures)), SoundSide::Own(Some(plays)))
            }
            Self::Own(None) => (SoundSide::Own(None), SoundSide::Own(None)),
        }
    }
}

impl SoundSide {
    /// The device, opened if it is not.
    pub(super) fn open(
        self,
        setup: &EndSetup<'_>,
        direction: Direction,
        listener: Option<Box<dyn Listener>>,
    ) -> Result<EndDevice, Failure> {
        let tap = match self {
            Self::Part(device, latency) => {
                return Ok(EndDevice { device, notes: Notes::default(), latency });
            }
            Self::Own(tap) => tap,
        };
        let (spec, settings, terms) = match direction {
            Direction::Capture => (setup.input, setup.devices.capture, setup.sent),
            Direction::Playback => (setup.output, setup.devices.playback, setup.heard),
        };
        let record_format = terms.coding.sample;
        let extras = Extras { listener, record_format, looped: setup.flags.looped };
        let opened = tautline_audio::open_supervised(spec, direction, settings, extras)?;
        let device = match tap {
            Some(lay) => lay(opened.device),
            None => opened.device,
        };
        Ok(EndDevice { device, notes: opened.notes, latency: opened.latency })
    }
}
