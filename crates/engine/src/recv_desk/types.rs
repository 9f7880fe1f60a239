//! Packets that are not played for their payload type: what people are told of them.

use tautline_dsp::format::SampleFormat;
use tautline_proto::receiver::{OtherType, PayloadTypes, ReceiverConfig};
use tautline_proto::stream::StreamFormat;
use tautline_proto::units::{Channels, Rate};

use super::Desk;
use crate::run::Watch;
use crate::rx::RxStatus;

/// Packets after which it is told: more than strays.
pub(crate) const FEW: u64 = 10;

impl Desk {
    /// Says once what comes instead of the stream.
    pub(super) fn note_other_type(&mut self, status: &RxStatus, watch: &mut Watch) {
        let came = status.other_type.filter(|came| came.packets >= FEW);
        let Some(came) = came.filter(|_| !self.recent.is_lively()) else { return };
        if self.other_type_told != Some(came.payload_type) {
            self.other_type_told = Some(came.payload_type);
            watch.note(sentence(&self.address, &self.config, came));
        }
    }
}

/// What came, why it is not played, and the mend.
pub(crate) fn sentence(address: &str, config: &ReceiverConfig, came: OtherType) -> String {
    let OtherType { payload_type: other, packets } = came;
    let wanted = config.format.payload_type;
    let waits = match config.payload_types {
        PayloadTypes::Exactly => format!("this end waits for {wanted}"),
        PayloadTypes::Any => "this end waits for 96 to 127".to_owned(),
        PayloadTypes::ByConvention => "this end waits for 96, 97 and 98".to_owned(),
    };
    format!(
        "{address}: {packets} packets of payload type {other} came and {waits}, so they are not \
         played; {}",
        mend(other, &config.format)
    )
}

/// What to do about a stream of this payload type.
fn mend(other: u8, here: &StreamFormat) -> String {
    // RFC 3551 table 4.
    let l16 = |channels: Channels| {
        let fits = (here.rate, here.channels) == (Rate::HZ_44100, channels);
        let rest = format!("--format l16 --rate 44100 --channels {channels}");
        match fits && here.sample == SampleFormat::L16 {
            true => format!("use --payload-type {other}"),
            false => format!("it is L16 at 44100 Hz: use --payload-type {other} {rest}"),
        }
    };
    match other {
        10 => l16(Channels::STEREO),
        11 => l16(Channels::MONO),
        0..96 => "that is a coding that taut does not play: have the sender send L16 or L24".into(),
        _ => {
            let coding = here.sample.name();
            format!(
                "use --payload-type {other} (with --format where that is not {coding}), or the \
                 sender's .sdp"
            )
        }
    }
}

#[cfg(test)]
mod tests {

    use tautline_proto::time::{Frames, Span};

    use super::*;

    fn told(wanted: u8, payload_types: PayloadTypes, other: u8) -> String {
        let format = StreamFormat {
            rate: Rate::HZ_48000,
            channels: Channels::STEREO,
            sample: SampleFormat::L24,
            packet: Frames::new(48),
            payload_type: wanted,
        };
        let config = ReceiverConfig::new(format, Span::from_millis(5));
        let config = ReceiverConfig { payload_types, ..config };
        sentence("rtp://h:5004", &config, OtherType { payload_type: other, packets: 730 })
    }

    #[test]
    fn what_came_with_another_payload_type_is_named_with_the_mend() {
        let waits = [
            (PayloadTypes::Exactly, 96, 97, "waits for 96, so", "use --payload-type 97 ("),
            (PayloadTypes::Exactly, 10, 97, "waits for 10, so", "use --payload-type 97 ("),
            (
                PayloadTypes::Exactly,
                96,
                10,
                "waits for 96, so",
                "it is L16 at 44100 Hz: use --payload-type 10 --format l16 --rate 44100 --channels 2",
            ),
            (PayloadTypes::ByConvention, 97, 100, "for 96, 97 and 98", "--payload-type 100"),
            (PayloadTypes::ByConvention, 97, 11, "for 96, 97 and 98", "--channels 1"),
            (PayloadTypes::Any, 97, 0, "for 96 to 127", "have the sender send L16 or L24"),
        ];
        for (types, wanted, other, waits, mend) in waits {
            let told = told(wanted, types, other);
            let came = format!("rtp://h:5004: 730 packets of payload type {other} came");
            for part in [&*came, waits, mend] {
                assert!(told.contains(part), "no {part:?} in {told:?}");
            }
        }
    }
}
