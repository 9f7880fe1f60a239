//! What ALSA is told that the PCM can do.
//!
//! ALSA takes limits of periods and buffers in bytes, and an application may choose the format and,
//! where nothing says how many there are, the channels; so the limits in frames vary with these. The
//! shortest are as many bytes as the card's shortest period has in the widest format, so all of it is
//! served, and the card's own period is no longer than the application's. Where channels are left
//! open, that is said of [`USUAL`]: of more channels shorter buffers look possible than are, and
//! those are refused when asked for. Said of 64, an application of two would get 32 times as long a
//! period as it needs.

use core::ffi::{c_int, c_uint};

use alsa_sys::{
    SND_PCM_ACCESS_MMAP_INTERLEAVED, SND_PCM_ACCESS_MMAP_NONINTERLEAVED,
    SND_PCM_ACCESS_RW_INTERLEAVED, SND_PCM_ACCESS_RW_NONINTERLEAVED,
};
use tautline_proto::units::Channels;

use crate::ffi;
use crate::samples;
use crate::wire::Range;

/// Bytes of the widest sample.
const SAMPLE: c_uint = 4;
/// The channels of nearly every application that is free to choose.
const USUAL: c_uint = 2;
/// The longest period, in frames of the widest samples.
const PERIOD: c_uint = 8192;
/// The longest buffer, in frames of the widest samples: two seconds at 48 kHz.
const BUFFER: c_uint = 96_000;
/// The same where there may be 64 channels or one: a tenth of a second of the former, 13 seconds of
/// the latter in 16 bits.
const BUFFER_OF_ANY: c_uint = 4800;

/// One limit, as ALSA's functions take it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    List(c_int, Vec<c_uint>),
    Between(c_int, c_uint, c_uint),
}

/// All that the PCM offers.
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
