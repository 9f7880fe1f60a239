//! What payload types stand for (RFC 3551 §6).

use tautline_dsp::format::SampleFormat;

use crate::coder::Coder;
use crate::packet::Codings;
use crate::stream::StreamFormat;
use crate::units::{Channels, Rate};

/// How samples are coded under `payload_type`, if it may be that of a stream that is to be `format`:
/// the one of a session description; any dynamic one, or the static ones of L16; or those by
/// convention.
pub(super) fn sample(
    codings: Codings,
    payload_type: u8,
    format: &StreamFormat,
) -> Option<SampleFormat> {
    // Static types 10 and 11 are L16 at 44.1 kHz, stereo and mono (RFC 3551 table 4); dynamic
    // ones begin at 96 (§3).
    let is_static = |channels| (format.rate, format.channels) == (Rate::HZ_44100, channels);
    match (codings, payload_type) {
        (Codings::Exactly, _) => (payload_type == format.payload_type).then_some(format.sample),
        (_, 10) => is_static(Channels::STEREO).then_some(SampleFormat::L16),
        (_, 11) => is_static(Channels::MONO).then_some(SampleFormat::L16),
        (Codings::Any, 96..=127) => Some(format.sample),
        (Codings::ByConvention, _) => SampleFormat::ALL
            .into_iter()
            .find(|s| StreamFormat::default_payload_type(*s) == payload_type)
            .or(StreamFormat::usual_coder(payload_type).map(|(_, sample)| sample)),
        _ => None,
    }
}

/// What compresses the samples under it, in the same way.
pub(super) fn coder(codings: Codings, payload_type: u8, format: &StreamFormat) -> Option<Coder> {
    match (codings, payload_type) {
        (Codings::Exactly, _) => format.coder.filter(|_| payload_type == format.payload_type),
        (Codings::Any, 96..=127) => format.coder,
        (Codings::ByConvention, _) => {
            StreamFormat::usual_coder(payload_type).map(|(coder, _)| coder)
        }
        _ => None,
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
            let format = StreamFormat { coder: None, rate, channels, sample, packet, payload_type };
            for codings in [Codings::Any, Codings::ByConvention] {
                let found = [10, 11].map(|told| super::sample(codings, told, &format));
                assert_eq!(found, taken.map(|taken| taken.then_some(SampleFormat::L16)), "{hertz}");
            }
        }
    }
}
