//! What there is to hear and to play to, for `taut devices`.

use tautline_proto::device::Direction;

use crate::description::{DeviceDescription, Offers, Way};
use crate::{alsa, jack, pipewire};

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
            "a WAV or FLAC file, written as WAV; waits a second for a late program; file:- is \
             standard input or output",
        ),
        device("tone:HZ", &BOTH[..1], "a sine at -18 dBFS"),
        device("null:", BOTH, "silence in, nothing out"),
    ]
}
