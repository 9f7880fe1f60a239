//! Sound as AVTP carries it: AAF PCM (IEEE 1722-2016 §7.3) in a frame of Ethernet (§4.4) or, after a number of 32
//! bits, in a datagram of UDP (annex J).
//!
//! A packet (AVTPDU) says when its sound is to be presented instead of counting frames: the receiver counts
//! ([`crate::frame_count`]). It has no room for the sender's instants, nor for earlier packets. Writing, reading
//! and counting allocate nothing (`tests/wire_allocation.rs`).
//!
//! | byte | field | is |
//! |---|---|---|
//! | 0 | `subtype` | 0x02, AAF |
//! | 1 | `sv`, `version`, `mr`, `tv` | 1 bit, 3 (0), 1, two between, 1 |
//! | 2 | `sequence_num` | counts packets |
//! | 3 | `tu` | the lowest bit |
//! | 4 | `stream_id` | of the talker: its address and a number of its own, 48 and 16 bits |
//! | 12 | `avtp_timestamp` | when the first frame is to be presented, ns |
//! | 16 | `format` | the coding: 1 FLOAT_32BIT, 2 INT_32BIT, 3 INT_24BIT, 4 INT_16BIT |
//! | 17 | `nsr`, `channels_per_frame` | 4 bits, two between, 10 bits |
//! | 19 | `bit_depth` | bits of a sample that count |
//! | 20 | `stream_data_length` | bytes of sound |
//! | 22 | `sp`, `evt` | 3 bits between, 1 (a time in every eighth packet alone), 4 |
//! | 24 | | frames, samples big-endian |

pub mod crf;
pub mod maap;
mod pack;
mod unpack;

use tautline_dsp::format::SampleFormat;

pub use self::pack::{ETHERNET_PACK, UDP_PACK};
pub use self::unpack::AafUnpack;
use crate::packet::StreamId;
use crate::units::Rate;

/// The ethertype (IEEE 1722-2016 §4.4.1).
pub const ETHERTYPE: u16 = 0x22F0;
/// The UDP port of streams (annex J.2).
pub const UDP_PORT: u16 = 17_220;
/// Bytes before the sound, without what stands before them in UDP.
pub const HEADER_BYTES: usize = 24;

/// What stands before an AVTPDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encapsulation {
    /// Nothing: a frame of Ethernet ends right before it.
    Ethernet,
    /// The `encapsulation_sequence_num` of 32 bits (annex J.1), whose low bits go as the packet's own number goes
    /// where talkers count by it ([`crate::frame_count`] sees whether they do).
    Udp,
}

impl Encapsulation {
    /// Bytes before the AVTPDU.
    const fn bytes(self) -> usize {
        match self {
            Self::Ethernet => 0,
            Self::Udp => 4,
        }
    }

    /// The AVTPDU, and the number before it. `None` if the datagram is shorter than that number.
    pub fn split(self, datagram: &[u8]) -> Option<(Option<u32>, &[u8])> {
        match self {
            Self::Ethernet => Some((None, datagram)),
            Self::Udp => {
                let (number, rest) = datagram.split_first_chunk::<4>()?;
                Some((Some(u32::from_be_bytes(*number)), rest))
            }
        }
    }

    /// Bits of the number by which packets are told apart.
    const fn number_bits(self) -> u32 {
        match self {
            Self::Ethernet => 8,
            Self::Udp => 32,
        }
    }
}

/// `subtype` of AAF (table 6).
pub const AAF: u8 = 0x02;
/// `sv`: the stream id is one.
const STREAM_VALID: u8 = 1 << 7;
const VERSION: u8 = 0b111 << 4;
/// `mr`: changes where the media clock began anew.
const MEDIA_RESTART: u8 = 1 << 3;
/// `tv`: the time is one.
const TIME_VALID: u8 = 1;
/// `tu`: the clock is not to be relied upon.
const TIME_UNCERTAIN: u8 = 1;
/// `sp`: a time is in every eighth packet alone.
const SPARSE: u8 = 1 << 4;

/// `format` of each coding (table 8); it stands for the coding as the payload type does in RTP.
const FORMATS: [(u8, SampleFormat); 4] = [
    (1, SampleFormat::F32),
    (2, SampleFormat::L32),
    (3, SampleFormat::L24),
    (4, SampleFormat::L16),
];

/// `nsr` of each nominal rate in hertz (table 9).
const RATES: [(u8, u32); 10] = [
    (1, 8_000),
    (2, 16_000),
    (3, 32_000),
    (4, 44_100),
    (5, 48_000),
    (6, 88_200),
    (7, 96_000),
    (8, 176_400),
    (9, 192_000),
    (10, 24_000),
];

/// A stream id as people write it: the talker's address, and the number of its own.
pub fn id_of(stream: StreamId) -> String {
    let [a, b, c, d, e, f, high, low] = stream.0.to_be_bytes();
    format!("{a:02X}:{b:02X}:{c:02X}:{d:02X}:{e:02X}:{f:02X}:{high:02X}{low:02X}")
}

/// What stands for a coding in AAF ([`crate::stream::StreamFormat::payload_type`] of a stream that goes by AVTP).
pub fn format_of(sample: SampleFormat) -> u8 {
    FORMATS.iter().find(|(_, of)| *of == sample).map_or(0, |(format, _)| *format)
}

/// The coding that a `format` stands for, if streams may have it.
pub fn sample_of(format: u8) -> Option<SampleFormat> {
    FORMATS.iter().find(|(of, _)| *of == format).map(|(_, sample)| *sample)
}

/// Whether AAF has this nominal rate.
pub fn carries(rate: Rate) -> bool {
    code_of(rate) != 0
}

/// `nsr`; 0, a rate of the user's own, where it has none.
fn code_of(rate: Rate) -> u8 {
    RATES.iter().find(|(_, hertz)| *hertz == rate.hertz()).map_or(0, |(code, _)| *code)
}

/// The rate of an `nsr` code (table 9); `None` if it has none of its own, or none that streams may have.
pub fn rate_of(code: u8) -> Option<Rate> {
    let (_, hertz) = RATES.iter().find(|(of, _)| *of == code)?;
    Rate::new(*hertz).ok()
}
