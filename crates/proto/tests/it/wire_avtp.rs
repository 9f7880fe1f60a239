//! AAF: round trips, standard fields, and invalid packets.

use proptest::prelude::*;
use tautline_dsp::format::SampleFormat;
use tautline_proto::packet::{Invalid, PackedSound, PacketHead, PresentationTime, StreamId};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, WallTime};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::WireForm;
use tautline_proto::wire::avtp::{
    AafUnpack, ETHERNET_PACK, Encapsulation, HEADER_BYTES, UDP_PACK, format_of,
};
use tautline_proto::wrap::Wrapped;

const STREAM: StreamId = StreamId(0xAABB_CCDD_EEFF_0001);

fn format(sample: SampleFormat) -> StreamFormat {
    StreamFormat {
        codec: None,
        rate: Rate::HZ_48000,
        channels: Channels::STEREO,
        sample,
        packet: Frames::new(6),
        payload_type: format_of(sample),
    }
}

#[test]
fn a_rate_that_avtp_lacks_is_answered_with_all_that_it_has() {
    let form = WireForm::Avtp(Encapsulation::Ethernet);
    let of = |hertz| StreamFormat { rate: Rate::new(hertz).unwrap(), ..format(SampleFormat::L24) };
    let reported = form.check(&of(11_025)).unwrap_err().to_string();
    for hertz in Rate::SUPPORTED {
        let is_reported = reported.contains(&format!(" {hertz}"));
        assert_eq!(
            is_reported,
            form.check(&of(hertz)).is_ok() || hertz == 11_025,
            "{hertz}: {reported}"
        );
    }
}

fn head(number: i64, bits: u32, coding: u8) -> PacketHead {
    PacketHead {
        stream: STREAM,
        number: Wrapped::of(number, bits),
        media: Wrapped::of(0, 32),
        begins: false,
        coding,
        capture: None,
        instants: None,
    }
}

fn packet(over: Encapsulation, number: i64, format: &StreamFormat, restarts: u32) -> Vec<u8> {
    let wire = match over {
        Encapsulation::Ethernet => ETHERNET_PACK,
        Encapsulation::Udp => UDP_PACK,
    };
    let before = wire.head_bytes(true, 0);
    let mut bytes = vec![0xA5; before];
    let sound = PackedSound {
        format,
        bytes: format.payload_bytes(),
        presentation: WallTime::from_unix_nanos(0x1234_5678_9ABC_DEF0),
        restarts,
        uncertain: restarts == 1,
    };
    let head = head(number, wire.number_bits(), format.payload_type);
    let packed = wire.pack(&head, &sound, &[], &mut bytes);
    assert_eq!((packed.bytes, packed.handed_at), (before, None));
    bytes.extend((0..format.payload_bytes()).map(|byte| byte as u8));
    bytes
}

#[test]
fn fields_lie_where_the_standard_has_them() {
    let bytes = packet(Encapsulation::Ethernet, 0x1FE, &format(SampleFormat::L16), 1);
    let expected = [
        0x02, // subtype: AAF
        0x89, // sv, version 0, mr, tv
        0xFE, // sequence_num
        0x01, // tu
        0xAA, 0xBB, 0xCC, 0xDD, 0xEE, 0xFF, 0x00, 0x01, // stream_id
        0x9A, 0xBC, 0xDE, 0xF0, // avtp_timestamp
        0x04, // format: INT_16BIT
        0x50, 0x02, // nsr: 48 kHz, channels_per_frame
        0x10, // bit_depth
        0x00, 0x18, // stream_data_length
        0x00, 0x00, // sp, evt
    ];
    assert_eq!(bytes[..HEADER_BYTES], expected);
    let udp = packet(Encapsulation::Udp, 0x0102_03FE, &format(SampleFormat::L16), 1);
    assert_eq!(udp[..4], [1, 2, 3, 0xFE], "encapsulation_sequence_num");
    assert_eq!(udp[4..], bytes);
}

#[test]
fn inconsistent_avtp_is_refused_with_its_reason() {
    let form = AafUnpack::of(Encapsulation::Ethernet, Some(STREAM));
    let good = packet(Encapsulation::Ethernet, 0, &format(SampleFormat::L24), 0);
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        form.unpack(&bytes).map(|packet| packet.payload.len())
    };
    let header = HEADER_BYTES;
    assert_eq!(refused(&|_| {}), Ok(36));
    assert_eq!(refused(&|b| b.extend([0; 20])), Ok(36), "padding of a short frame");
    assert_eq!(refused(&|b| b.clear()), Err(Invalid::Truncated { len: 0, header }));
    assert_eq!(refused(&|b| b.truncate(23)), Err(Invalid::Truncated { len: 23, header }));
    assert_eq!(refused(&|b| b[0] = 4), Err(Invalid::Subtype(4)));
    assert_eq!(refused(&|b| b[1] |= 0x10), Err(Invalid::Version(1)));
    assert_eq!(refused(&|b| b[1] &= 0x7F), Err(Invalid::Unnamed));
    assert_eq!(refused(&|b| b[11] = 2), Err(Invalid::OtherStream));
    assert_eq!(refused(&|b| b[1] &= 0xFE), Err(Invalid::Untimed));
    assert_eq!(refused(&|b| b[22] = 0x10), Ok(36), "sparse, with a time");
    assert_eq!(refused(&|b| (b[1], b[22]) = (0x80, 0x10)), Ok(36), "sparse, without a time");
    assert_eq!(refused(&|b| b[21] = 37), Err(Invalid::SoundBeyondEnd));
    assert_eq!(refused(&|b| b[16] = 5), Err(Invalid::Format(5)));
}

#[test]
fn a_packet_of_another_shape_is_refused_for_that() {
    let form = AafUnpack::of(Encapsulation::Ethernet, None);
    let ours = format(SampleFormat::L16);
    let measured = |theirs: &StreamFormat| {
        let bytes = packet(Encapsulation::Ethernet, 0, theirs, 0);
        form.unpack(&bytes).unwrap().frames(&ours, Frames::new(100))
    };
    let rate = Rate::new(96_000).unwrap();
    assert_eq!(measured(&ours), Ok(Frames::new(6)));
    assert_eq!(measured(&StreamFormat { rate, ..ours }), Err(Invalid::Rate(Some(rate))));
    let channels = Channels::new(6).unwrap();
    assert_eq!(measured(&StreamFormat { channels, ..ours }), Err(Invalid::Channels(6)));
    let unknown = Rate::new(11_025).unwrap();
    assert_eq!(measured(&StreamFormat { rate: unknown, ..ours }), Err(Invalid::Rate(None)));
    assert_eq!(
        measured(&format(SampleFormat::L24)),
        Err(Invalid::PayloadType(format_of(SampleFormat::L24)))
    );
}

proptest! {
    #[test]
    fn written_avtp_header_is_read(
        number in 0_i64..1 << 33,
        sample in prop::sample::select(SampleFormat::ALL.to_vec()),
        hertz in prop::sample::select(vec![8000, 16_000, 24_000, 32_000, 44_100, 48_000, 88_200, 96_000, 176_400, 192_000]),
        channels in 1_u32..=64,
        frames in 1_i64..=12,
        restarts in 0_u32..4,
        udp: bool,
    ) {
        let over = if udp { Encapsulation::Udp } else { Encapsulation::Ethernet };
        let format = StreamFormat {
            rate: Rate::new(hertz).unwrap(),
            channels: Channels::new(channels).unwrap(),
            packet: Frames::new(frames),
            ..format(sample)
        };
        let bytes = packet(over, number, &format, restarts);
        let form = AafUnpack::of(over, None);
        let read = form.unpack(&bytes).unwrap();
        let bits = if udp { 32 } else { 8 };
        prop_assert_eq!(read.head, head(number, bits, format.payload_type));
        prop_assert_eq!(form.stream(&bytes), Some(STREAM));
        prop_assert_eq!(form.coding(read.head.coding, &format), Some(sample.into()));
        prop_assert_eq!(read.frames(&format, Frames::new(12)), Ok(Frames::new(frames)));
        let presented = read.presented.unwrap();
        prop_assert_eq!(presented.time, Some(PresentationTime(0x9ABC_DEF0)));
        prop_assert_eq!(presented.number, number as u8);
        prop_assert_eq!((presented.restarts, presented.uncertain), (restarts % 2 == 1, restarts == 1));
    }

    #[test]
    fn arbitrary_bytes_are_read_or_refused(bytes: Vec<u8>) {
        for over in [Encapsulation::Ethernet, Encapsulation::Udp] {
            let form = AafUnpack::of(over, None);
            let _ = form.unpack(&bytes);
            let _ = form.stream(&bytes);
        }
    }
}
