//! Capabilities of the PCM for ALSA.
//!
//! ALSA takes limits in bytes, so limits in frames vary. The minimum is the card's shortest period
//! in the widest format. With open channels it is for [`USUAL`]; for 64 channels it would be 32
//! times too long for stereo.

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
/// Maximum in frames of the widest samples.
const PERIOD: c_uint = 8192;
/// Maximum in frames of the widest samples: 2 s at 48 kHz.
const BUFFER: c_uint = 96_000;
/// Maximum for 1 to 64 channels: 0.1 s with 64 channels, 13 s in 16-bit mono.
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
    let (minimum, maximum) = (count(range.channels.0), count(range.channels.1));
    let usual = if minimum == maximum { BUFFER } else { BUFFER_OF_ANY };
    let buffer = range.buffer.map_or(usual, |frames| frames.count() as c_uint);
    let shortest = range.shortest.count() as c_uint * USUAL.clamp(minimum, maximum) * SAMPLE;
    vec![
        Offer::List(ffi::HW_ACCESS, accesses.iter().map(|access| *access as c_uint).collect()),
        Offer::List(ffi::HW_FORMAT, samples::numbers().collect()),
        Offer::Between(ffi::HW_CHANNELS, minimum, maximum),
        Offer::List(ffi::HW_RATE, rates),
        Offer::Between(ffi::HW_PERIOD_BYTES, shortest, PERIOD.min(buffer / 2) * maximum * SAMPLE),
        Offer::Between(ffi::HW_BUFFER_BYTES, 2 * shortest, buffer * maximum * SAMPLE),
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
    pub(crate) minimum: Frames,
    pub(crate) stop: Frames,
    pub(crate) boundary: Frames,
}
