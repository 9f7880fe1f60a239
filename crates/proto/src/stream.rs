//! What a stream is: its format, its packets, its promise of latency; and one packet on its way
//! from the sender machine to a link.

use tautline_dsp::format::SampleFormat;

use crate::coder::{Coder, Opus, OpusTuning};
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
    pub coder: Option<Coder>,
    /// Frames per packet.
    pub packet: Frames,
    /// RTP payload type (RFC 3551 §6): 0 to 127.
    pub payload_type: u8,
}

/// How sound is coded: single samples, and what compresses those of a packet, if anything does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coding {
    /// Coding of one sample, of which a coder takes the whole number.
    pub sample: SampleFormat,
    /// What compresses them.
    pub coder: Option<Coder>,
}

impl From<SampleFormat> for Coding {
    fn from(sample: SampleFormat) -> Self {
        Self { sample, coder: None }
    }
}

impl Coding {
    /// Opus for any sound, as far as both ends agree on it: in how many bits is the sender's choice.
    pub const OPUS: Self = Self { sample: SampleFormat::L24, coder: Some(Coder::OPUS) };
    /// Opus for speech.
    pub const OPUS_VOICE: Self = Self {
        sample: SampleFormat::L24,
        coder: Some(Coder::Opus(Opus::usual(OpusTuning::Voice, Channels::STEREO))),
    };
    /// 16 bits without loss.
    pub const LOSSLESS_16: Self = Self { sample: SampleFormat::L16, coder: Some(Coder::Lossless) };
    /// 24 bits without loss.
    pub const LOSSLESS_24: Self = Self { sample: SampleFormat::L24, coder: Some(Coder::Lossless) };
    /// All that a coder is part of.
    pub const COMPRESSED: [Self; 4] =
        [Self::OPUS, Self::OPUS_VOICE, Self::LOSSLESS_16, Self::LOSSLESS_24];

    /// Each that there is.
    pub fn all() -> impl Iterator<Item = Self> {
        SampleFormat::ALL.into_iter().map(Self::from).chain(Self::COMPRESSED)
    }

    /// The coding of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|coding| coding.name() == name)
    }

    /// The same in so many bits per second; those that are always as many stay as they are.
    #[must_use]
    pub const fn at_bitrate(self, bitrate: u32) -> Self {
        match self.coder {
            Some(Coder::Opus(Opus { tuning, .. })) => {
                Self { coder: Some(Coder::Opus(Opus { tuning, bitrate })), ..self }
            }
            _ => self,
        }
    }

    /// The same in the usual bits for so many channels.
    #[must_use]
    pub const fn usual_for(self, channels: Channels) -> Self {
        match self.coder {
            Some(Coder::Opus(Opus { tuning, .. })) => {
                Self { coder: Some(Coder::Opus(Opus::usual(tuning, channels))), ..self }
            }
            _ => self,
        }
    }

    /// Its bits per second, where they are chosen and not what its sound takes.
    pub const fn bitrate(self) -> Option<u32> {
        match self.coder {
            Some(Coder::Opus(Opus { bitrate, .. })) => Some(bitrate),
            _ => None,
        }
    }

    /// Whether both are made by one coder, in whatever bits.
    pub fn is_coded_as(self, other: Self) -> bool {
        self.at_bitrate(0) == other.at_bitrate(0)
    }

    /// The word for it: in reports, and for `--format`.
    pub const fn name(self) -> &'static str {
        match (self.coder, self.sample) {
            (None, sample) => sample.name(),
            (Some(Coder::Opus(opus)), _) => match opus.tuning {
                OpusTuning::Music => "opus",
                OpusTuning::Voice => "opus-voice",
            },
            (Some(Coder::Lossless), SampleFormat::L16) => "lossless16",
            (Some(Coder::Lossless), _) => "lossless24",
        }
    }

    /// The shortest time of a packet from `least` to `most` that it takes in such a stream; `None` where it takes none.
    pub fn shortest(
        self,
        (rate, channels): (Rate, Channels),
        (least, most): (Span, Span),
    ) -> Option<Span> {
        let Self { sample, coder } = self;
        let takes = |ptime: Span| {
            let packet = packet_frames(rate, ptime).ok()?;
            let format = StreamFormat { rate, channels, sample, coder, packet, payload_type: 0 };
            coder.is_none_or(|coder| coder.check(&format).is_ok()).then_some(ptime)
        };
        let opus = Opus::PTIMES.into_iter().filter(|ptime| (least..=most).contains(ptime));
        takes(least).or_else(|| opus.filter(|_| coder.is_some()).find_map(takes))
    }

    /// Whether it carries whole numbers of `needs` as they are.
    pub const fn is_exact_for(self, needs: SampleFormat) -> bool {
        !matches!(self.coder, Some(Coder::Opus(_))) && self.sample.bytes() >= needs.bytes()
    }
}

/// Shortest and longest audio time in one packet.
pub const PTIME_RANGE: (Span, Span) = (Span::from_micros(125), Span::from_millis(20));

/// The longest datagram that any network carries, in fragments or not, as UDP payload: 65535 bytes
/// of IPv4 packet (RFC 791 §3.1) less its header and UDP's.
pub const MOST_DATAGRAM_BYTES: usize = 65_507;

/// The longest link offset. Ten times what a person still calls live; the playout holds four times
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

impl StreamFormat {
    /// The payload type that tautline gives a coding when nobody says another: L16 96, L24 97,
    /// float 98, L32 99. Dynamic (RFC 3551 §6), so a `.sdp` may say otherwise.
    pub const fn default_payload_type(sample: SampleFormat) -> u8 {
        match sample {
            SampleFormat::L16 => 96,
            SampleFormat::L24 => 97,
            SampleFormat::F32 => 98,
            SampleFormat::L32 => 99,
        }
    }

    /// The same of a coding that a coder may be part of: Opus 100, lossless 101 of 16 bits and 102 of 24.
    pub const fn usual_payload_type(sample: SampleFormat, coder: Option<Coder>) -> u8 {
        match (coder, sample) {
            (None, sample) => Self::default_payload_type(sample),
            (Some(Coder::Opus(_)), _) => 100,
            (Some(Coder::Lossless), SampleFormat::L16) => 101,
            (Some(Coder::Lossless), _) => 102,
        }
    }

    /// The coder and the sample that a payload type stands for by the same convention.
    pub const fn usual_coder(payload_type: u8) -> Option<(Coder, SampleFormat)> {
        match payload_type {
            100 => Some((Coder::OPUS, SampleFormat::L24)),
            101 => Some((Coder::Lossless, SampleFormat::L16)),
            102 => Some((Coder::Lossless, SampleFormat::L24)),
            _ => None,
        }
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
        self.coder.map_or(raw, |coder| coder.payload_bytes(self, raw))
    }

    /// Whether all packets are as long as each other, as they must be to be summed.
    pub fn is_constant(&self) -> bool {
        self.coder.is_none_or(Coder::is_constant)
    }

    /// How old the first frame of a packet may be when the packet is complete, if the device
    /// delivers `period` frames at a time: `packet + period − gcd(packet, period)` frames. Equal
    /// to one period where packets divide it, to one packet where periods divide that. The first frame that comes
    /// out of a coder is so much older by its delay.
    pub fn packing_age(&self, period: Frames) -> Span {
        let (packet, period) = (self.packet.count(), period.count());
        let delay = self.coder.map_or(Frames::ZERO, Coder::delay);
        self.rate.span_of(delay + Frames::new(packet + period - gcd(packet, period)))
    }
}

fn gcd(a: i64, b: i64) -> i64 {
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
