//! A node of PipeWire.

use std::fmt;
use std::str::FromStr;

use tautline_proto::device::{Device, DeviceError, Direction, Settings};

use crate::{DeviceDescription, Notes};

/// What stands after `pipewire:`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipeWireSpec {
    node: String,
}

impl FromStr for PipeWireSpec {
    type Err = DeviceError;

    fn from_str(rest: &str) -> Result<Self, DeviceError> {
        if rest.is_empty() {
            return Err(DeviceError {
                tried: "pipewire:".to_owned(),
                answer: "the name is missing".to_owned(),
                mend: "name one, such as pipewire:taut".to_owned(),
            });
        }
        Ok(Self { node: rest.to_owned() })
    }
}

impl fmt::Display for PipeWireSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pipewire:{}", self.node)
    }
}

/// How the device would run.
pub(crate) fn settle(
    spec: &PipeWireSpec,
    _direction: Direction,
    _wanted: Settings,
) -> Result<Settings, DeviceError> {
    Err(none(spec))
}

/// Opens it.
pub(crate) fn open(
    spec: &PipeWireSpec,
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

fn none(spec: &PipeWireSpec) -> DeviceError {
    DeviceError {
        tried: spec.to_string(),
        answer: "this build has no pipewire devices yet".to_owned(),
        mend: "use virtual:, file:PATH, tone:HZ or null:".to_owned(),
    }
}
