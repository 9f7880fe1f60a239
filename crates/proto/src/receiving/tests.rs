use tautline_dsp::format::SampleFormat;

use super::*;
use crate::time::Frames;
use crate::units::{Channels, Rate};

fn format(sample: SampleFormat, payload_type: u8) -> StreamFormat {
    let (rate, channels, packet) = (Rate::HZ_48000, Channels::STEREO, Frames::new(48));
    StreamFormat { rate, channels, sample, packet, payload_type }
}

#[test]
fn a_coding_that_would_be_read_as_another_is_refused() {
    let (l16, l24) = (format(SampleFormat::L16, 96), format(SampleFormat::L24, 97));
    let coding = |ours, types, theirs: StreamFormat| {
        shape::refusal(&theirs, &ours, types).map(|refusal| refusal.coding)
    };
    assert_eq!(coding(l16, PayloadTypes::Any, l24), Some(Some(SampleFormat::L16)));
    // The type says one coding and the sender another.
    let posing = format(SampleFormat::L24, 96);
    assert_eq!(coding(l24, PayloadTypes::ByConvention, posing), Some(Some(SampleFormat::L16)));
    assert_eq!(coding(l16, PayloadTypes::Exactly, posing), Some(Some(SampleFormat::L16)));
    let mono = StreamFormat { channels: Channels::MONO, ..l24 };
    assert_eq!(coding(l16, PayloadTypes::Any, mono), Some(Some(SampleFormat::L16)));
    assert_eq!(coding(l24, PayloadTypes::Any, mono), Some(None), "its shape alone");
}

#[test]
fn a_coding_that_is_read_for_what_it_is_or_not_at_all_is_not_refused() {
    let (l16, l24) = (format(SampleFormat::L16, 96), format(SampleFormat::L24, 97));
    let told = |ours, types, theirs| shape::refusal(&theirs, &ours, types);
    assert_eq!(told(l24, PayloadTypes::Any, l24), None);
    assert_eq!(told(l24, PayloadTypes::ByConvention, l16), None, "each packet says its own");
    assert_eq!(told(l16, PayloadTypes::Exactly, l24), None, "packets of 97 are not taken");
    let other = format(SampleFormat::L16, 100);
    assert_eq!(told(l24, PayloadTypes::ByConvention, other), None, "nor are those of 100");
}
