//! What compresses streams: made here, for engines that know nothing of libraries.

use tautline_codec::{decoder, encoder};
use tautline_proto::coder::{Encode, MakeDecoder};
use tautline_proto::stream::{Coding, StreamFormat};
use tautline_proto::units::Channels;

use crate::failure::Failure;

/// What reads streams that are compressed.
pub(super) const DECODERS: MakeDecoder = decoder;

/// A coding in so many bits per second, or the usual for these channels.
pub(super) fn in_bits(
    coding: Coding,
    bitrate: Option<u32>,
    channels: Channels,
) -> Result<Coding, Failure> {
    match (coding.bitrate(), bitrate) {
        (Some(_), Some(bitrate)) => Ok(coding.at_bitrate(bitrate)),
        (_, None) => Ok(coding.usual_for(channels)),
        (_, Some(_)) => Err(Failure::usage(format!(
            "--bitrate is of Opus, and {} takes what its sound takes; leave --bitrate out, or give --format opus",
            coding.name()
        ))),
    }
}

/// What codes this stream, and, where its coding `may_change`, what else it may be coded by: Opus in so many bits per
/// second, or in the usual for these channels, as a change asks for it.
pub(super) fn encoders(
    format: &StreamFormat,
    may_change: bool,
    bitrate: Option<u32>,
) -> Result<Vec<Box<dyn Encode>>, Failure> {
    let made = encoder(format).map_err(|error| Failure::usage(error.to_string()))?;
    let mut all: Vec<Box<dyn Encode>> = made.into_iter().collect();
    if !may_change {
        return Ok(all);
    }
    for coding in Coding::compressed() {
        let usual = || coding.usual_for(format.channels);
        let Coding { sample, coder } = bitrate.map_or_else(usual, |bits| coding.at_bitrate(bits));
        // In whatever packets it takes: they are asked for before it.
        let format = StreamFormat { sample, coder, packet: longest(format), ..*format };
        let is_had = all.iter().any(|encoder| encoder.coding().is_coded_as(format.coding()));
        if !is_had && let Ok(Some(encoder)) = encoder(&format) {
            all.push(encoder);
        }
    }
    Ok(all)
}

/// The longest packet of such a stream.
fn longest(format: &StreamFormat) -> tautline_proto::time::Frames {
    format.rate.frames_within(tautline_proto::stream::PTIME_RANGE.1)
}
