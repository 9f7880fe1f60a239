//! AVTP audio: AAF PCM (IEEE 1722-2016 §7.3) in Ethernet frames (§4.4) or, after a 32-bit number,
//! in UDP datagrams (annex J).
//!
//! A packet (AVTPDU) carries a presentation time; the receiver counts frames
//! ([`crate::frame_count`]). Does not allocate (`tests/wire_allocation.rs`).
//!
//! | byte | field | meaning |
//! |---|---|---|
//! | 0 | `subtype` | 0x02, AAF |
//! | 1 | `sv`, `version`, `mr`, `tv` | 1 bit, 3 (0), 1, two between, 1 |
//! | 2 | `sequence_num` | counts packets |
//! | 3 | `tu` | lowest bit |
//! | 4 | `stream_id` | the talker's address and its stream number, 48 and 16 bits |
//! | 12 | `avtp_timestamp` | presentation time of the first frame, ns |
//! | 16 | `format` | 1 FLOAT_32BIT, 2 INT_32BIT, 3 INT_24BIT, 4 INT_16BIT |
//! | 17 | `nsr`, `channels_per_frame` | 4 bits, two between, 10 bits |
//! | 19 | `bit_depth` | significant bits of a sample |
//! | 20 | `stream_data_length` | bytes of sound |
//! | 22 | `sp`, `evt` | 3 bits between, 1 (a time only in every eighth packet), 4 |
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

/// IEEE 1722-2016 §4.4.1.
pub const ETHERTYPE: u16 = 0x22F0;
/// UDP port (annex J.2).
pub const UDP_PORT: u16 = 17_220;
/// Header bytes without UDP encapsulation.
pub const HEADER_BYTES: usize = 24;

/// Encapsulation of an AVTPDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encapsulation {
    /// Ethernet frame.
    Ethernet,
    /// UDP, with the 32-bit `encapsulation_sequence_num` (annex J.1). Its low bits may follow the
    /// packet number ([`crate::frame_count`] checks).
    Udp,
}

impl Encapsulation {
    const fn bytes(self) -> usize {
        match self {
            Self::Ethernet => 0,
            Self::Udp => 4,
        }
    }

    /// Splits off the sequence number. `None` if too short.
    pub fn split(self, datagram: &[u8]) -> Option<(Option<u32>, &[u8])> {
        match self {
            Self::Ethernet => Some((None, datagram)),
            Self::Udp => {
                let (number, rest) = datagram.split_first_chunk::<4>()?;
                Some((Some(u32::from_be_bytes(*number)), rest))
            }
        }
    }

    const fn number_bits(self) -> u32 {
        match self {
            Self::Ethernet => 8,
            Self::Udp => 32,
        }
    }
}

/// `subtype` of AAF (table 6).
pub const AAF: u8 = 0x02;
const STREAM_VALID: u8 = 1 << 7;
const VERSION: u8 = 0b111 << 4;
/// `mr`: toggles when the media clock restarts.
const MEDIA_RESTART: u8 = 1 << 3;
const TIME_VALID: u8 = 1;
const TIME_UNCERTAIN: u8 = 1;
/// `sp`: only every eighth packet has a time.
const SPARSE: u8 = 1 << 4;

/// `format` (table 8), used like the RTP payload type.
const FORMATS: [(u8, SampleFormat); 4] = [
    (1, SampleFormat::F32),
    (2, SampleFormat::L32),
    (3, SampleFormat::L24),
    (4, SampleFormat::L16),
];

/// `nsr` per rate in hertz (table 9).
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

/// Formats the talker's address and stream number.
pub fn id_of(stream: StreamId) -> String {
    let [a, b, c, d, e, f, high, low] = stream.0.to_be_bytes();
    format!("{a:02X}:{b:02X}:{c:02X}:{d:02X}:{e:02X}:{f:02X}:{high:02X}{low:02X}")
}

/// AAF `format`, the [`crate::stream::StreamFormat::payload_type`] of AVTP streams.
pub fn format_of(sample: SampleFormat) -> u8 {
    FORMATS.iter().find(|(_, of)| *of == sample).map_or(0, |(format, _)| *format)
}

/// Coding of a `format`, if supported.
pub fn sample_of(format: u8) -> Option<SampleFormat> {
    FORMATS.iter().find(|(of, _)| *of == format).map(|(_, sample)| *sample)
}

/// Whether AAF supports this rate.
pub fn carries(rate: Rate) -> bool {
    code_of(rate) != 0
}

/// Code of a rate; 0 (user-defined) if AVTP has no code for it.
fn code_of(rate: Rate) -> u8 {
    RATES.iter().find(|(_, hertz)| *hertz == rate.hertz()).map_or(0, |(code, _)| *code)
}

/// Rate of an `nsr` (table 9), if supported.
pub fn rate_of(code: u8) -> Option<Rate> {
    let (_, hertz) = RATES.iter().find(|(of, _)| *of == code)?;
    Rate::new(*hertz).ok()
}
