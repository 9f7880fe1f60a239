//! Whether the devices of an end have the time for the codings that its calls come to, told once of each.

use std::cell::RefCell;

use tautline_audio::DeviceSpec;
use tautline_proto::device::Direction;
use tautline_proto::stream::{Coding, StreamFormat};
use tautline_proto::time::Frames;

use super::{EndDevices, EndSetup};
use crate::codecs::tell_of_coding_time;
use crate::voice::Voice;

pub(super) struct CodingWatch {
    voice: Voice,
    input: DeviceSpec,
    output: DeviceSpec,
    devices: EndDevices,
    /// Calls that may be coded alike on the same threads.
    sounding: usize,
    /// What was looked at, in whatever bits.
    known: RefCell<Vec<(Direction, Coding, Frames)>>,
}

impl CodingWatch {
    pub(super) fn new(setup: &EndSetup<'_>) -> Self {
        Self {
            voice: setup.flags.running.voice(),
            input: setup.input.clone(),
            output: setup.output.clone(),
            devices: setup.devices,
            sounding: setup.sounding,
            known: RefCell::default(),
        }
    }

    /// What is captured or played is coded so from now on: whatever chose it, a person or what the network carries.
    pub(super) fn adopts(&self, direction: Direction, format: &StreamFormat) {
        let one = (direction, format.coding().at_bitrate(0), format.packet);
        if self.known.borrow().contains(&one) {
            return;
        }
        self.known.borrow_mut().push(one);
        let side = match direction {
            Direction::Capture => (&self.input, &self.devices.capture, direction),
            Direction::Playback => (&self.output, &self.devices.playback, direction),
        };
        tell_of_coding_time(self.voice, side, self.sounding, format);
    }
}
