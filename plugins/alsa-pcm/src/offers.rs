//! What ALSA learns of the PCM's abilities.
//!
//! ALSA takes limits in bytes, and an application may choose the format and perhaps the channels, so limits in frames
//! vary. The minimum is the card's shortest period in the widest format, so that all of it is served. With open
//! channels it is for [`USUAL`]: shorter buffers of more channels are refused when asked for. For 64, stereo would get
//! 32 times too long a period.

use core::ffi::{c_int, c_uint};

use alsa_sys::{
    SND_PCM_ACCESS_MMAP_INTERLEAVED, SND_PCM_ACCESS_MMAP_NONINTERLEAVED,
    SND_PCM_ACCESS_RW_INTERLEAVED, SND_PCM_ACCESS_RW_NONINTERLEAVED,
};
use tautline_proto::time::{Frames, MediaTime};
use tautline_proto::units::{Channels, Rate};

use crate::ffi;
use crate::samples::{self, SampleCoding};
use crate::wire::Range;

const SAMPLE: c_uint = 4;
const USUAL: c_uint = 2;
/// The longest period, in frames of the widest samples.
const PERIOD: c_uint = 8192;
/// The longest buffer, in frames of the widest samples: two seconds at 48 kHz.
const BUFFER: c_uint = 96_000;
/// The same for 1 to 64 channels: a tenth of a second of 64, 13 seconds of one in 16 bits.
const BUFFER_OF_ANY: c_uint = 4800;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    List(c_int, Vec<c_uint>),
    Between(c_int, c_uint, c_uint),
}

pub(crate) fn offers(range: &Range) -> Vec<Offer> {
    let accesses = [
        SND_PCM_ACCESS_MMAP_INTERLEAVED,
        SND_PCM_ACCESS_MMAP_NONINTERLEAVED,
        SND_PCM_ACCESS_RW_INTERLEAVED,
        SND_PCM_ACCESS_RW_NONINTERLEAVED,
    ];
    let rates = range.rates.iter().map(|rate| rate.hertz()).collect();
    let count = |channels: Channels| channels.count() as c_uint;
    let (least, most) = (count(range.channels.0), count(range.channels.1));
    let usual = if least == most { BUFFER } else { BUFFER_OF_ANY };
    let buffer = range.buffer.map_or(usual, |frames| frames.count() as c_uint);
    let shortest = range.shortest.count() as c_uint * USUAL.clamp(least, most) * SAMPLE;
    vec![
        Offer::List(ffi::HW_ACCESS, accesses.iter().map(|access| *access as c_uint).collect()),
        Offer::List(ffi::HW_FORMAT, samples::numbers().collect()),
        Offer::Between(ffi::HW_CHANNELS, least, most),
        Offer::List(ffi::HW_RATE, rates),
        Offer::Between(ffi::HW_PERIOD_BYTES, shortest, PERIOD.min(buffer / 2) * most * SAMPLE),
        Offer::Between(ffi::HW_BUFFER_BYTES, 2 * shortest, buffer * most * SAMPLE),
        Offer::Between(ffi::HW_PERIODS, 2, BUFFER),
    ]
}

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
