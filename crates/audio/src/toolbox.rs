//! What every kind of device is built with: none of these knows a device by its kind.

pub(crate) mod callback;
pub(crate) mod notes;
pub(crate) mod supervise;
pub(crate) mod tapped;

use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tautline_proto::device::{DeviceError, Direction};
use tautline_proto::time::{Frames, Span};

/// Bytes of stack of ordinary threads, which nest shallowly.
pub(crate) const STACK: usize = 256 * 1024;

pub(crate) fn spawn_error(tried: &str, error: &io::Error) -> DeviceError {
    DeviceError {
        tried: tried.to_owned(),
        answer: format!("no thread could be started: {error}"),
        mend: "end other programs or raise the limit: ulimit -u".to_owned(),
    }
}

/// One value for each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sides<T> {
    pub(crate) capture: T,
    pub(crate) playback: T,
}

impl<T> Sides<T> {
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

/// The link offset of a device's stream, which JACK and PipeWire report so that programs can align recordings.
/// Wait-free; clones share it.
#[derive(Debug, Clone, Default)]
pub struct StreamLatency(Arc<AtomicI64>);

impl StreamLatency {
    /// It is this from now on; zero if nobody knows.
    pub fn set(&self, latency: Span) {
        self.0.store(latency.as_nanos(), Ordering::Relaxed);
    }

    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    pub fn get(&self) -> Span {
        Span::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceDescription {
    pub name: String,
    pub sides: Vec<DeviceSide>,
    pub says: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceSide {
    pub direction: Direction,
    pub offers: Offers,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offers {
    Anything,
    These {
        rates: Vec<u32>,
        formats: Vec<String>,
        channels: RangeInclusive<u32>,
        least_period: Frames,
    },
    Unknown(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelsOffered {
    pub least: u32,
    pub most: u32,
    pub converter: Option<String>,
}
