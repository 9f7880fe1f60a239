//! Session descriptions: foreign, our own, and broken.
#![expect(clippy::unwrap_used, reason = "a failure in a shared helper fails the test")]

use std::net::IpAddr;

use proptest::prelude::*;
use tautline_dsp::format::SampleFormat;
use tautline_proto::codec::Codec;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Rate, UnitError};
use tautline_proto::wire::rtp::ExtensionIds;
use tautline_proto::wire::sdp::*;

/// Two network legs and PTP (ST 2110-30 over RFC 7198).
const AES67: &str = "v=0\r
o=- 1311738121 1311738121 IN IP4 192.168.1.10\r
s=Stage left\r
c=IN IP4 192.168.1.1\r
t=0 0\r
a=clock-domain:PTPv2 0\r
a=ts-refclk:ptp=IEEE1588-2008:39-A7-94-FF-FE-07-CB-D0:0\r
a=mediaclk:direct=963214424 rate=1000/1001\r
a=group:DUP 1 2\r
m=audio 5004 RTP/AVP 98\r
c=IN IP4 239.69.11.44/32\r
a=rtpmap:98 L24/48000/8\r
a=source-filter: incl IN IP4 239.69.11.44 192.168.1.10\r
a=sync-time:0\r
a=framecount:6\r
a=ptime:0.12\r
a=mid:1\r
a=recvonly\r
m=audio 5006 RTP/AVP 98\r
c=IN IP4 239.69.12.44/32\r
a=rtpmap:98 L24/48000/8\r
a=mid:2\r
";

fn minimal(media: &str) -> String {
    format!("v=0\no=- 0 0 IN IP4 127.0.0.1\ns=-\nc=IN IP4 127.0.0.1\nt=0 0\n{media}")
}

fn read(text: &str) -> Description {
    Description::read(text.as_bytes()).unwrap().0
}

fn warnings(text: &str) -> String {
    let (_, warnings) = Description::read(text.as_bytes()).unwrap();
    warnings.iter().map(|warning| format!("{warning}\n")).collect()
}

fn refused(text: &str) -> DescriptionError {
    Description::read(text.as_bytes()).unwrap_err()
}

fn ours() -> Description {
    Description {
        name: "Küche links".to_owned(),
        origin: SdpOrigin { session: 7, version: 3, address: [10, 0, 0, 7].into() },
        destination: [239, 1, 2, 3].into(),
        rtp_port: 5004,
        rtcp_port: 5005,
        ttl: Some(4),
        sources: vec![[10, 0, 0, 7].into()],
        rate: Rate::HZ_48000,
        channels: Channels::STEREO,
        sample: SampleFormat::L24,
        codec: None,
        payload_type: 97,
        packet: Some(Frames::new(48)),
        link_offset: Some(Span::from_millis(5)),
        mediaclk_offset: Some(12_345),
        reference: Reference::Local,
        extensions: ExtensionIds::DEFAULT,
        sealed: false,
        crypto: Vec::new(),
    }
}

#[test]
fn a_description_with_two_legs_gives_the_first() {
    let description = read(AES67);
    let expected = Description {
        name: "Stage left".to_owned(),
        origin: SdpOrigin {
            session: 1_311_738_121,
            version: 1_311_738_121,
            address: [192, 168, 1, 10].into(),
        },
        destination: [239, 69, 11, 44].into(),
        rtp_port: 5004,
        rtcp_port: 5005,
        ttl: Some(32),
        sources: vec![[192, 168, 1, 10].into()],
        rate: Rate::HZ_48000,
        channels: Channels::new(8).unwrap(),
        sample: SampleFormat::L24,
        codec: None,
        payload_type: 98,
        packet: Some(Frames::new(6)),
        link_offset: None,
        mediaclk_offset: Some(963_214_424),
        reference: Reference::Ptp("IEEE1588-2008:39-A7-94-FF-FE-07-CB-D0:0".to_owned()),
        extensions: ExtensionIds::NONE,
        sealed: false,
        crypto: Vec::new(),
    };
    assert_eq!(description, expected);
}

#[test]
fn ours_is_this_very_text() {
    let expected = "v=0\r
o=- 7 3 IN IP4 10.0.0.7\r
s=Küche links\r
c=IN IP4 239.1.2.3/4\r
t=0 0\r
m=audio 5004 RTP/AVP 97\r
a=source-filter: incl IN IP4 239.1.2.3 10.0.0.7\r
a=rtpmap:97 L24/48000/2\r
a=ptime:1\r
a=framecount:48\r
a=mediaclk:direct=12345\r
a=ts-refclk:local\r
a=extmap:1 urn:ietf:params:rtp-hdrext:ntp-64\r
a=extmap:2 urn:x-tautline:sender-instants\r
a=extmap:3 urn:x-tautline:redundancy\r
a=x-link-offset:5\r
a=extmap-allow-mixed\r
a=recvonly\r
";
    assert_eq!(String::from_utf8(ours().write()).unwrap(), expected);
}

#[test]
fn separate_rtcp_port_is_written_and_read() {
    let description = Description { rtcp_port: 6001, ..ours() };
    let text = String::from_utf8(description.write()).unwrap();
    assert!(text.contains("a=rtcp:6001\r\n"), "{text}");
    assert_eq!(read(&text), description);
    let shared = minimal("m=audio 5004 RTP/AVP 10\na=rtcp-mux\n");
    assert_eq!(read(&shared).rtcp_port, 5004);
}

#[test]
fn the_static_payload_types_need_no_rtpmap() {
    let stereo = read(&minimal("m=audio 5004 RTP/AVP 10\n"));
    let mono = read(&minimal("m=audio 5004 RTP/AVP 11\n"));
    for (description, channels) in [(stereo, Channels::STEREO), (mono, Channels::MONO)] {
        assert_eq!(description.rate.hertz(), 44_100);
        assert_eq!(description.sample, SampleFormat::L16);
        assert_eq!(description.channels, channels);
    }
}

#[test]
fn ptime_is_written_and_read_as_by_aes67_devices() {
    // Rate, frames per packet, and their text.
    let known = [
        (48_000, 6, "0.12"),
        (48_000, 12, "0.25"),
        (48_000, 16, "0.33"),
        (48_000, 48, "1"),
        (48_000, 192, "4"),
        (44_100, 6, "0.13"),
        (44_100, 12, "0.27"),
        (44_100, 16, "0.36"),
        (44_100, 48, "1.09"),
        (44_100, 192, "4.35"),
    ];
    for (rate, packet, ptime) in known {
        let description = Description {
            rate: Rate::new(rate).unwrap(),
            packet: Some(Frames::new(packet)),
            ..ours()
        };
        let text = String::from_utf8(description.write()).unwrap();
        assert!(text.contains(&format!("a=ptime:{ptime}\r\n")), "{rate} {packet}: {text}");
        let without_count = text.replace(&format!("a=framecount:{packet}\r\n"), "");
        assert_eq!(read(&without_count).packet, Some(Frames::new(packet)), "{rate} {ptime}");
    }
}

#[test]
fn the_first_payload_type_that_can_be_decoded_is_taken() {
    let text = minimal(
        "m=audio 5004 RTP/AVP 96 97 98\na=rtpmap:96 speex/48000/2\n\
         a=rtpmap:98 L16/48000\na=rtpmap:97 l24/48000/2\n",
    );
    let description = read(&text);
    assert_eq!((description.payload_type, description.sample), (97, SampleFormat::L24));
}

#[test]
fn opus_rtpmap_has_two_channels_and_is_read_correctly() {
    for (channels, says) in [(Channels::MONO, 0), (Channels::STEREO, 1)] {
        let described = Description {
            rate: Rate::HZ_48000,
            channels,
            sample: SampleFormat::L24,
            codec: Some(Codec::OPUS),
            payload_type: 100,
            packet: Some(Frames::new(120)),
            ..ours()
        };
        let text = String::from_utf8(described.write()).unwrap();
        let map = format!(
            "a=rtpmap:100 opus/48000/2\r\na=fmtp:100 stereo={says};sprop-stereo={says};useinbandfec=0;cbr=1\r\n"
        );
        assert!(text.contains(&map), "{text}");
        assert_eq!(read(&text), described);
        assert_eq!(read(&text).format(Frames::new(240)).codec, described.codec);
    }
    let plain = read(&minimal("m=audio 5004 RTP/AVP 96\na=rtpmap:96 OPUS/48000/2\n"));
    assert_eq!((plain.channels, plain.codec), (Channels::STEREO, Some(Codec::OPUS)));
    let lossless = Description { codec: Some(Codec::Lossless), ..ours() };
    let text = String::from_utf8(lossless.write()).unwrap();
    assert!(text.contains("x-tautline-rice"), "{text}");
    assert_eq!(read(&text), lossless);
}

#[test]
fn encrypted_stream_describes_keys_and_prints_none() {
    let sealed = Description { sealed: true, ..ours() };
    let text = String::from_utf8(sealed.write()).unwrap();
    assert!(text.contains("RTP/SAVP ") && text.contains("a=cryptex\r\n"), "{text}");
    assert!(!text.contains("a=crypto"), "{text}");
    let keys = "a=rtpmap:97 L24/48000/2\na=crypto:1 AEAD_AES_128_GCM inline:c2VjcmV0\n\
                a=crypto:2 AES_CM_128_HMAC_SHA1_80 inline:b3RoZXI=\n";
    for transport in ["RTP/SAVP", "RTP/SAVPF"] {
        let read = read(&minimal(&format!("m=audio 5004 {transport} 97\n{keys}")));
        assert!(read.sealed);
        let first = SdpCrypto("AEAD_AES_128_GCM inline:c2VjcmV0".to_owned());
        assert_eq!((read.crypto.len(), &read.crypto[0]), (2, &first));
        assert!(!format!("{read:?}").contains("c2Vj"));
    }
    let plain = read(&minimal(&format!("m=audio 5004 RTP/AVP 97\n{keys}")));
    assert!(!plain.sealed && plain.crypto.is_empty());
    for wrong in [
        "a=crypto:c2VjcmV0",
        "crypto:1 AEAD_AES_128_GCM inline:c2VjcmV0",
        "k=c2VjcmV0",
        "k;c2VjcmV0",
    ] {
        let text = minimal(&format!("m=audio 5004 RTP/SAVP 10\n{wrong}\n"));
        assert!(read(&text).sealed && read(&text).crypto.is_empty());
        assert!(!warnings(&text).contains("c2Vj"), "{}", warnings(&text));
    }
}

#[test]
fn a_stream_over_plain_rtp_is_found_behind_others() {
    let text =
        minimal("m=video 5000 RTP/AVP 10\nm=audio 5002 RTP/SAVP 10\nm=audio 5004 RTP/AVP 10\n");
    assert_eq!(read(&text).rtp_port, 5004);
}

#[test]
fn ptime_gets_as_many_decimals_as_needed() {
    let rate = Rate::new(192_000).unwrap();
    let text = Description { rate, packet: Some(Frames::new(23)), ..ours() }.write();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("a=ptime:0.119\r\n"), "{text}");
}

#[test]
fn blank_lines_and_spaces_at_the_end_are_no_fault() {
    let text = minimal("m=audio 5004 RTP/AVP 97\na=rtpmap:97 L24/48000/2 \na=ptime:1 \n\n\r\n");
    assert_eq!(read(&text).packet, Some(Frames::new(48)));
}

#[test]
fn extensions_are_found_under_any_identifier_below_15() {
    let text = minimal(
        "m=audio 5004 RTP/AVP 10\na=extmap:5/sendonly urn:ietf:params:rtp-hdrext:ntp-64\n\
         a=extmap:15 urn:x-tautline:sender-instants\n",
    );
    let expected = ExtensionIds { capture: Some(5), instants: None, redundancy: None };
    assert_eq!(read(&text).extensions, expected);
}

#[test]
fn a_source_filter_counts_only_for_the_destination() {
    let filtered = |filter: &str| {
        read(&minimal(&format!("m=audio 5004 RTP/AVP 10\na=source-filter:{filter}\n"))).sources
    };
    let seven: IpAddr = [10, 0, 0, 7].into();
    let eight: IpAddr = [10, 0, 0, 8].into();
    assert_eq!(filtered("incl IN IP4 * 10.0.0.7 10.0.0.8"), [seven, eight]);
    assert_eq!(filtered(" incl IN IP4 127.0.0.1 10.0.0.7"), [seven]);
    assert!(filtered("incl IN IP4 239.1.1.1 10.0.0.7").is_empty());
    assert!(filtered("excl IN IP4 * 10.0.0.7").is_empty());
}

#[test]
fn each_fault_has_its_line_and_a_fix() {
    let media = |media: &str| refused(&minimal(media)).to_string();
    let l24 = "m=audio 5004 RTP/AVP 97\na=rtpmap:97 L24/48000/2\n";
    let cases = [
        (media("m=audio 5004 RTP/AVP 97\n"), "line 6: payload type 97 is not explained"),
        (
            media("m=audio 5004 UDP/TLS/RTP/SAVPF 97\n"),
            "line 6: unsupported transport 'UDP/TLS/RTP/SAVPF'",
        ),
        (media("m=audio 0 RTP/AVP 10\n"), "line 6: UDP port 0 disables this stream"),
        (media("m=audio 70000 RTP/AVP 10\n"), "line 6: invalid UDP port '70000'"),
        (media("m=audio 65535 RTP/AVP 10\n"), "line 6: invalid UDP port '65535'"),
        (media("m=audio\n"), "line 6: unsupported transport ''"),
        (media("m=video 5004 RTP/AVP 10\n"), "no audio stream\nhint: add an m=audio line"),
        (
            media("m=audio 5004 RTP/AVP 97\na=rtpmap:97 speex/48000/2\n"),
            "line 7: unsupported coding 'speex'\nhint: have the sender use L16 or L24",
        ),
        (
            media("m=audio 5004 RTP/AVP 97\na=rtpmap:97 L24\n"),
            "line 7: invalid a=rtpmap:97 L24: must be TYPE CODING/RATE/CHANNELS",
        ),
        (
            media("m=audio 5004 RTP/AVP 97\na=rtpmap:97 L16/12000\n"),
            &format!("line 7: {}", UnitError::Rate(12_000)),
        ),
        (
            media("m=audio 5004 RTP/AVP 97\na=rtpmap:97 L16/48000/99\n"),
            &format!("line 7: {}", UnitError::Channels(99)),
        ),
        (
            refused(&minimal(l24).replace("c=IN IP4 127.0.0.1\n", "")).to_string(),
            "line 5: no destination",
        ),
        (
            refused(&minimal(l24).replace("c=IN IP4 127.0.0.1", "c=IN IP4 studio.example"))
                .to_string(),
            "line 4: invalid destination 'IN IP4 studio.example'",
        ),
        (refused("RIFF").to_string(), "line 1: not SDP"),
        (refused("\nname=value").to_string(), "line 2: not SDP"),
        (refused(&minimal("t=soon\n")).to_string(), "no audio stream\nhint: add an m=audio line"),
        (refused("").to_string(), "not SDP"),
    ];
    for (message, expected) in cases {
        assert!(message.starts_with(expected), "{message:?} instead of {expected:?}");
    }
}

#[test]
fn too_large_sdp_is_refused_unread() {
    let large = vec![b'a'; MAX_BYTES + 1];
    let error = Description::read(&large).unwrap_err();
    assert_eq!(error.fault, SdpFault::Bytes(MAX_BYTES + 1));
    assert_eq!(refused(&"\n".repeat(MAX_LINES)).fault, SdpFault::Lines(MAX_LINES + 1));
    let many = minimal(&"m=audio 5004 RTP/AVP 10\n".repeat(MAX_MEDIA + 1));
    assert_eq!(refused(&many).fault, SdpFault::Media(65));
    let just = minimal(&"m=audio 5004 RTP/AVP 10\n".repeat(MAX_MEDIA));
    assert_eq!(read(&just).rtp_port, 5004);
}

#[test]
fn a_name_cannot_smuggle_in_a_line() {
    let sly = Description { name: "x\r\nc=IN IP4 6.6.6.6".to_owned(), ..ours() };
    let text = String::from_utf8(sly.write()).unwrap();
    assert_eq!(text.lines().filter(|line| line.starts_with("c=")).count(), 1, "{text}");
}

#[test]
fn a_description_cut_anywhere_does_no_harm() {
    for len in 0..AES67.len() {
        let _whatever = Description::read(&AES67.as_bytes()[..len]);
    }
}

/// Groups and hosts of both families.
fn any_destination() -> impl Strategy<Value = (IpAddr, Option<u8>)> {
    prop_oneof![
        (0..256_u32, 1..=255_u8).prop_map(|(low, ttl)| ([239, 1, 2, low as u8].into(), Some(ttl))),
        any::<[u8; 3]>().prop_map(|[b, c, d]| ([10, b, c, d].into(), None)),
        any::<[u16; 7]>()
            .prop_map(|[b, c, d, e, f, g, h]| ([0xFF15, b, c, d, e, f, g, h].into(), None)),
        any::<[u16; 7]>()
            .prop_map(|[b, c, d, e, f, g, h]| ([0xFD00, b, c, d, e, f, g, h].into(), None)),
    ]
}

prop_compose! {
    fn any_description()(
        name in "[^\\p{C}\\p{Zl}\\p{Zp}]{1,40}",
        origin in (any::<u64>(), any::<u64>(), any::<[u8; 4]>()),
        (destination, ttl) in any_destination(),
        ports in (1..65_535_u16, 1..=65_535_u16),
        sources in proptest::collection::vec(any::<[u8; 4]>(), 0..3),
        rate in proptest::sample::select(&Rate::SUPPORTED[..]),
        channels in 1..=64_u32,
        sample in proptest::sample::select(SampleFormat::ALL.to_vec()),
        payload_type in 0..128_u8,
        packet in proptest::option::of(1..=160_i64),
        link_offset in proptest::option::of(0..=5_000_000_000_i64),
        mediaclk_offset: Option<u32>,
        reference in prop_oneof![
            Just(Reference::Local),
            "[A-Z0-9:-]{1,30}".prop_map(Reference::Ptp),
            "ntp=[a-z.]{1,30}".prop_map(Reference::Other),
        ],
        capture in proptest::option::of(1..8_u8),
        instants in proptest::option::of(8..15_u8),
        sealed: bool,
        crypto in proptest::option::of("[A-Z0-9_]{1,20} inline:[A-Za-z0-9+/=]{1,60}"),
    ) -> Description {
        Description {
            name,
            origin: SdpOrigin { session: origin.0, version: origin.1, address: origin.2.into() },
            destination,
            rtp_port: ports.0,
            rtcp_port: ports.1,
            ttl,
            sources: sources.into_iter().map(IpAddr::from).filter(|_| destination.is_ipv4()).collect(),
            rate: Rate::new(rate).unwrap(),
            channels: Channels::new(channels).unwrap(),
            sample,
            codec: None,
            payload_type,
            packet: packet.map(Frames::new),
            link_offset: link_offset.map(Span::from_nanos),
            mediaclk_offset,
            reference,
            extensions: ExtensionIds { capture, instants, redundancy: None },
            sealed,
            crypto: crypto.filter(|_| sealed).map(SdpCrypto).into_iter().collect(),
        }
    }
}

proptest! {
    #[test]
    fn written_rtcp_is_read(description in any_description()) {
        prop_assert_eq!(Description::read(&description.write()), Ok((description, Vec::new())));
    }

    #[test]
    fn ptime_determines_the_frames(rate in proptest::sample::select(&Rate::SUPPORTED[..]), packet in 1..160_i64) {
        let rate = Rate::new(rate).unwrap();
        let packet = Some(Frames::new(packet));
        let text = String::from_utf8(Description { rate, packet, ..ours() }.write()).unwrap();
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with("a=framecount")).collect();
        prop_assert_eq!(read(&lines.join("\n")).packet, packet);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes: Vec<u8>) {
        let _whatever = Description::read(&bytes);
    }

    #[test]
    fn no_damage_makes_the_reader_panic(changes: Vec<(usize, u8)>) {
        let mut bytes = AES67.as_bytes().to_vec();
        let len = bytes.len();
        for (at, value) in changes.into_iter().take(4) {
            bytes[at % len] = value;
        }
        let _whatever = Description::read(&bytes);
    }
}
