//! A sender whose stream is of another shape than is expected here: why it is not played, and the
//! mend.

use tautline_proto::receiver::{PayloadTypes, ReceiverConfig};
use tautline_proto::stream::StreamFormat;

/// Why the stream that the sender at `address` announces cannot be played by `config`; `None` if it
/// can. Another rate changes its pitch, other channels mix it up, and another coding is noise at
/// full scale.
pub(super) fn refusal(
    address: &str,
    theirs: &StreamFormat,
    config: &ReceiverConfig,
) -> Option<String> {
    let ours = &config.format;
    let other_shape = (theirs.rate, theirs.channels) != (ours.rate, ours.channels);
    // What is not taken for its payload type is not decoded either, and told of as that.
    let coding = config.payload_types.coding(theirs.payload_type, ours);
    let coding = coding.filter(|coding| *coding != theirs.sample);
    let (mut sends, mut expects, mut options) = (Vec::new(), Vec::new(), Vec::new());
    if other_shape {
        let (hertz, channels) = (theirs.rate.hertz(), theirs.channels);
        sends.push(format!("{hertz} Hz with {channels} channels"));
        expects.push(format!("{} Hz with {}", ours.rate.hertz(), ours.channels));
        options.push(format!("--rate {hertz} --channels {channels}"));
    }
    if let Some(coding) = coding {
        let name = theirs.sample.name();
        sends.push(name.to_owned());
        expects.push(coding.name().to_owned());
        options.push(format!("--format {name}"));
    }
    // A description goes before options.
    let described = match config.payload_types {
        PayloadTypes::Exactly if coding.is_some() => ", or by the sender's new .sdp if one is used",
        _ => "",
    };
    (!sends.is_empty()).then(|| {
        format!(
            "{address} sends {} and this end expects {}, so it is not played: set this end up for \
             that, in taut by {}{described}",
            sends.join(" in "),
            expects.join(" in "),
            options.join(" ")
        )
    })
}

#[cfg(test)]
mod tests {
    use tautline_dsp::format::SampleFormat;
    use tautline_proto::time::{Frames, Span};
    use tautline_proto::units::{Channels, Rate};

    use super::*;

    fn format(sample: SampleFormat, payload_type: u8) -> StreamFormat {
        let (rate, channels, packet) = (Rate::HZ_48000, Channels::STEREO, Frames::new(48));
        StreamFormat { rate, channels, sample, packet, payload_type }
    }

    fn told(
        (ours, payload_types): (StreamFormat, PayloadTypes),
        theirs: StreamFormat,
    ) -> Option<String> {
        let config = ReceiverConfig::new(ours, Span::from_millis(5));
        refusal("rtp://h:5004", &theirs, &ReceiverConfig { payload_types, ..config })
    }

    #[test]
    fn a_coding_that_would_be_read_as_another_is_refused_with_the_option_that_fits() {
        let (l16, l24) = (format(SampleFormat::L16, 96), format(SampleFormat::L24, 97));
        let line = "rtp://h:5004 sends l24 and this end expects l16, so it is not played: set this \
                    end up for that, in taut by --format l24";
        assert_eq!(told((l16, PayloadTypes::Any), l24).as_deref(), Some(line));
        // The type says one coding and the sender another.
        let posing = format(SampleFormat::L24, 96);
        assert_eq!(told((l24, PayloadTypes::ByConvention), posing).as_deref(), Some(line));
        let exactly = told((l16, PayloadTypes::Exactly), posing).unwrap();
        assert_eq!(exactly, format!("{line}, or by the sender's new .sdp if one is used"));
        let mono = StreamFormat { channels: Channels::MONO, ..l24 };
        let both = told((l16, PayloadTypes::Any), mono).unwrap();
        assert!(both.contains("sends 48000 Hz with 1 channels in l24 and"), "{both}");
        assert!(both.contains("expects 48000 Hz with 2 in l16, so"), "{both}");
        assert!(both.ends_with("by --rate 48000 --channels 1 --format l24"), "{both}");
    }

    #[test]
    fn a_coding_that_is_read_for_what_it_is_or_not_at_all_is_not_refused() {
        let (l16, l24) = (format(SampleFormat::L16, 96), format(SampleFormat::L24, 97));
        assert_eq!(told((l24, PayloadTypes::Any), l24), None);
        assert_eq!(told((l24, PayloadTypes::ByConvention), l16), None, "each packet says its own");
        assert_eq!(told((l16, PayloadTypes::Exactly), l24), None, "packets of 97 are not taken");
        let other = format(SampleFormat::L16, 100);
        assert_eq!(told((l24, PayloadTypes::ByConvention), other), None, "nor are those of 100");
    }
}
