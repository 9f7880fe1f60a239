//! Clock reference format (CRF; IEEE 1722-2016 §10): absolute times of media clock events.
//!
//! | byte | field | meaning |
//! |---|---|---|
//! | 0 | `subtype` | 0x04, CRF |
//! | 1 | `sv`, `version`, `mr`, `fs`, `tu` | 1 bit, 3 (0), 1, one between, 1, 1 |
//! | 2 | `sequence_num` | counts packets |
//! | 3 | `type` | kind of event: 1 AUDIO_SAMPLE |
//! | 4 | `stream_id` | the talker's address and its stream number, 48 and 16 bits |
//! | 12 | `pull`, `base_frequency` | 3 bits: multiplier, 0 for none; 29: nominal events per second |
//! | 16 | `crf_data_length` | bytes of times |
//! | 18 | `timestamp_interval` | events between two times |
//! | 20 | `crf_data` | times of 64 bits: TAI, ns |

use super::{Encapsulation, MEDIA_RESTART, STREAM_VALID, VERSION};
use crate::packet::StreamId;
use crate::time::{Frames, Span, WallTime};
use crate::units::Rate;

/// `subtype` (table 6).
pub const SUBTYPE: u8 = 0x04;
/// Header length.
pub const CRF_HEADER_BYTES: usize = 20;
/// `type` of a sample clock.
const AUDIO_SAMPLE: u8 = 1;
const TIME_UNCERTAIN: u8 = 1;
const TIME_BYTES: usize = 8;
/// Maximum interval: a card drifts little in it.
const LONGEST_INTERVAL: Span = Span::from_secs(1);

/// Whether a datagram is CRF, valid or not.
pub fn is_crf(encapsulation: Encapsulation, datagram: &[u8]) -> bool {
    encapsulation.split(datagram).is_some_and(|(_, pdu)| pdu.first() == Some(&SUBTYPE))
}

/// CRF header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrfHead {
    /// Stream id.
    pub stream: StreamId,
    /// `sequence_num`.
    pub number: u8,
    /// `mr`: toggles when the media clock restarts.
    pub restarts: bool,
    /// `tu`: uncertain times.
    pub uncertain: bool,
    /// `base_frequency`: nominal events per second.
    pub nominal: Rate,
    /// `timestamp_interval`: events between two times.
    pub interval: u16,
}

/// CRF packet of a sample clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrfPacket<'a> {
    /// Header.
    pub head: CrfHead,
    times: &'a [[u8; TIME_BYTES]],
}

/// Reason for rejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrfInvalid {
    /// Shorter than the header.
    Truncated,
    /// Not CRF.
    Subtype,
    /// Not version 0.
    Version,
    /// Invalid stream id (`sv`).
    Unnamed,
    /// Not the followed stream.
    OtherStream,
    /// Not audio samples.
    Type,
    /// Frequency with a multiplier, as for slowed-down film.
    Pull,
    /// Unsupported frequency for this stream.
    Frequency,
    /// Interval of zero, or more than a second.
    Interval,
    /// No or incomplete times.
    Length,
    /// Times beyond the packet.
    BeyondEnd,
    /// Times not an interval apart, or out of range.
    Times,
}

impl CrfInvalid {
    /// Number of reasons.
    pub const COUNT: usize = 12;
    /// All reasons by [`CrfInvalid::index`].
    pub const ALL: [Self; Self::COUNT] = [
        Self::Truncated,
        Self::Subtype,
        Self::Version,
        Self::Unnamed,
        Self::OtherStream,
        Self::Type,
        Self::Pull,
        Self::Frequency,
        Self::Interval,
        Self::Length,
        Self::BeyondEnd,
        Self::Times,
    ];
    /// Names for reports and scripts, by [`CrfInvalid::index`].
    pub const NAMES: [&'static str; Self::COUNT] = [
        "truncated",
        "subtype",
        "version",
        "unnamed",
        "other-stream",
        "type",
        "pull",
        "frequency",
        "interval",
        "length",
        "beyond-end",
        "times",
    ];

    /// Index into arrays of [`CrfInvalid::COUNT`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl CrfHead {
    /// Nominal duration of intervals.
    pub fn nominal_span(&self, intervals: i64) -> Span {
        self.nominal.span_of(Frames::new(intervals.saturating_mul(self.interval.into())))
    }

    /// Writes a packet without encapsulation.
    pub fn write(&self, times: &[WallTime]) -> Vec<u8> {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let flags = flag(self.restarts, MEDIA_RESTART) | flag(self.uncertain, TIME_UNCERTAIN);
        let mut bytes = vec![SUBTYPE, STREAM_VALID | flags, self.number, AUDIO_SAMPLE];
        bytes.extend(self.stream.0.to_be_bytes());
        bytes.extend(self.nominal.hertz().to_be_bytes());
        bytes.extend(((times.len() * TIME_BYTES) as u16).to_be_bytes());
        bytes.extend(self.interval.to_be_bytes());
        bytes.extend(times.iter().flat_map(|time| time.as_unix_nanos().to_be_bytes()));
        bytes
    }
}

impl<'a> CrfPacket<'a> {
    /// Reads an encapsulated packet.
    pub fn read(encapsulation: Encapsulation, datagram: &'a [u8]) -> Result<Self, CrfInvalid> {
        let (_, pdu) = encapsulation.split(datagram).ok_or(CrfInvalid::Truncated)?;
        if pdu.first().is_some_and(|subtype| *subtype != SUBTYPE) {
            return Err(CrfInvalid::Subtype);
        }
        let (head, rest) =
            pdu.split_first_chunk::<CRF_HEADER_BYTES>().ok_or(CrfInvalid::Truncated)?;
        let word = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|byte| head[at + byte]));
        let half = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        if head[1] & VERSION != 0 {
            return Err(CrfInvalid::Version);
        }
        if head[1] & STREAM_VALID == 0 {
            return Err(CrfInvalid::Unnamed);
        }
        if head[3] != AUDIO_SAMPLE {
            return Err(CrfInvalid::Type);
        }
        if word(12) >> 29 != 0 {
            return Err(CrfInvalid::Pull);
        }
        let head = CrfHead {
            stream: StreamId(u64::from(word(4)) << 32 | u64::from(word(8))),
            number: head[2],
            restarts: head[1] & MEDIA_RESTART != 0,
            uncertain: head[1] & TIME_UNCERTAIN != 0,
            nominal: Rate::new(word(12)).map_err(|_| CrfInvalid::Frequency)?,
            interval: half(18),
        };
        if head.interval == 0 || head.nominal_span(1) > LONGEST_INTERVAL {
            return Err(CrfInvalid::Interval);
        }
        let length = usize::from(half(16));
        // Ethernet frames are padded to 60 bytes.
        let (times, odd) =
            rest.get(..length).ok_or(CrfInvalid::BeyondEnd)?.as_chunks::<TIME_BYTES>();
        if times.is_empty() || !odd.is_empty() {
            return Err(CrfInvalid::Length);
        }
        let packet = Self { head, times };
        if packet.is_steady() { Ok(packet) } else { Err(CrfInvalid::Times) }
    }

    /// Times in order.
    pub fn times(&self) -> impl ExactSizeIterator<Item = WallTime> + use<'a> {
        self.times.iter().map(|time| WallTime::from_unix_nanos(i64::from_be_bytes(*time)))
    }

    /// Whether all intervals are nominal, within an eighth.
    fn is_steady(&self) -> bool {
        let nominal = self.head.nominal_span(1);
        let near =
            |(one, next): (WallTime, WallTime)| (next - one - nominal).abs() <= nominal.divided(8);
        self.times().zip(self.times().skip(1)).all(near)
            // Unsigned on the wire; our clocks lack the upper half.
            && self.times().all(|time| time.as_unix_nanos() >= 0)
    }
}
