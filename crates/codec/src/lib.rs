//! What compresses a stream's packets: Opus by libopus, and a coder without loss.
//!
//! Both sides of a [`Coder`] are made here, on an ordinary thread, and handed to machines that know
//! nothing of libraries ([`tautline_proto::codec`]). This is a crate of its own as it links libopus: what runs in other
//! people's programs must not.
#![deny(unsafe_code)]

mod bits;
mod cost;
mod lossless;
mod opus;

use tautline_proto::codec::{Coder, Decode, Encode, NotCoded};
use tautline_proto::stream::{Coding, PTIME_RANGE, StreamFormat};
use tautline_proto::units::{Channels, Rate};

pub use cost::coding_cost;
pub use lossless::{LosslessDecoder, LosslessEncoder};
pub use opus::{OpusDecoder, OpusEncoder, OpusRefused};

/// Why there is no encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoEncoder {
    /// The coder does not code such streams.
    NotCoded(NotCoded),
    Refused(OpusRefused),
}

impl core::error::Error for NoEncoder {}

impl core::fmt::Display for NoEncoder {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NotCoded(not_coded) => not_coded.fmt(f),
            Self::Refused(refused) => refused.fmt(f),
        }
    }
}

/// What codes a stream of this format by its coder; `None` where it has none. Allocates.
pub fn encoder(format: &StreamFormat) -> Result<Option<Box<dyn Encode>>, NoEncoder> {
    let Some(coder) = format.coder else { return Ok(None) };
    coder.check(format.shape(), format.packet).map_err(NoEncoder::NotCoded)?;
    Ok(Some(match coder {
        Coder::Opus(opus) => {
            Box::new(OpusEncoder::new(opus, format.channels).map_err(NoEncoder::Refused)?)
        }
        Coder::Lossless => Box::new(LosslessEncoder::new(format.sample, format.channels)),
    }))
}

/// The encoder of this stream, and those of all other codings that it may change to: Opus at `bitrate`, or at the usual rate
/// for these channels.
pub fn encoders(
    format: &StreamFormat,
    bitrate: Option<u32>,
) -> Result<Vec<Box<dyn Encode>>, NoEncoder> {
    let mut all: Vec<_> = encoder(format)?.into_iter().collect();
    let packet = format.rate.frames_within(PTIME_RANGE.1);
    for coding in Coding::compressed() {
        let usual = || coding.usual_for(format.channels);
        let Coding { sample, coder } = bitrate.map_or_else(usual, |bits| coding.at_bitrate(bits));
        // With room for the longest packets: a change of their length comes before that of the coding.
        let format = StreamFormat { sample, coder, packet, ..*format };
        let is_had = all.iter().any(|encoder| encoder.coding().is_coded_as(format.coding()));
        if !is_had && let Ok(Some(encoder)) = encoder(&format) {
            all.push(encoder);
        }
    }
    Ok(all)
}

/// What reads packets of `coder` in a stream of this rate and these channels; `None` where that is none. Allocates.
pub fn decoder(coder: Coder, (rate, channels): (Rate, Channels)) -> Option<Box<dyn Decode>> {
    match coder {
        Coder::Opus(_) => Some(Box::new(OpusDecoder::new(rate, channels).ok()?)),
        Coder::Lossless => Some(Box::new(LosslessDecoder::new(channels))),
    }
}
