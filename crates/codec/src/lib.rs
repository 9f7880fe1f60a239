//! Opus by libopus, and a lossless codec ([`tautline_proto::codec`]).
//!
//! A separate crate because code inside other programs must not link libopus.
#![deny(unsafe_code)]

mod bits;
mod cost;
#[cfg(feature = "bundled")]
mod dred;
mod lossless;
mod opus;

use core::ffi::c_int;

use tautline_proto::codec::{Codec, Decode, Encode, NotCoded};
use tautline_proto::stream::{Coding, PTIME_RANGE, StreamFormat};
use tautline_proto::units::{Channels, Rate};

pub use cost::coding_cost;
pub use lossless::{LosslessDecoder, LosslessEncoder};
pub use opus::{OpusDecoder, OpusEncoder};

/// Error of libopus: a number of `opus_defines.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("libopus returned error {0}\nhint: use --format lossless24 or l24, which need no library")]
pub struct OpusRefused(pub c_int);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoEncoder {
    #[error(transparent)]
    NotCoded(#[from] NotCoded),
    #[error(transparent)]
    Refused(#[from] OpusRefused),
}

trait CodecFactory {
    fn encoder(&self, format: &StreamFormat) -> Result<Box<dyn Encode>, NoEncoder>;
    fn decoder(&self, rate: Rate, channels: Channels) -> Option<Box<dyn Decode>>;
}

fn factory(codec: &Codec) -> &dyn CodecFactory {
    match codec {
        Codec::Opus(opus) => opus,
        Codec::Lossless => &lossless::Lossless,
    }
}

/// Creates the format's encoder; `None` without a codec. Allocates.
pub fn encoder(format: &StreamFormat) -> Result<Option<Box<dyn Encode>>, NoEncoder> {
    let Some(codec) = format.codec else { return Ok(None) };
    codec.check(format.shape(), format.packet)?;
    factory(&codec).encoder(format).map(Some)
}

/// Encoders of all codings that the stream may change to. Without `bitrate`, Opus uses the default.
pub fn encoders(
    format: &StreamFormat,
    bitrate: Option<u32>,
) -> Result<Vec<Box<dyn Encode>>, NoEncoder> {
    let mut all: Vec<_> = encoder(format)?.into_iter().collect();
    let packet = format.rate.frames_within(PTIME_RANGE.1);
    for coding in Coding::compressed() {
        let usual = || coding.usual_for(format.channels);
        let Coding { sample, codec } = bitrate.map_or_else(usual, |bits| coding.at_bitrate(bits));
        // The length changes before the coding.
        let format = StreamFormat { sample, codec, packet, ..*format };
        let is_had = all.iter().any(|encoder| encoder.coding().is_coded_as(format.coding()));
        if !is_had && let Ok(Some(encoder)) = encoder(&format) {
            all.push(encoder);
        }
    }
    Ok(all)
}

/// Creates a decoder; `None` if the codec has no decoder. Allocates.
pub fn decoder(codec: Codec, (rate, channels): (Rate, Channels)) -> Option<Box<dyn Decode>> {
    factory(&codec).decoder(rate, channels)
}
