//! RTP packets and NTP timestamps.

use proptest::prelude::*;
use tautline_dsp::format::SampleFormat;
use tautline_proto::packet::{Instants, Invalid, Unpack, handed_bytes, held_of, held_steps};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::ntp::{CompactNtp, CompactSpan};
use tautline_proto::wire::rtp::*;

/// Two contributing sources, a one-byte extension, four bytes of padding.
const EVERYTHING: [u8; 36] = [
    0xB2, 0xE1, 0x12, 0x34, 0x89, 0xAB, 0xCD, 0xEF, 0x01, 0x02, 0x03, 0x04, // fixed header
    0, 0, 0, 1, 0, 0, 0, 2, // contributing sources
    0xBE, 0xDE, 0, 1, 0x50, 0xFF, 0, 0, // element 5 of one byte, padding
    0x7F, 0xFF, 0x80, 0x00, // one stereo L16 frame
    0, 0, 0, 4, // padding
];

fn l16_stereo() -> StreamFormat {
    StreamFormat {
        codec: None,
        rate: Rate::HZ_48000,
        channels: Channels::STEREO,
        sample: SampleFormat::L16,
        packet: Frames::new(48),
        payload_type: 97,
    }
}

fn header() -> Header {
    Header {
        sequence: 0xFFFF,
        timestamp: 0x1234_5678,
        ssrc: 0xDEAD_BEEF,
        marker: true,
        payload_type: 97,
        stamps: Some(SenderStamps {
            capture: NtpTime::from_bits(0x0102_0304_0506_0708),
            instants: Some(Instants {
                taken: Span::from_nanos(0x1111_1111),
                packed: Span::from_nanos(0x2222_2222),
                handed: Span::from_nanos(0xF333_3333),
                held: Span::from_nanos(0x44_4400),
            }),
        }),
    }
}

fn with_extension(profile: u16, elements: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x90, 97, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3];
    packet.extend(profile.to_be_bytes());
    packet.extend((elements.len() as u16 / 4).to_be_bytes());
    packet.extend(elements);
    packet.extend([1, 2, 3, 4]);
    packet
}

proptest! {
    #[test]
    fn a_header_is_written_as_another_writer_has_it(
        (sequence, timestamp, ssrc) in any::<(u16, u32, u32)>(),
        (marker, payload_type, stamped) in any::<(bool, u8, bool)>(),
    ) {
        let stamps = header().stamps.filter(|_| stamped);
        let ours = Header { sequence, timestamp, ssrc, marker, payload_type, stamps };
        let mut written = [0xA5; STAMPED_HEADER_BYTES];
        let len = ours.write(&mut written);
        prop_assert_eq!(len, ours.bytes());
        let mut theirs = rtp_types::RtpPacketBuilder::<&[u8], &[u8]>::new()
            .sequence_number(sequence)
            .timestamp(timestamp)
            .ssrc(ssrc)
            .marker_bit(marker)
            .payload_type(payload_type & 0x7F);
        if stamped {
            theirs = theirs.extension(0xBEDE, &written[HEADER_BYTES + 4..]);
        }
        prop_assert_eq!(&theirs.write_vec().unwrap(), &written[..len]);
    }
}

#[test]
fn every_field_is_found_behind_sources_extension_and_padding() {
    let packet = Packet::parse(&EVERYTHING).unwrap();
    assert_eq!(packet.sequence, 0x1234);
    assert_eq!(packet.timestamp, 0x89AB_CDEF);
    assert_eq!(packet.ssrc, 0x0102_0304);
    assert!(packet.marker);
    assert_eq!(packet.payload_type, 97);
    assert_eq!(packet.payload, [0x7F, 0xFF, 0x80, 0x00]);
    assert_eq!(packet.sender, None);
    let unpacked = RtpUnpack::default().unpack(&EVERYTHING).unwrap();
    assert_eq!(unpacked.frames(&l16_stereo(), Frames::new(1)), Ok(Frames::new(1)));
}

#[test]
fn each_lying_length_is_named() {
    let parsed = |change: fn(&mut Vec<u8>)| {
        let mut packet = EVERYTHING.to_vec();
        change(&mut packet);
        Packet::parse(&packet).map(|_| ()).unwrap_err()
    };
    assert_eq!(parsed(|p| p.truncate(11)), Invalid::Truncated { len: 11, header: HEADER_BYTES });
    assert_eq!(parsed(|p| p.clear()), Invalid::Truncated { len: 0, header: HEADER_BYTES });
    assert_eq!(parsed(|p| p[0] = 0x72), Invalid::Version(1));
    assert_eq!(parsed(|p| p[0] |= 0x0F), Invalid::CsrcBeyondEnd);
    assert_eq!(parsed(|p| p[23] = 4), Invalid::ExtensionBeyondEnd);
    assert_eq!(parsed(|p| p[22] = 0xFF), Invalid::ExtensionBeyondEnd);
    assert_eq!(parsed(|p| p.truncate(22)), Invalid::ExtensionBeyondEnd);
    assert_eq!(parsed(|p| p[35] = 0), Invalid::PaddingBeyondEnd);
    assert_eq!(parsed(|p| p[35] = 9), Invalid::PaddingBeyondEnd);
    assert_eq!(parsed(|p| p.truncate(28)), Invalid::PaddingBeyondEnd);
}

#[test]
fn a_valid_packet_cut_anywhere_before_its_payload_is_refused() {
    let mut datagram = vec![0; header().bytes()];
    header().write(&mut datagram);
    for len in 0..STAMPED_HEADER_BYTES {
        let reason = Packet::parse(&datagram[..len]).unwrap_err();
        let expected = if len < HEADER_BYTES {
            Invalid::Truncated { len, header: HEADER_BYTES }
        } else {
            Invalid::ExtensionBeyondEnd
        };
        assert_eq!(reason, expected, "cut to {len} bytes");
    }
}

#[test]
fn payload_of_another_size_is_refused_with_figures() {
    let with_payload = |payload: &[u8]| [&EVERYTHING[..8], &[0; 4], payload].concat();
    let frames = |payload: &[u8], longest| {
        let mut bytes = with_payload(payload);
        bytes[0] = 0x80;
        RtpUnpack::default().unpack(&bytes).unwrap().frames(&l16_stereo(), Frames::new(longest))
    };
    assert_eq!(frames(&[0; 8], 2), Ok(Frames::new(2)));
    assert_eq!(frames(&[], 2), Err(Invalid::Empty));
    let partial = Invalid::PartialFrame { payload_bytes: 7, frame_bytes: 4 };
    assert_eq!(frames(&[0; 7], 2), Err(partial));
    let oversized = Invalid::Oversized { frames: Frames::new(3), longest: Frames::new(2) };
    assert_eq!(frames(&[0; 12], 2), Err(oversized));
    let other = StreamFormat { payload_type: 96, ..l16_stereo() };
    let packet = RtpUnpack::default().unpack(&EVERYTHING).unwrap();
    assert_eq!(packet.frames(&other, Frames::new(9)), Err(Invalid::PayloadType(97)));
}

#[test]
fn every_reason_has_its_own_counter_and_name() {
    let zero = Frames::ZERO;
    let all = [
        Invalid::Truncated { len: 0, header: 12 },
        Invalid::Version(0),
        Invalid::CsrcBeyondEnd,
        Invalid::ExtensionBeyondEnd,
        Invalid::PaddingBeyondEnd,
        Invalid::PayloadType(0),
        Invalid::Empty,
        Invalid::PartialFrame { payload_bytes: 0, frame_bytes: 1 },
        Invalid::Oversized { frames: zero, longest: zero },
        Invalid::Subtype(0),
        Invalid::Unnamed,
        Invalid::Untimed,
        Invalid::OtherStream,
        Invalid::SoundBeyondEnd,
        Invalid::Rate(None),
        Invalid::Channels(0),
        Invalid::Coded,
        Invalid::Format(0),
    ];
    assert_eq!(
        all.map(|reason| reason.index()),
        core::array::from_fn::<_, { Invalid::COUNT }, _>(|i| i)
    );
    let mut names = all.map(|reason| reason.name());
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn a_stamped_header_is_these_very_bytes() {
    let mut buffer = [0xAA; STAMPED_HEADER_BYTES + 1];
    assert_eq!(header().write(&mut buffer), 40);
    let expected = [
        0x90, 0xE1, 0xFF, 0xFF, 0x12, 0x34, 0x56, 0x78, 0xDE, 0xAD, 0xBE, 0xEF, 0xBE, 0xDE, 0, 6,
        0x17, 1, 2, 3, 4, 5, 6, 7, 8, 0x2D, 0x11, 0x11, 0x11, 0x11, 0x22, 0x22, 0x22, 0x22, 0xF3,
        0x33, 0x33, 0x33, 0x44, 0x44,
    ];
    assert_eq!(buffer[..40], expected);
    assert_eq!(buffer[40], 0xAA);
}

#[test]
fn hand_over_time_is_written_at_its_header_offset() {
    let mut datagram = vec![0; STAMPED_HEADER_BYTES];
    header().write(&mut datagram);
    let at = header().handed_at().unwrap();
    let (handed, held) = (Span::from_micros(7), Span::from_nanos(5 * 256));
    datagram[at..at + 6].copy_from_slice(&handed_bytes(handed, held));
    let instants = Packet::parse(&datagram).unwrap().sender.unwrap().instants.unwrap();
    assert_eq!((instants.handed, instants.held), (handed, held));
    assert_eq!(instants.packed, Span::from_nanos(0x2222_2222));
}

#[test]
fn spans_that_do_not_fit_are_held_at_the_ends() {
    assert_eq!(span_bytes(Span::from_nanos(-1)), [0; 4]);
    assert_eq!(span_bytes(Span::from_secs(5)), [0xFF; 4]);
    let late = Span::from_millis(-1);
    assert_eq!(handed_bytes(late, late), [0; 6]);
    assert_eq!(handed_bytes(Span::from_secs(5), Span::from_millis(17)), [0xFF; 6]);
    assert_eq!(held_of(held_steps(Span::from_nanos(1_000_255))), Span::from_nanos(1_000_192));
}

#[test]
fn elements_are_found_in_any_order_among_others_and_padding() {
    let mut elements = vec![0x30, 9, 0, 0, 0x2B];
    elements.extend([0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3]);
    elements.extend([0, 0x17, 1, 2, 3, 4, 5, 6, 7, 8, 0]);
    let packet = with_extension(0xBEDE, &elements);
    let stamps = Packet::parse(&packet).unwrap().sender.unwrap();
    assert_eq!(stamps.capture, NtpTime::from_bits(0x0102_0304_0506_0708));
    let instants = stamps.instants.unwrap();
    assert_eq!(instants.handed, Span::from_nanos(3));
    assert_eq!(instants.held, Span::ZERO, "as senders say it that know no launch times");
}

#[test]
fn identifiers_follow_the_description() {
    let packet = with_extension(0xBEDE, &[0x77, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(Packet::parse(&packet).unwrap().sender, None);
    let ids = ExtensionIds { capture: Some(7), instants: None, redundancy: None };
    let stamps = Packet::parse_with(&packet, ids).unwrap().sender.unwrap();
    assert_eq!(stamps, SenderStamps { capture: NtpTime::from_bits(1), instants: None });
}

#[test]
fn extensions_that_are_not_ours_do_no_harm() {
    let capture = [0x17, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
    let two_byte_form = with_extension(0x1000, &capture);
    assert_eq!(Packet::parse(&two_byte_form).unwrap().sender, None);
    let wrong_length = with_extension(0xBEDE, &[0x12, 0, 0, 0]);
    assert_eq!(Packet::parse(&wrong_length).unwrap().sender, None);
    let lying_element = with_extension(0xBEDE, &[0x1F, 0, 0, 0]);
    assert_eq!(Packet::parse(&lying_element).unwrap().sender, None);
    let reserved_first = with_extension(0xBEDE, &[&[0xF0, 0, 0, 0], &capture[..]].concat());
    assert_eq!(Packet::parse(&reserved_first).unwrap().sender, None);
}

#[test]
fn the_longest_repair_data_that_fits_is_the_longest_that_fits() {
    let plain = Header { stamps: None, ..header() };
    for header in [plain, header()] {
        for maximum in header.bytes_with(1)..3000 {
            let longest = header.repair_data_within(maximum);
            let (takes, one_more) = (header.bytes_with(longest), header.bytes_with(longest + 1));
            assert!(
                takes <= maximum && maximum < one_more,
                "{longest} of {maximum}: {takes}, {one_more}"
            );
        }
    }
}

#[test]
fn ntp_agrees_with_the_historic_dates_of_rfc_5905() {
    // Figure 4: 1970-01-01, and the end of era 0.
    assert_eq!(NtpTime::from_unix_nanos(0).to_bits() >> 32, 2_208_988_800);
    assert_eq!(NtpTime::from_bits(2_208_988_800 << 32).to_unix_nanos(), 0);
    let day_in_2036 = NtpTime::from_bits(63_104 << 32); // 2036-02-08 00:00
    assert_eq!(day_in_2036.to_unix_nanos(), 2_086_041_600 * 1_000_000_000);
    assert_eq!(NtpTime::from_unix_nanos(2_086_041_600_000_000_000), day_in_2036);
}

#[test]
fn ntp_rounds_to_the_nearest_and_carries() {
    assert_eq!(NtpTime::from_unix_nanos(500_000_000).to_bits() as u32, 1 << 31);
    assert_eq!(NtpTime::from_unix_nanos(1).to_bits() as u32, 4); // 4.29
    assert_eq!(NtpTime::from_unix_nanos(2).to_bits() as u32, 9); // 8.59
    let last = NtpTime::from_bits(2_208_988_800 << 32 | 0xFFFF_FFFF);
    assert_eq!(last.to_unix_nanos(), 1_000_000_000);
}

#[test]
fn round_trip_matches_rfc_3550_figure_2() {
    // A = 0xB710:8000, LSR = 0xB705:2000, DLSR = 0x0005:4000: 6.125 s.
    let arrival = NtpTime::from_bits(0xB44D_B710_8000_0000).compact();
    let trip = arrival - CompactNtp::from_bits(0xB705_2000) - CompactSpan::from_bits(0x0005_4000);
    assert_eq!(trip.to_bits(), 0x0006_2000);
    assert_eq!(trip.to_span(), Span::from_millis(6_125));
}

#[test]
fn compact_differences_survive_the_wrap() {
    let before = CompactNtp::from_bits(0xFFFF_8000);
    let after = CompactNtp::from_bits(0x0000_8000);
    assert_eq!((after - before).to_span(), Span::from_secs(1));
    assert_eq!((before - after).to_span(), Span::from_secs(-1));
}

prop_compose! {
    fn any_header()(
        sequence: u16, timestamp: u32, ssrc: u32, marker: bool, payload_type in 0..128_u8,
        stamps in proptest::option::of((any::<u64>(), proptest::option::of(any::<([u32; 3], u16)>()))),
    ) -> Header {
        let span = |nanos: u32| Span::from_nanos(nanos.into());
        let stamps = stamps.map(|(capture, instants)| SenderStamps {
            capture: NtpTime::from_bits(capture),
            instants: instants.map(|([taken, packed, handed], held)| Instants {
                taken: span(taken), packed: span(packed), handed: span(handed), held: held_of(held),
            }),
        });
        Header { sequence, timestamp, ssrc, marker, payload_type, stamps }
    }
}

proptest! {
    #[test]
    fn short_path_reads_the_same_as_the_long_one(
        header in any_header(),
        payload: Vec<u8>,
        flips in proptest::collection::vec((0..STAMPED_HEADER_BYTES, 0_u8..8), 0..3),
        cut in 0..2 * STAMPED_HEADER_BYTES,
    ) {
        let mut datagram = vec![0; header.bytes()];
        header.write(&mut datagram);
        datagram.extend(&payload);
        for (byte, bit) in flips {
            if let Some(byte) = datagram.get_mut(byte) {
                *byte ^= 1 << bit;
            }
        }
        let same_id = ExtensionIds { capture: Some(1), instants: Some(1), redundancy: None };
        for ids in [ExtensionIds::DEFAULT, ExtensionIds::NONE, same_id] {
            for bytes in [&datagram[..], &datagram[..cut.min(datagram.len())]] {
                prop_assert_eq!(Packet::parse_with(bytes, ids), Packet::parse_any(bytes, ids));
            }
        }
    }

    #[test]
    fn written_rtcp_is_read(header in any_header(), payload: Vec<u8>) {
        let mut datagram = vec![0xAA; header.bytes()];
        prop_assert_eq!(header.write(&mut datagram), header.bytes());
        datagram.extend(&payload);
        let packet = Packet::parse(&datagram).unwrap();
        let Header { sequence, timestamp, ssrc, marker, payload_type, stamps } = header;
        let expected = Packet {
            sequence, timestamp, ssrc, marker, payload_type, payload: &payload, sender: stamps,
            carried: None,
        };
        prop_assert_eq!(packet, expected);
    }

    #[test]
    fn carried_redundancy_and_other_fields_round_trip(
        header in any_header(),
        repair_data in prop::collection::vec(any::<u8>(), 1..1200),
        payload: Vec<u8>,
    ) {
        let bytes = header.bytes_with(repair_data.len());
        let mut datagram = vec![0xAA; bytes];
        prop_assert_eq!(header.write_with(&repair_data, &mut datagram), bytes);
        let fits = header.repair_data_within(bytes);
        prop_assert!((repair_data.len()..repair_data.len() + 4).contains(&fits), "{fits} of {}", repair_data.len());
        datagram.extend(&payload);
        let packet = Packet::parse(&datagram).unwrap();
        let mut room = [0; 1200];
        prop_assert_eq!(packet.carried.and_then(|carried| carried.gather(&mut room)), Some(&repair_data[..]));
        prop_assert_eq!((packet.sender, packet.payload), (header.stamps, &payload[..]));
        prop_assert_eq!((packet.sequence, packet.timestamp), (header.sequence, header.timestamp));
        let too_small = &mut room[..repair_data.len() - 1];
        prop_assert_eq!(packet.carried.and_then(|carried| carried.gather(too_small)), None);
        if let Some(at) = header.handed_at_with(repair_data.len()) {
            datagram[at..at + 4].copy_from_slice(&77u32.to_be_bytes());
            let instants = Packet::parse(&datagram).unwrap().sender.and_then(|sender| sender.instants);
            prop_assert_eq!(instants.map(|instants| instants.handed), Some(Span::from_nanos(77)));
        }
        // Without support for it.
        let unaware = Packet::parse_with(&datagram, ExtensionIds::NONE).unwrap();
        prop_assert_eq!((unaware.payload, unaware.carried), (&payload[..], None));
    }

    #[test]
    fn no_elements_of_the_two_byte_form_make_the_reader_panic(words: Vec<[u8; 4]>) {
        let datagram = with_extension(0x1000, words.as_flattened());
        let packet = Packet::parse(&datagram).unwrap();
        let _whatever = packet.carried.and_then(|carried| carried.gather(&mut [0; 64]).map(<[u8]>::len));
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes: Vec<u8>, flags: u8) {
        let mut bytes = bytes;
        let _whatever = Packet::parse(&bytes);
        if let Some(first) = bytes.first_mut() {
            *first = 0x80 | flags & 0x3F; // past the version check
        }
        let _whatever = Packet::parse(&bytes);
    }

    #[test]
    fn no_elements_make_the_reader_panic(words: Vec<[u8; 4]>) {
        let _whatever = Packet::parse(&with_extension(0xBEDE, words.as_flattened())).unwrap();
    }

    #[test]
    fn nanoseconds_survive_ntp_between_1968_and_2104(nanos in -61_500_000_000_000_000..4_230_000_000_000_000_000_i64) {
        prop_assert_eq!(NtpTime::from_unix_nanos(nanos).to_unix_nanos(), nanos);
    }

    #[test]
    fn compact_spans_are_right_to_half_a_tick(nanos in -30_000_000_000_000..30_000_000_000_000_i64) {
        let there_and_back = CompactSpan::from_span(Span::from_nanos(nanos)).to_span();
        prop_assert!((there_and_back.as_nanos() - nanos).abs() <= 7_630);
    }
}
