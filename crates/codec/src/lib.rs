//! What compresses a stream's packets: Opus by libopus, and a coder without loss.
//!
//! Both sides of a [`Codec`] are made here, on an ordinary thread, and handed to machines that know
//! nothing of libraries ([`tautline_proto::codec`]). This is a crate of its own as it links libopus: what runs in other
//! people's programs must not.
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

/// Why there is no coder: a number of `opus_defines.h`, which is less than 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("libopus returned error {0}; use --format lossless24 or l24, which need no library")]
pub struct OpusRefused(pub c_int);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoEncoder {
    #[error(transparent)]
    NotCoded(#[from] NotCoded),
    #[error(transparent)]
    Refused(#[from] OpusRefused),
}

/// Makes both ends of a coder.
trait CodecFactory {
    fn encoder(&self, format: &StreamFormat) -> Result<Box<dyn Encode>, NoEncoder>;
    fn decoder(&self, rate: Rate, channels: Channels) -> Option<Box<dyn Decode>>;
}

fn codec(coder: &Codec) -> &dyn CodecFactory {
    match coder {
        Codec::Opus(opus) => opus,
        Codec::Lossless => &lossless::Lossless,
    }
}

/// What codes a stream of this format by its coder; `None` where it has none. Allocates.
pub fn encoder(format: &StreamFormat) -> Result<Option<Box<dyn Encode>>, NoEncoder> {
    let Some(coder) = format.coder else { return Ok(None) };
    coder.check(format.shape(), format.packet)?;
    codec(&coder).encoder(format).map(Some)
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
pub fn decoder(coder: Codec, (rate, channels): (Rate, Channels)) -> Option<Box<dyn Decode>> {
    codec(&coder).decoder(rate, channels)
}
