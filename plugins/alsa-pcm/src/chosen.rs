//! What an application chose of what is offered.

use tautline_proto::time::{Frames, MediaTime};
use tautline_proto::units::{Channels, Rate};

use crate::samples::SampleCoding;

/// The parameters that an application chose.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hardware {
    pub(crate) samples: SampleCoding,
    pub(crate) rate: Rate,
    pub(crate) channels: Channels,
    pub(crate) period: Frames,
    pub(crate) buffer: Frames,
}

impl Hardware {
    /// Where the frame of this position begins in a buffer of the application's size, in samples.
    pub(crate) fn place(&self, position: MediaTime) -> usize {
        let frame = position.as_frames().rem_euclid(self.buffer.count());
        self.channels.samples_in(Frames::new(frame))
    }
}

/// The thresholds that an application chose.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Software {
    /// It is woken when it can move so many.
    pub(crate) least: Frames,
    /// It has failed when there are so many to be moved.
    pub(crate) stop: Frames,
    pub(crate) boundary: Frames,
}
