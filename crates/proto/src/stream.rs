//! Format and limits of a stream, and outgoing packets.

use tautline_dsp::format::SampleFormat;

pub use crate::codec::Coding;
use crate::codec::{Codec, Opus};
use crate::ledger::Departure;
use crate::time::{Frames, Span};
use crate::units::{Channels, Rate};

/// Parameters that both ends agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamFormat {
    /// Nominal frames per second.
    pub rate: Rate,
    /// Samples per frame.
    pub channels: Channels,
    /// Sample format on the wire.
    pub sample: SampleFormat,
    /// Codec of these samples, if any.
    pub codec: Option<Codec>,
    /// Frames per packet.
    pub packet: Frames,
    /// RTP payload type (RFC 3551 §6).
    pub payload_type: u8,
}

/// Minimum and maximum packet time.
pub const PTIME_RANGE: (Span, Span) = (Span::from_micros(125), Span::from_millis(20));

/// 65535 bytes of an IPv4 packet (RFC 791 §3.1) minus its and the UDP header.
pub const MAX_DATAGRAM_BYTES: usize = 65_507;

/// Packet times of AES67 and of codecs.
pub const DEFAULT_PTIMES: [Span; 6] = [
    Span::from_micros(250),
    Span::from_millis(1),
    Span::from_micros(2500),
    Span::from_millis(5),
    Span::from_millis(10),
    Span::from_millis(20),
];

/// Maximum link offset. Bounds the memory that a false description can claim.
pub const LONGEST_LINK_OFFSET: Span = Span::from_secs(5);

/// Packet time outside [`PTIME_RANGE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid packet time {requested}: must be 125us to 20ms")]
pub struct PtimeError {
    /// Requested packet time.
    pub requested: Span,
}

/// Whole frames in `ptime`, rounded down. Users write whole microseconds, so 1333us has 64 frames at
/// 48 kHz (1333.3us).
pub fn packet_frames(rate: Rate, ptime: Span) -> Result<Frames, PtimeError> {
    if ptime < PTIME_RANGE.0 || ptime > PTIME_RANGE.1 {
        return Err(PtimeError { requested: ptime });
    }
    Ok(frames_of_packet(rate, ptime))
}

pub(crate) fn frames_of_packet(rate: Rate, ptime: Span) -> Frames {
    rate.frames_within(ptime + Span::from_nanos(999))
}

impl Coding {
    /// Minimum supported packet time from `minimum` to `maximum`.
    pub fn shortest(
        self,
        (rate, channels): (Rate, Channels),
        (minimum, maximum): (Span, Span),
    ) -> Option<Span> {
        let takes = |ptime: Span| {
            let packet = packet_frames(rate, ptime).ok()?;
            let checked = self.codec.map(|codec| codec.check((rate, channels), packet));
            checked.is_none_or(|checked| checked.is_ok()).then_some(ptime)
        };
        let ptimes = self.codec.map_or(&[][..], |codec| codec.ptimes().unwrap_or(&Opus::PTIMES));
        let mut within = ptimes.iter().filter(|ptime| (minimum..=maximum).contains(ptime));
        takes(minimum).or_else(|| within.find_map(|ptime| takes(*ptime)))
    }
}

impl StreamFormat {
    /// Payload type of a sample format.
    pub const fn default_payload_type(sample: SampleFormat) -> u8 {
        Self::usual_payload_type(sample, None)
    }

    /// Payload type of a coding.
    pub const fn usual_payload_type(sample: SampleFormat, codec: Option<Codec>) -> u8 {
        Coding { sample, codec }.row().payload_type
    }

    /// Rate and channels.
    pub const fn shape(&self) -> (Rate, Channels) {
        (self.rate, self.channels)
    }

    /// Coding.
    pub const fn coding(&self) -> Coding {
        Coding { sample: self.sample, codec: self.codec }
    }

    /// Name of the coding.
    pub const fn coding_name(&self) -> &'static str {
        self.coding().name()
    }

    /// Audio time per packet.
    pub fn ptime(&self) -> Span {
        self.rate.span_of(self.packet)
    }

    /// Uncompressed bytes per frame.
    pub const fn frame_bytes(&self) -> usize {
        self.sample.bytes() * self.channels.count()
    }

    /// Audio bytes per packet; the maximum for lossless.
    pub fn payload_bytes(&self) -> usize {
        let raw = self.packet.as_len() * self.frame_bytes();
        self.codec.map_or(raw, |codec| codec.payload_bytes((self.channels, self.packet), raw))
    }

    pub(crate) fn is_constant(&self) -> bool {
        self.codec.is_none_or(Codec::is_constant)
    }

    /// Maximum age of a complete packet's first frame, with blocks of `period` frames:
    /// `packet + period − gcd(packet, period)` frames, plus the codec delay.
    pub fn packing_age(&self, period: Frames) -> Span {
        let (packet, period) = (self.packet.count(), period.count());
        let delay = self.codec.map_or(Frames::ZERO, Codec::delay);
        self.rate.span_of(delay + Frames::new(packet + period - gcd(packet, period)))
    }
}

pub(crate) fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Packet from the packetizer, which the link completes.
#[derive(Debug)]
pub struct Outgoing<'a> {
    /// Datagram.
    pub datagram: &'a mut [u8],
    /// Times so far. The link waits for `due` and sets `handed`.
    pub instants: Departure,
    /// Position of [`handed_bytes`](crate::packet::handed_bytes).
    pub handed_at: Option<usize>,
    /// Distance to an earlier packet that is repeated, byte for byte
    /// ([`Repeats`](crate::redundancy::Repeats)).
    pub again: Option<usize>,
}
