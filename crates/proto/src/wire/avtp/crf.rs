//! The clock reference format (CRF; IEEE 1722-2016 §10): when the events of a media clock were, in whole times.
//!
//! | byte | field | is |
//! |---|---|---|
//! | 0 | `subtype` | 0x04, CRF |
//! | 1 | `sv`, `version`, `mr`, `fs`, `tu` | 1 bit, 3 (0), 1, one between, 1, 1 |
//! | 2 | `sequence_num` | counts packets |
//! | 3 | `type` | what an event is: 1 AUDIO_SAMPLE |
//! | 4 | `stream_id` | of the talker: its address and a number of its own, 48 and 16 bits |
//! | 12 | `pull`, `base_frequency` | 3 bits: what multiplies it, 0 nothing; 29: events in a second, nominally |
//! | 16 | `crf_data_length` | bytes of times |
//! | 18 | `timestamp_interval` | events from one time to the next |
//! | 20 | `crf_data` | times of 64 bits: TAI, ns |

use super::{Encapsulation, MEDIA_RESTART, STREAM_VALID, VERSION};
use crate::packet::StreamId;
use crate::time::{Frames, Span, WallTime};
use crate::units::Rate;

/// `subtype` (table 6).
pub const SUBTYPE: u8 = 0x04;
/// Bytes before the times.
pub const CRF_HEADER_BYTES: usize = 20;
/// `type` of a clock of samples.
const AUDIO_SAMPLE: u8 = 1;
/// `tu`: the clock of the times is not to be relied upon.
const TIME_UNCERTAIN: u8 = 1;
/// Bytes of a time.
const TIME_BYTES: usize = 8;
/// Times are no further apart: what is followed is to be told of more often than a card strays.
const LONGEST_INTERVAL: Span = Span::from_secs(1);

/// Whether a datagram is of CRF, good or not: a stream's socket may have to hand it to who follows a clock.
pub fn is_crf(encapsulation: Encapsulation, datagram: &[u8]) -> bool {
    encapsulation.split(datagram).is_some_and(|(_, pdu)| pdu.first() == Some(&SUBTYPE))
}

/// What stands before the times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrfHead {
    /// Of the talker.
    pub stream: StreamId,
    /// `sequence_num`.
    pub number: u8,
    /// `mr`: changes where the media clock began anew.
    pub restarts: bool,
    /// `tu`: the times are not to be relied upon.
    pub uncertain: bool,
    /// `base_frequency`: events in a second, nominally.
    pub nominal: Rate,
    /// `timestamp_interval`: events from one time to the next.
    pub interval: u16,
}

/// A packet that tells of a clock of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrfPacket<'a> {
    /// What stands before the times.
    pub head: CrfHead,
    times: &'a [[u8; TIME_BYTES]],
}

/// Why a datagram tells nothing of the clock that is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrfInvalid {
    /// Shorter than what stands before the times.
    Truncated,
    /// Another kind of data than CRF.
    Subtype,
    /// Not version 0.
    Version,
    /// `sv` is not set, so that nobody knows whose it is.
    Unnamed,
    /// Another stream than the one that is followed.
    OtherStream,
    /// Events that are no samples: pictures, lines, or something of the user's own.
    Type,
    /// The frequency is multiplied, as for films that run slower; no stream of ours is.
    Pull,
    /// A frequency that streams cannot have, or that is no multiple or part of the stream's.
    Frequency,
    /// No events from one time to the next, or more than a second of them.
    Interval,
    /// No times, or not whole ones.
    Length,
    /// The times end beyond the packet.
    BeyondEnd,
    /// Times that are not an interval apart, or beyond all clocks.
    Times,
}

impl CrfInvalid {
    /// How many reasons there are.
    pub const COUNT: usize = 12;
    /// All of them, each at its [`CrfInvalid::index`].
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
    /// The names that reports and scripts use, at their [`CrfInvalid::index`].
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

    /// The reason as a place in an array of [`CrfInvalid::COUNT`] counters.
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl CrfHead {
    /// How long so many intervals are, nominally.
    pub fn nominal_span(&self, intervals: i64) -> Span {
        self.nominal.span_of(Frames::new(intervals.saturating_mul(self.interval.into())))
    }

    /// The packet with these times, behind what stands before it.
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
    /// Reads what came, behind what stands before it there.
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
        // Frames of Ethernet are filled up to 60 bytes: what follows the times is nothing.
        let (times, odd) =
            rest.get(..length).ok_or(CrfInvalid::BeyondEnd)?.as_chunks::<TIME_BYTES>();
        if times.is_empty() || !odd.is_empty() {
            return Err(CrfInvalid::Length);
        }
        let packet = Self { head, times };
        if packet.is_steady() { Ok(packet) } else { Err(CrfInvalid::Times) }
    }

    /// Its times, the first to the last.
    pub fn times(&self) -> impl ExactSizeIterator<Item = WallTime> + use<'a> {
        self.times.iter().map(|time| WallTime::from_unix_nanos(i64::from_be_bytes(*time)))
    }

    /// Whether its times are an interval apart, to an eighth: what any clock of samples is within by far.
    fn is_steady(&self) -> bool {
        let nominal = self.head.nominal_span(1);
        let near =
            |(one, next): (WallTime, WallTime)| (next - one - nominal).abs() <= nominal.divided(8);
        self.times().zip(self.times().skip(1)).all(near)
            // Of an unsigned number, more than half of which no clock of ours can show.
            && self.times().all(|time| time.as_unix_nanos() >= 0)
    }
}
