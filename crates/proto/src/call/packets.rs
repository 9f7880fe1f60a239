//! Packets and packet lengths that terms allow.

use core::fmt;

use thiserror::Error;

use crate::codec::{Codec, NotCoded};
use crate::stream::{
    Coding, MAX_DATAGRAM_BYTES, PTIME_RANGE, StreamFormat, frames_of_packet, packet_frames,
};
use crate::time::Span;
use crate::units::{Channels, Rate};
use crate::wire::{PacketHeads, WireForm};

/// Agreed terms of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamTerms {
    /// In Hz.
    pub rate: Rate,
    /// Channel count.
    pub channels: Channels,
    /// Coding.
    pub coding: Coding,
    /// Maximum packet duration.
    pub ptime: Span,
}

/// Packet lengths. Formats as `2.5ms, 5ms, 10ms or 20ms`, or `125us to 20ms`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PacketLengths {
    /// In ascending order.
    Of(Vec<Span>),
    /// From minimum to maximum.
    Within(Span, Span),
}

/// Reason why terms allow no packets.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoPackets {
    /// Unsupported stream or bit rate.
    #[error(transparent)]
    NotCoded(NotCoded),
    /// Unsupported packet length.
    #[error(
        "invalid packet length {requested} for {coding}: must be {lengths}\nhint: use one of these, or change the format first"
    )]
    Length {
        /// Coding.
        coding: &'static str,
        /// Requested.
        requested: Span,
        /// Supported.
        lengths: PacketLengths,
    },
    /// The packet exceeds a datagram.
    #[error(
        "packets of {ptime} in {coding} have {bytes} bytes: must be at most {MAX_DATAGRAM_BYTES}\nhint: use shorter packets first"
    )]
    TooLarge {
        /// Coding.
        coding: &'static str,
        /// Packet duration.
        ptime: Span,
        /// Bytes with header.
        bytes: usize,
    },
}

impl fmt::Display for PacketLengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Within(minimum, maximum) => write!(f, "{minimum} to {maximum}"),
            Self::Of(all) => {
                for (number, length) in all.iter().enumerate() {
                    let before = match number {
                        0 => "",
                        last if last + 1 == all.len() => " or ",
                        _ => ", ",
                    };
                    write!(f, "{before}{length}")?;
                }
                Ok(())
            }
        }
    }
}

impl StreamTerms {
    /// Changes the coding, with the nearest supported packet length.
    #[must_use]
    pub fn coded(self, coding: Coding) -> Self {
        let shortest =
            |minimum| coding.shortest((self.rate, self.channels), (minimum, PTIME_RANGE.1));
        let ptime = shortest(self.ptime).or_else(|| shortest(PTIME_RANGE.0));
        Self { coding, ptime: ptime.unwrap_or(self.ptime), ..self }
    }

    /// Changes a variable bit rate.
    #[must_use]
    pub fn at_bitrate(self, bitrate: u32) -> Self {
        Self { coding: self.coding.at_bitrate(bitrate), ..self }
    }

    /// Packet format, if possible.
    pub fn format(&self, payload_type: u8) -> Option<StreamFormat> {
        let Self { rate, channels, coding: Coding { sample, codec }, ptime } = *self;
        let packet = packet_frames(rate, ptime).ok()?;
        let format = StreamFormat { rate, channels, sample, codec, packet, payload_type };
        codec.is_none_or(|codec| codec.check((rate, channels), packet).is_ok()).then_some(format)
    }

    /// Packet format with the default payload type.
    pub fn packets(&self) -> Result<StreamFormat, NoPackets> {
        let Self { coding, ptime, .. } = *self;
        let payload_type = StreamFormat::usual_payload_type(coding.sample, coding.codec);
        let format = self.format(payload_type).ok_or_else(|| self.no_packets())?;
        let heads = PacketHeads { form: WireForm::Rtp, stamps: true };
        let bytes = heads.datagram_bytes(&format);
        if bytes > MAX_DATAGRAM_BYTES {
            return Err(NoPackets::TooLarge { coding: coding.name(), ptime, bytes });
        }
        Ok(format)
    }

    /// Whether packets have more frames than in `ptime`. Agreed lengths are rounded up to 1 ns.
    pub fn are_longer_than(&self, ptime: Span) -> bool {
        frames_of_packet(self.rate, self.ptime) > frames_of_packet(self.rate, ptime)
    }

    /// Whether packets have fewer frames than in `ptime`.
    pub(super) fn are_shorter_than(&self, ptime: Span) -> bool {
        frames_of_packet(self.rate, self.ptime) < frames_of_packet(self.rate, ptime)
    }

    /// Packet lengths, if the coding supports the stream.
    pub fn lengths(&self) -> Option<PacketLengths> {
        let Self { rate, channels, coding, .. } = *self;
        let has = |ptime: Span| Self { ptime, ..*self }.format(0).is_some();
        match coding.codec.and_then(Codec::ptimes) {
            Some(ptimes) => {
                let all: Vec<_> = ptimes.iter().copied().filter(|ptime| has(*ptime)).collect();
                (!all.is_empty()).then_some(PacketLengths::Of(all))
            }
            None => {
                let minimum = coding.codec.map_or(Span::ZERO, |_| rate.span_of(Codec::MIN_FRAMES));
                let shortest =
                    coding.shortest((rate, channels), (PTIME_RANGE.0.max(minimum), PTIME_RANGE.1));
                shortest.map(|shortest| PacketLengths::Within(shortest, PTIME_RANGE.1))
            }
        }
    }

    fn no_packets(&self) -> NoPackets {
        let Self { rate, channels, coding, ptime } = *self;
        let shape = coding.codec.map(|codec| codec.check_shape(rate, channels));
        if let Some(Err(not)) = shape {
            return NoPackets::NotCoded(not);
        }
        match (self.lengths(), coding.bitrate()) {
            (Some(lengths), _) => {
                NoPackets::Length { coding: coding.name(), requested: ptime, lengths }
            }
            (None, bits) => NoPackets::NotCoded(NotCoded::Bitrate(bits.unwrap_or(0))),
        }
    }
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use tautline_dsp::format::SampleFormat;

    use super::*;
    use crate::stream::Coding;

    fn stream(coding: Coding, ptime: Span) -> StreamTerms {
        StreamTerms { rate: Rate::HZ_48000, channels: Channels::STEREO, coding, ptime }
    }

    fn why(terms: StreamTerms) -> String {
        terms.packets().unwrap_err().to_string()
    }

    #[test]
    fn agreed_length_of_as_many_frames_is_not_longer() {
        let (requested, agreed) = (Span::from_millis(1), Span::from_nanos(1_000_001));
        let terms = stream(SampleFormat::L24.into(), agreed);
        assert!(!terms.are_longer_than(requested));
        assert!(terms.are_longer_than(Span::from_micros(979)));
    }

    #[test]
    fn terms_without_packets_list_the_supported_lengths() {
        let ms = Span::from_millis;
        snapshot!(why(stream(Coding::OPUS, ms(1))));
        snapshot!(why(stream(Coding::OPUS_VOICE, ms(5))));
        snapshot!(why(stream(SampleFormat::L24.into(), ms(21))));
        let music = stream(Coding::OPUS, ms(5));
        let other = StreamTerms { rate: Rate::new(44_100).unwrap(), ..music };
        snapshot!(why(other));
        let six = Channels::new(6).unwrap();
        snapshot!(why(StreamTerms { channels: six, ..music }));
        assert!(why(music.at_bitrate(5_999)).contains("6 to 510 kbit/s"));
        snapshot!(why(StreamTerms { ptime: Span::from_micros(2500), ..music.at_bitrate(6_000) }));
        let wide = StreamTerms {
            rate: Rate::new(192_000).unwrap(),
            channels: Channels::new(64).unwrap(),
            ..stream(SampleFormat::F32.into(), ms(20))
        };
        assert!(why(wide).contains("must be at most 65507"));
        let slow = StreamTerms {
            rate: Rate::new(8_000).unwrap(),
            ..stream(Coding::LOSSLESS_16, Span::from_micros(250))
        };
        snapshot!(why(slow));
    }
}
