//! Opens a PCM by its name.

use std::ffi::CString;

use ::alsa::Output;
use ::alsa::pcm::PCM;
use tautline_proto::device::{DeviceError, Direction};

use super::refuse;
use super::spec::AlsaSpec;

/// A direction as ALSA names it.
pub(super) const fn alsa_direction(direction: Direction) -> ::alsa::Direction {
    match direction {
        Direction::Capture => ::alsa::Direction::Capture,
        Direction::Playback => ::alsa::Direction::Playback,
    }
}

impl AlsaSpec {
    /// Whether it can be opened, or could be if nobody had it and this user might.
    pub(super) fn is_there(&self, direction: Direction) -> bool {
        let _said = Output::local_error_handler();
        let Ok(name) = CString::new(self.pcm.as_str()) else { return false };
        match PCM::open(&name, alsa_direction(direction), true) {
            Ok(_) => true,
            Err(error) => [libc::EBUSY, libc::EAGAIN, libc::EACCES, libc::EPERM]
                .contains(&error.errno().abs()),
        }
    }

    /// Opens the PCM. Never waits: neither for whoever has it, nor later for the card.
    pub(super) fn open(&self, direction: Direction) -> Result<PCM, DeviceError> {
        // What ALSA's library would print on standard error. Without it that is printed.
        let said = Output::local_error_handler().ok();
        let refused = |errno| {
            let said = said.map(|said| said.borrow().to_string()).unwrap_or_default();
            refuse::not_opened(self, direction, errno, &said)
        };
        let Ok(name) = CString::new(self.pcm.as_str()) else { return Err(refused(libc::EINVAL)) };
        PCM::open(&name, alsa_direction(direction), true)
            .map_err(|error| refused(error.errno().abs()))
    }
}
