use tautline_trial::snapshot;

use tautline_proto::codec::Coding;
use tautline_proto::time::Frames;

use super::*;

fn format(sample: SampleFormat, payload_type: u8) -> StreamFormat {
    let (rate, channels, packet) = (Rate::HZ_48000, Channels::STEREO, Frames::new(48));
    StreamFormat { codec: None, rate, channels, sample, packet, payload_type }
}

#[test]
fn other_payload_type_is_named_with_a_hint() {
    let waits = [
        (Codings::Exactly, 96, 97, "accepts 96, so", "use --payload-type 97 ("),
        (Codings::Exactly, 10, 97, "accepts 10, so", "use --payload-type 97 ("),
        (
            Codings::Exactly,
            96,
            10,
            "accepts 96, so",
            "it is L16 at 44100 Hz: use --payload-type 10 --format l16 --rate 44100 --channels 2",
        ),
        (Codings::ByConvention, 97, 110, "accepts 96 to 102", "--payload-type 110"),
        (Codings::ByConvention, 97, 11, "accepts 96 to 102", "--channels 1"),
        (Codings::Any, 97, 0, "accepts 96 to 127", "let the sender use L16 or L24"),
    ];
    for (codings, wanted, other, waits, hint) in waits {
        let arrived = OtherType { payload_type: other, packets: 730 };
        let format = format(SampleFormat::L24, wanted);
        let reported = wrong_type("rtp://h:5004", &WrongType { arrived, codings, format });
        let arrived = format!("rtp://h:5004: 730 packets of payload type {other} came");
        for part in [&*arrived, waits, hint] {
            assert!(reported.contains(part), "no {part:?} in {reported:?}");
        }
    }
    let mut types = Coding::ALL.map(|coding| coding.row().payload_type);
    types.sort_unstable();
    assert!(types.contains(&96) && types.contains(&102), "{types:?}");
    assert!(types.windows(2).all(|two| two[1] - two[0] <= 1), "{types:?}");
}

#[test]
fn misread_coding_is_refused_with_the_option_that_fits() {
    let (l16, l24) = (format(SampleFormat::L16, 96), format(SampleFormat::L24, 97));
    let reported = |ours, codings, theirs: StreamFormat, coding| {
        refused("rtp://h:5004", &Refusal { theirs, ours, coding: Some(coding), codings })
    };
    let line = "rtp://h:5004 sends l24 and this end expects l16, so it is not played\n\
                hint: use --format l24 here, or change the sender";
    assert_eq!(reported(l16, Codings::Any, l24, SampleFormat::L16), line);
    let exactly = reported(l16, Codings::Exactly, l24, SampleFormat::L16);
    snapshot!(exactly);
    let slower = StreamFormat { rate: Rate::HZ_44100, ..l24 };
    let both = reported(l16, Codings::Any, slower, SampleFormat::L16);
    snapshot!(both);
    let options = "use --rate 44100 --channels 2 --format l24 here, or change the sender";
    assert!(both.ends_with(options), "{both}");
}

#[test]
fn media_clock_restart_is_explained_as_an_xrun() {
    let reported = words("avtp://eth0/91:E0:F0:00:FE:01", &ReceiveNote::Restarting(8));
    snapshot!(reported);
    assert!(!reported.contains("anew"), "{reported}");
}
