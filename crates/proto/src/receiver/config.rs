//! How a receiver works.

use tautline_dsp::format::SampleFormat;
use tautline_dsp::resample::Quality;

use crate::stream::StreamFormat;
use crate::time::Span;
use crate::wire::rtp::ExtensionIds;

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
#[derive(Debug, Clone, Copy)]
pub struct ReceiverConfig {
    /// What the stream is. The packet length is a hint: packets of any length are taken.
    pub format: StreamFormat,
    /// Which payload types are taken.
    pub payload_types: PayloadTypes,
    /// Where the sender's instants are in the header.
    pub extensions: ExtensionIds,
    /// Capture to presentation.
    pub link_offset: Span,
    /// How frames are resampled where the card's clock is not the sender's.
    pub resampler: Quality,
}

impl PayloadTypes {
    /// The coding of `payload_type`, if it belongs to the stream.
    pub(super) fn coding(self, payload_type: u8, format: &StreamFormat) -> Option<SampleFormat> {
        // Static types 10 and 11 are L16 (RFC 3551 table 4); dynamic ones begin at 96 (§3).
        match (self, payload_type) {
            (Self::Exactly, _) => (payload_type == format.payload_type).then_some(format.sample),
            (_, 10 | 11) => Some(SampleFormat::L16),
            (Self::Any, 96..=127) => Some(format.sample),
            (Self::ByConvention, _) => [SampleFormat::L16, SampleFormat::L24, SampleFormat::F32]
                .into_iter()
                .find(|s| StreamFormat::default_payload_type(*s) == payload_type),
            _ => None,
        }
    }
}
