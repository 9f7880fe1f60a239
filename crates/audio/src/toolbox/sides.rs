//! Something of each direction of a device.

use tautline_proto::device::Direction;

/// One for what is captured and one for what is played. Of a direction in which a device does not go
/// it is never asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sides<T> {
    pub(crate) capture: T,
    pub(crate) playback: T,
}

impl<T> Sides<T> {
    /// As `make` says for each.
    pub(crate) fn each(mut make: impl FnMut(Direction) -> T) -> Self {
        Self { capture: make(Direction::Capture), playback: make(Direction::Playback) }
    }

    pub(crate) fn of(&self, direction: Direction) -> &T {
        match direction {
            Direction::Capture => &self.capture,
            Direction::Playback => &self.playback,
        }
    }

    pub(crate) fn of_mut(&mut self, direction: Direction) -> &mut T {
        match direction {
            Direction::Capture => &mut self.capture,
            Direction::Playback => &mut self.playback,
        }
    }
}
