//! What a stream is: its format, its packets, its promise of latency; and one packet on its way
//! from the sender machine to a link.

use tautline_dsp::format::SampleFormat;

pub use crate::codec::Coding;
use crate::codec::{Codec, Opus};
use crate::ledger::Departure;
use crate::time::{Frames, Span};
use crate::units::{Channels, Rate};

/// Everything that the two ends of a stream must agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamFormat {
    /// Nominal frames per second.
    pub rate: Rate,
    /// Samples per frame.
    pub channels: Channels,
    /// Coding of one sample on the wire.
    pub sample: SampleFormat,
    /// What compresses the samples of a packet, of `sample` where they are whole numbers, if anything does.
    pub coder: Option<Codec>,
    /// Frames per packet.
    pub packet: Frames,
    /// RTP payload type (RFC 3551 §6): 0 to 127.
    pub payload_type: u8,
}

/// Shortest and longest audio time in one packet.
pub const PTIME_RANGE: (Span, Span) = (Span::from_micros(125), Span::from_millis(20));

/// The longest datagram that any network carries, in fragments or not, as UDP payload: 65535 bytes
/// of IPv4 packet (RFC 791 §3.1) less its header and UDP's.
pub const MOST_DATAGRAM_BYTES: usize = 65_507;

/// Sound in one packet, as people choose it: what AES67 has, and what coders take.
pub const USUAL_PTIMES: [Span; 6] = [
    Span::from_micros(250),
    Span::from_millis(1),
    Span::from_micros(2500),
    Span::from_millis(5),
    Span::from_millis(10),
    Span::from_millis(20),
];

/// The longest link offset. Ten times what a person still calls live; the playout holds twice
/// as much, so it bounds memory against a description that lies.
pub const LONGEST_LINK_OFFSET: Span = Span::from_secs(5);

/// A packet time that no whole number of frames fits, or that is outside [`PTIME_RANGE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a packet time of {asked} cannot be carried; use 125us to 20ms")]
pub struct PtimeError {
    /// What was asked for.
    pub asked: Span,
}

/// The whole frames that fit in `ptime`, rounded down.
pub fn packet_frames(rate: Rate, ptime: Span) -> Result<Frames, PtimeError> {
    if ptime < PTIME_RANGE.0 || ptime > PTIME_RANGE.1 {
        return Err(PtimeError { asked: ptime });
    }
    Ok(rate.frames_within(ptime))
}

impl Coding {
    /// The shortest time of a packet from `least` to `most` that it takes in such a stream; `None` where it takes none.
    pub fn shortest(
        self,
        (rate, channels): (Rate, Channels),
        (least, most): (Span, Span),
    ) -> Option<Span> {
        let takes = |ptime: Span| {
            let packet = packet_frames(rate, ptime).ok()?;
            let checked = self.coder.map(|coder| coder.check((rate, channels), packet));
            checked.is_none_or(|checked| checked.is_ok()).then_some(ptime)
        };
        let ptimes = self.coder.map_or(&[][..], |coder| coder.ptimes().unwrap_or(&Opus::PTIMES));
        let mut within = ptimes.iter().filter(|ptime| (least..=most).contains(ptime));
        takes(least).or_else(|| within.find_map(|ptime| takes(*ptime)))
    }
}

impl StreamFormat {
    /// The payload type of a coding of single samples when nobody says another.
    pub const fn default_payload_type(sample: SampleFormat) -> u8 {
        Self::usual_payload_type(sample, None)
    }

    /// The same of any coding.
    pub const fn usual_payload_type(sample: SampleFormat, coder: Option<Codec>) -> u8 {
        Coding { sample, coder }.row().payload_type
    }

    /// What a coder has to take of it beside its packets.
    pub const fn shape(&self) -> (Rate, Channels) {
        (self.rate, self.channels)
    }

    /// How its sound is coded.
    pub const fn coding(&self) -> Coding {
        Coding { sample: self.sample, coder: self.coder }
    }

    /// The word for that.
    pub const fn coding_name(&self) -> &'static str {
        self.coding().name()
    }

    /// Audio time in one packet.
    pub fn ptime(&self) -> Span {
        self.rate.span_of(self.packet)
    }

    /// Bytes of one frame on the wire, where nothing compresses it.
    pub const fn frame_bytes(&self) -> usize {
        self.sample.bytes() * self.channels.count()
    }

    /// Bytes of audio in one packet; where it is compressed without loss, no packet has more.
    pub fn payload_bytes(&self) -> usize {
        let raw = self.packet.as_len() * self.frame_bytes();
        self.coder.map_or(raw, |coder| coder.payload_bytes((self.channels, self.packet), raw))
    }

    /// Whether all packets are as long as each other, as they must be to be summed.
    pub(crate) fn is_constant(&self) -> bool {
        self.coder.is_none_or(Codec::is_constant)
    }

    /// How old the first frame of a packet may be when the packet is complete, if the device
    /// delivers `period` frames at a time: `packet + period − gcd(packet, period)` frames. Equal
    /// to one period where packets divide it, to one packet where periods divide that. The first frame that comes
    /// out of a coder is so much older by its delay.
    pub fn packing_age(&self, period: Frames) -> Span {
        let (packet, period) = (self.packet.count(), period.count());
        let delay = self.coder.map_or(Frames::ZERO, Codec::delay);
        self.rate.span_of(delay + Frames::new(packet + period - gcd(packet, period)))
    }
}

pub(crate) fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// One packet on its way from the sender machine to a link, which finishes it.
#[derive(Debug)]
pub struct Outgoing<'a> {
    /// The whole datagram.
    pub datagram: &'a mut [u8],
    /// Its instants so far; `due` is the departure time that a pacing link waits for, and
    /// `handed` is the link's to fill.
    pub instants: Departure,
    /// Where in the datagram [`handed_bytes`](crate::packet::handed_bytes) go, written by the link at the last
    /// moment.
    pub handed_at: Option<usize>,
    /// The packet that was sent so many packets before this one leaves once more with it, as the same
    /// bytes: whoever finishes packets keeps those that say so
    /// ([`Repeats`](crate::redundancy::Repeats)).
    pub again: Option<usize>,
}
