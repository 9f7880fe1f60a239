//! `taut devices`

use tautline_proto::device::Direction;

use crate::screen;

pub(crate) fn run() {
    for device in tautline_audio::list() {
        let ways: Vec<&str> = device
            .ways
            .iter()
            .map(|way| match way.direction {
                Direction::Capture => "capture",
                Direction::Playback => "playback",
            })
            .collect();
        screen::say(&format!("{:<10} {:<17} {}", device.name, ways.join(", "), device.says));
    }
}
