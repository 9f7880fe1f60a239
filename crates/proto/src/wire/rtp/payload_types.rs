//! Payload types (RFC 3551 §6).

use tautline_dsp::format::SampleFormat;

use crate::codec::Coding;
use crate::packet::Codings;
use crate::stream::StreamFormat;
use crate::units::{Channels, Rate};

/// `None` if unacceptable for `format`.
pub(super) fn coding(codings: Codings, payload_type: u8, format: &StreamFormat) -> Option<Coding> {
    // L16 at 44.1 kHz, stereo and mono (RFC 3551 table 4). Dynamic types begin at 96 (§3).
    let fixed = |channels| {
        let is_so = (format.rate, format.channels) == (Rate::HZ_44100, channels);
        is_so.then_some(Coding::of(SampleFormat::L16))
    };
    match (codings, payload_type) {
        (Codings::Exactly, _) => (payload_type == format.payload_type).then_some(format.coding()),
        (_, 10) => fixed(Channels::STEREO),
        (_, 11) => fixed(Channels::MONO),
        (Codings::Any, 96..=127) => Some(format.coding()),
        (Codings::ByConvention, _) => Coding::find(|row| row.payload_type == payload_type),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Frames;

    #[test]
    fn static_payload_types_match_only_their_rate_and_channels() {
        for (hertz, channels, taken) in [
            (44_100, Channels::STEREO, [true, false]),
            (44_100, Channels::MONO, [false, true]),
            (48_000, Channels::STEREO, [false, false]),
            (8_000, Channels::MONO, [false, false]),
        ] {
            let sample = SampleFormat::L24;
            let payload_type = StreamFormat::default_payload_type(sample);
            let (rate, packet) = (Rate::new(hertz).unwrap(), Frames::new(44));
            let format = StreamFormat { codec: None, rate, channels, sample, packet, payload_type };
            for codings in [Codings::Any, Codings::ByConvention] {
                let found = [10, 11].map(|reported| coding(codings, reported, &format));
                let l16 = Coding::of(SampleFormat::L16);
                assert_eq!(found, taken.map(|taken| taken.then_some(l16)), "{hertz}");
            }
        }
    }
}
