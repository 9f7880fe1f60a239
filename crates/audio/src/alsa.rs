//! Sound cards, and any other PCM, by ALSA.

use std::fmt;
use std::str::FromStr;

use tautline_proto::device::{Device, DeviceError, Direction, Settings};

use crate::{DeviceDescription, Notes};

/// What stands after `alsa:`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlsaSpec {
    pcm: String,
}

impl FromStr for AlsaSpec {
    type Err = DeviceError;

    fn from_str(rest: &str) -> Result<Self, DeviceError> {
        if rest.is_empty() {
            return Err(DeviceError {
                tried: "alsa:".to_owned(),
                answer: "the name is missing".to_owned(),
                mend: "name one, such as alsa:hw:0".to_owned(),
            });
        }
        Ok(Self { pcm: rest.to_owned() })
    }
}

impl fmt::Display for AlsaSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "alsa:{}", self.pcm)
    }
}

/// How the device would run.
pub(crate) fn settle(
    spec: &AlsaSpec,
    _direction: Direction,
    _wanted: Settings,
) -> Result<Settings, DeviceError> {
    Err(none(spec))
}

/// Opens it.
pub(crate) fn open(
    spec: &AlsaSpec,
    _direction: Direction,
    _settings: Settings,
    _notes: &Notes,
) -> Result<Box<dyn Device>, DeviceError> {
    Err(none(spec))
}

/// Those that are here.
pub(crate) fn list() -> Vec<DeviceDescription> {
    Vec::new()
}

fn none(spec: &AlsaSpec) -> DeviceError {
    DeviceError {
        tried: spec.to_string(),
        answer: "this build has no alsa devices yet".to_owned(),
        mend: "use virtual:, file:PATH, tone:HZ or null:".to_owned(),
    }
}
