//! Opens a PCM by its name.

use std::ffi::CString;

use ::alsa::Output;
use ::alsa::pcm::PCM;
use tautline_proto::device::{DeviceError, Direction};

use super::refuse;
use super::spec::AlsaSpec;

impl AlsaSpec {
    /// Opens the PCM. Never waits: neither for whoever has it, nor later for the card.
    pub(super) fn open(&self, direction: Direction) -> Result<PCM, DeviceError> {
        // What ALSA's library would print on standard error. Without it that is printed.
        let said = Output::local_error_handler().ok();
        let way = match direction {
            Direction::Capture => ::alsa::Direction::Capture,
            Direction::Playback => ::alsa::Direction::Playback,
        };
        let refused = |errno| {
            let said = said.map(|said| said.borrow().to_string()).unwrap_or_default();
            refuse::not_opened(self, direction, errno, &said)
        };
        let Ok(name) = CString::new(self.pcm.as_str()) else { return Err(refused(libc::EINVAL)) };
        PCM::open(&name, way, true).map_err(|error| refused(error.errno().abs()))
    }
}
