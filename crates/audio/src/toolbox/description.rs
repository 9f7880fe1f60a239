//! What a device is and offers, in words that people and scripts read.

use std::ops::RangeInclusive;

use tautline_proto::device::Direction;
use tautline_proto::time::Frames;

/// One device, or one kind of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceDescription {
    /// How it is named on the command line.
    pub name: String,
    /// Its directions, and what it offers in each.
    pub sides: Vec<DeviceSide>,
    /// What it is, in a few words.
    pub says: String,
}

/// One direction of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceSide {
    pub direction: Direction,
    /// What can be asked for.
    pub offers: Offers,
}

/// What can be asked of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offers {
    /// Whatever a stream can be.
    Anything,
    These {
        /// In hertz, ascending: those that a stream can have.
        rates: Vec<u32>,
        /// Of samples, as ALSA names them.
        formats: Vec<String>,
        channels: RangeInclusive<u32>,
        /// The shortest period, at the lowest of the rates.
        least_period: Frames,
    },
    /// It cannot be asked now, for this reason.
    Unknown(String),
}

/// The channels that a device has, where it does not take whatever comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelsOffered {
    pub least: u32,
    pub most: u32,
    /// The device that is the same and converts.
    pub converter: Option<String>,
}
