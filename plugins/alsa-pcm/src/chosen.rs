//! What an application chose of what is offered.

use tautline_proto::time::{Frames, MediaTime};
use tautline_proto::units::{Channels, Rate};

use crate::samples::SampleCoding;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Hardware {
    pub(crate) samples: SampleCoding,
    pub(crate) rate: Rate,
    pub(crate) channels: Channels,
    pub(crate) period: Frames,
    pub(crate) buffer: Frames,
}

impl Hardware {
    pub(crate) fn place(&self, position: MediaTime) -> usize {
        let frame = position.as_frames().rem_euclid(self.buffer.count());
        self.channels.samples_in(Frames::new(frame))
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Software {
    pub(crate) least: Frames,
    pub(crate) stop: Frames,
    pub(crate) boundary: Frames,
}
