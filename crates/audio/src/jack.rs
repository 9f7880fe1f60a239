//! A client of JACK.

use std::fmt;
use std::str::FromStr;

use tautline_proto::device::{Device, DeviceError, Direction, Settings};

use crate::{DeviceDescription, Notes};

/// What stands after `jack:`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JackSpec {
    client: String,
}

impl FromStr for JackSpec {
    type Err = DeviceError;

    fn from_str(rest: &str) -> Result<Self, DeviceError> {
        if rest.is_empty() {
            return Err(DeviceError {
                tried: "jack:".to_owned(),
                answer: "the name is missing".to_owned(),
                mend: "name one, such as jack:taut".to_owned(),
            });
        }
        Ok(Self { client: rest.to_owned() })
    }
}

impl fmt::Display for JackSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "jack:{}", self.client)
    }
}

/// How the device would run.
pub(crate) fn settle(
    spec: &JackSpec,
    _direction: Direction,
    _wanted: Settings,
) -> Result<Settings, DeviceError> {
    Err(none(spec))
}

/// Opens it.
pub(crate) fn open(
    spec: &JackSpec,
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

fn none(spec: &JackSpec) -> DeviceError {
    DeviceError {
        tried: spec.to_string(),
        answer: "this build has no jack devices yet".to_owned(),
        mend: "use virtual:, file:PATH, tone:HZ or null:".to_owned(),
    }
}
