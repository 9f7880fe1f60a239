//! How a receiver works.

use std::sync::Arc;

use tautline_dsp::format::SampleFormat;
use tautline_dsp::resample::Quality;

use crate::packet::Unpack;
use crate::stream::StreamFormat;
use crate::time::Span;
use crate::units::{Channels, Rate};
use crate::wire::rtp::RtpUnpack;

/// Which payload types belong to the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadTypes {
    /// The one of the stream's format, as a session description says.
    Exactly,
    /// Any dynamic one, or the static ones of L16; the first packet's is kept. The coding is the
    /// one configured.
    Any,
    /// Those that tautline senders use by default; each says its own coding, which may change in
    /// mid-stream.
    ByConvention,
}

/// How a receiver works.
#[derive(Debug, Clone)]
pub struct ReceiverConfig {
    /// What the stream is. The packet length is a hint: packets of any length are taken.
    pub format: StreamFormat,
    /// Which payload types are taken.
    pub payload_types: PayloadTypes,
    /// How its packets look.
    pub wire: Arc<dyn Unpack>,
    /// Capture to presentation.
    pub link_offset: Span,
    /// How frames are resampled where the card's clock is not the sender's.
    pub resampler: Quality,
}

impl ReceiverConfig {
    /// Of a stream of which nothing else is said: RTP with payload types by convention and the
    /// extensions that senders use who say nothing, the usual resampler.
    pub fn new(format: StreamFormat, link_offset: Span) -> Self {
        Self {
            format,
            payload_types: PayloadTypes::ByConvention,
            wire: RtpUnpack::usual(),
            link_offset,
            resampler: Quality::default(),
        }
    }
}

impl PayloadTypes {
    /// The coding of `payload_type`, if it belongs to the stream.
    pub fn coding(self, payload_type: u8, format: &StreamFormat) -> Option<SampleFormat> {
        // Static types 10 and 11 are L16 at 44.1 kHz, stereo and mono (RFC 3551 table 4); dynamic
        // ones begin at 96 (§3).
        let is_static = |channels| (format.rate, format.channels) == (Rate::HZ_44100, channels);
        match (self, payload_type) {
            (Self::Exactly, _) => (payload_type == format.payload_type).then_some(format.sample),
            (_, 10) => is_static(Channels::STEREO).then_some(SampleFormat::L16),
            (_, 11) => is_static(Channels::MONO).then_some(SampleFormat::L16),
            (Self::Any, 96..=127) => Some(format.sample),
            (Self::ByConvention, _) => [SampleFormat::L16, SampleFormat::L24, SampleFormat::F32]
                .into_iter()
                .find(|s| StreamFormat::default_payload_type(*s) == payload_type),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Frames;

    #[test]
    fn the_static_payload_types_are_taken_for_what_they_stand_for_and_no_other_rate() {
        for (hertz, channels, taken) in [
            (44_100, Channels::STEREO, [true, false]),
            (44_100, Channels::MONO, [false, true]),
            (48_000, Channels::STEREO, [false, false]),
            (8_000, Channels::MONO, [false, false]),
        ] {
            let sample = SampleFormat::L24;
            let payload_type = StreamFormat::default_payload_type(sample);
            let (rate, packet) = (Rate::new(hertz).unwrap(), Frames::new(44));
            let format = StreamFormat { rate, channels, sample, packet, payload_type };
            for types in [PayloadTypes::Any, PayloadTypes::ByConvention] {
                let found = [10, 11].map(|told| types.coding(told, &format));
                assert_eq!(found, taken.map(|taken| taken.then_some(SampleFormat::L16)), "{hertz}");
            }
        }
    }
}
