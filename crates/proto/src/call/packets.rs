//! Of which terms packets can be made, and which lengths of packets a coding has.

use core::fmt;

use thiserror::Error;

use super::terms::{CallTerms, StreamTerms};
use crate::coder::{Coder, NotCoded, Opus};
use crate::stream::{MOST_DATAGRAM_BYTES, PTIME_RANGE, StreamFormat, packet_frames};
use crate::time::Span;
use crate::units::{Channels, Rate};
use crate::wire::{PacketHeads, WireForm};

/// Sound in one packet, as people choose it: what AES67 has, and what coders take.
pub const USUAL_PTIMES: [Span; 6] = [
    Span::from_micros(250),
    Span::from_millis(1),
    Span::from_micros(2500),
    Span::from_millis(5),
    Span::from_millis(10),
    Span::from_millis(20),
];

/// Which lengths of packets a coding has in a stream. Shown, a list: `2.5ms, 5ms, 10ms or 20ms`, or `125us to 20ms`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PacketLengths {
    /// These alone, the shortest first.
    Of(Vec<Span>),
    /// All from the first to the second.
    Within(Span, Span),
}

/// Why no packets can be made of terms. A sentence with the mend.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoPackets {
    /// The coding takes no such stream, or no such bit rate.
    #[error(transparent)]
    NotCoded(NotCoded),
    /// The coding has none of that length.
    #[error(
        "{coding} has no packets of {asked}, and of {lengths}; ask for one of these, or for another format first"
    )]
    Length {
        /// Its name.
        coding: &'static str,
        /// What was asked for.
        asked: Span,
        /// What it has.
        lengths: PacketLengths,
    },
    /// No datagram holds so much.
    #[error(
        "packets of {ptime} have {bytes} bytes of {coding}, and datagrams hold {MOST_DATAGRAM_BYTES}; ask for shorter \
         packets first"
    )]
    TooLarge {
        /// Its name.
        coding: &'static str,
        /// Sound in a packet.
        ptime: Span,
        /// Bytes of it, with its head.
        bytes: usize,
    },
}

impl fmt::Display for PacketLengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Within(least, most) => write!(f, "{least} to {most}"),
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
    /// What its packets look like, with the payload type that is usual; else why there are none such.
    pub fn packets(&self) -> Result<StreamFormat, NoPackets> {
        let Self { rate, channels, coding, ptime } = *self;
        let none = || self.no_packets();
        let packet = packet_frames(rate, ptime).map_err(|_| none())?;
        if coding.coder.is_some_and(|coder| coder.check((rate, channels), packet).is_err()) {
            return Err(none());
        }
        let payload_type = StreamFormat::usual_payload_type(coding.sample, coding.coder);
        let format = self.format(payload_type).ok_or_else(none)?;
        let heads = PacketHeads { form: WireForm::Rtp, stamps: true };
        let bytes = heads.datagram_bytes(&format);
        if bytes > MOST_DATAGRAM_BYTES {
            return Err(NoPackets::TooLarge { coding: coding.name(), ptime, bytes });
        }
        Ok(format)
    }

    /// The lengths of packets that its coding has; none where it takes no such stream.
    pub fn lengths(&self) -> Option<PacketLengths> {
        let Self { rate, channels, coding, .. } = *self;
        let has = |ptime: Span| Self { ptime, ..*self }.format(0).is_some();
        match coding.coder {
            Some(Coder::Opus(_)) => {
                let all: Vec<_> = Opus::PTIMES.into_iter().filter(|ptime| has(*ptime)).collect();
                (!all.is_empty()).then_some(PacketLengths::Of(all))
            }
            coder => {
                let least = coder.map_or(Span::ZERO, |_| rate.span_of(Coder::LEAST_FRAMES));
                let shortest =
                    coding.shortest((rate, channels), (PTIME_RANGE.0.max(least), PTIME_RANGE.1));
                shortest.map(|shortest| PacketLengths::Within(shortest, PTIME_RANGE.1))
            }
        }
    }

    /// Why there are none such, where that is so.
    fn no_packets(&self) -> NoPackets {
        let Self { rate, channels, coding, ptime } = *self;
        if let Some(coder) = coding.coder {
            let fits = |(rate, channels): (Rate, Channels)| coder.check_shape(rate, channels);
            if let Err(not) = fits((rate, channels)) {
                return NoPackets::NotCoded(not);
            }
        }
        match (self.lengths(), coding.bitrate()) {
            (Some(lengths), _) => {
                NoPackets::Length { coding: coding.name(), asked: ptime, lengths }
            }
            (None, bits) => NoPackets::NotCoded(NotCoded::Bitrate(bits.unwrap_or(0))),
        }
    }
}

impl CallTerms {
    /// Whether packets can be made of them, both ways; else why not.
    pub fn packets(&self) -> Result<(), NoPackets> {
        self.there.packets()?;
        self.back.packets().map(drop)
    }

    /// The next of the usual lengths of packets, longer or shorter by `way`, that the codings of both directions have; `None`
    /// where there is none.
    pub fn next_ptime(&self, way: core::cmp::Ordering) -> Option<Span> {
        let has = |ptime: &Span| {
            let of = |terms: StreamTerms| StreamTerms { ptime: *ptime, ..terms }.packets().is_ok();
            ptime.cmp(&self.there.ptime) == way && of(self.there) && of(self.back)
        };
        let mut all = USUAL_PTIMES.into_iter();
        match way {
            core::cmp::Ordering::Less => all.rfind(has),
            _ => all.find(has),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::cmp::Ordering;

    use tautline_dsp::format::SampleFormat;

    use super::*;
    use crate::call::terms::CallLatency;
    use crate::stream::Coding;

    fn stream(coding: Coding, ptime: Span) -> StreamTerms {
        StreamTerms { rate: Rate::HZ_48000, channels: Channels::STEREO, coding, ptime }
    }

    fn both(coding: Coding, ptime: Span) -> CallTerms {
        let stream = stream(coding, ptime);
        CallTerms { there: stream, back: stream, paths: Vec::new(), latency: CallLatency::AUTO }
    }

    fn why(terms: StreamTerms) -> String {
        terms.packets().unwrap_err().to_string()
    }

    #[test]
    fn terms_without_packets_are_told_by_what_the_coding_has() {
        let ms = Span::from_millis;
        assert_eq!(
            why(stream(Coding::OPUS, ms(1))),
            "opus has no packets of 1ms, and of 2.5ms, 5ms, 10ms or 20ms; ask for one of these, or for another format first"
        );
        assert!(why(stream(Coding::OPUS_VOICE, ms(5))).contains("and of 10ms or 20ms;"));
        assert!(why(stream(SampleFormat::L24.into(), ms(21))).contains("and of 125us to 20ms;"));
        let music = stream(Coding::OPUS, ms(5));
        let other = StreamTerms { rate: Rate::new(44_100).unwrap(), ..music };
        assert!(why(other).contains("clock of 48000 Hz alone"));
        let six = Channels::new(6).unwrap();
        assert!(why(StreamTerms { channels: six, ..music }).contains("one channel or two"));
        assert!(why(music.at_bitrate(5_999)).contains("6 to 510 kbit/s"));
        // Less than three bytes each.
        assert!(
            why(StreamTerms { ptime: Span::from_micros(2500), ..music.at_bitrate(6_000) })
                .contains("and of 5ms, 10ms or 20ms")
        );
        let wide = StreamTerms {
            rate: Rate::new(192_000).unwrap(),
            channels: Channels::new(64).unwrap(),
            ..stream(SampleFormat::F32.into(), ms(20))
        };
        assert!(why(wide).contains("datagrams hold 65507"));
        let slow = StreamTerms {
            rate: Rate::new(8_000).unwrap(),
            ..stream(Coding::LOSSLESS_16, Span::from_micros(250))
        };
        assert!(why(slow).contains("and of 500us to 20ms"), "{}", why(slow));
    }

    #[test]
    fn the_next_length_of_packets_is_one_that_both_codings_have_or_none() {
        let (ms, us) = (Span::from_millis, Span::from_micros);
        let next = |coding, ptime, way| both(coding, ptime).next_ptime(way);
        assert_eq!(next(SampleFormat::L24.into(), us(2500), Ordering::Less), Some(ms(1)));
        assert_eq!(next(SampleFormat::L24.into(), us(250), Ordering::Less), None);
        assert_eq!(next(SampleFormat::L24.into(), ms(20), Ordering::Greater), None);
        assert_eq!(next(Coding::OPUS, us(2500), Ordering::Less), None);
        assert_eq!(next(Coding::OPUS, us(2500), Ordering::Greater), Some(ms(5)));
        assert_eq!(next(Coding::OPUS_VOICE, ms(10), Ordering::Less), None);
        let mut apart = both(SampleFormat::L24.into(), us(2500));
        apart.back = stream(Coding::OPUS_VOICE, ms(20));
        assert_eq!(
            apart.next_ptime(Ordering::Greater),
            Some(ms(10)),
            "5 ms are no length of the other"
        );
    }
}
