//! What there is to hear and to play to, for `taut devices`.

use std::ops::RangeInclusive;

use tautline_proto::device::Direction;
use tautline_proto::time::Frames;

use crate::{alsa, jack, pipewire};

/// One device, or one kind of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceDescription {
    /// How it is named on the command line.
    pub name: String,
    /// Which ways it goes, and what it offers each way.
    pub ways: Vec<Way>,
    /// What it is, in a few words.
    pub says: String,
}

/// One direction of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// Which.
    pub direction: Direction,
    /// What can be asked for.
    pub offers: Offers,
}

/// What can be asked of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offers {
    /// Whatever a stream can be.
    Anything,
    /// These.
    These {
        /// In hertz, ascending: those that a stream can have.
        rates: Vec<u32>,
        /// Of samples, as ALSA names them.
        formats: Vec<String>,
        /// Per frame.
        channels: RangeInclusive<u32>,
        /// The shortest period, at the lowest of the rates.
        least_period: Frames,
    },
    /// It cannot be asked now, for this reason.
    Unknown(String),
}

/// The devices that can be opened here.
pub fn list() -> Vec<DeviceDescription> {
    let mut found = software();
    found.extend(alsa::list());
    found.extend(jack::list());
    found.extend(pipewire::list());
    found
}

fn software() -> Vec<DeviceDescription> {
    const BOTH: &[Direction] = &[Direction::Capture, Direction::Playback];
    let device = |name: &str, directions: &[Direction], says: &str| DeviceDescription {
        name: name.to_owned(),
        ways: directions
            .iter()
            .map(|&direction| Way { direction, offers: Offers::Anything })
            .collect(),
        says: says.to_owned(),
    };
    vec![
        device(
            "virtual:",
            BOTH,
            "a card without hardware, strict as a real one: virtual:?ppm=50&record=out.wav",
        ),
        device(
            "file:PATH",
            BOTH,
            "a WAV or FLAC file, written as WAV; waits a second for a late program",
        ),
        device("tone:HZ", &BOTH[..1], "a sine at -18 dBFS"),
        device("null:", BOTH, "silence in, nothing out"),
    ]
}
