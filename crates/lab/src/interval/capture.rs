//! The streams of a capture.

use std::io::Read;

use super::flows::{Flows, instant};
use super::headers::packet_of_frame;
use crate::capture::read_frames;

/// Everything that a capture has.
pub(super) struct ReadCapture {
    pub(super) flows: Flows,
    /// Why it was not read to its end, if it was not.
    pub(super) ended: Option<String>,
    /// What else a reader should know of it.
    pub(super) notes: Vec<String>,
}

/// Reads as far as it can be read.
pub(super) fn read(file: impl Read + Send) -> ReadCapture {
    let mut flows = Flows::default();
    let read = read_frames(file, &mut |frame| {
        let packet = packet_of_frame(frame.link, frame.frame);
        if let (Some(at), Some(packet)) = (instant(frame.at_ns), packet) {
            flows.see(at, &packet);
        }
    });
    let notes = read.note().into_iter().collect();
    ReadCapture { flows, ended: read.ended, notes }
}
