//! Odd lines, sections or bytes that do not affect the stream.
#![expect(clippy::unwrap_used, reason = "a failure in a shared helper fails the test")]

use proptest::prelude::*;
use tautline_proto::text::is_printable;
use tautline_proto::time::Frames;
use tautline_proto::wire::sdp::*;
use tautline_trial::snapshot;

const BASE: [&str; 10] = [
    "v=0",
    "o=- 1311738121 1311738121 IN IP4 10.77.0.1",
    "s=Stage left",
    "c=IN IP4 239.77.1.1/32",
    "t=0 0",
    "m=audio 5004 RTP/AVP 97",
    "a=rtpmap:97 L24/48000/2",
    "a=ptime:1",
    "a=ts-refclk:ptp=IEEE1588-2008:39-A7-94-FF-FE-07-CB-D0:0",
    "a=mediaclk:direct=963214424",
];

const MEDIA: usize = 5;
/// Mandatory lines.
const NEEDED: [usize; 3] = [3, MEDIA, MEDIA + 1];

fn base() -> Description {
    let (description, warnings) = read(BASE.join("\r\n"));
    assert_eq!(warnings, []);
    description
}

fn read(text: impl AsRef<[u8]>) -> (Description, Vec<SdpWarning>) {
    Description::read(text.as_ref()).unwrap()
}

fn with(line: Option<usize>, text: &str) -> String {
    let mut lines = BASE.to_vec();
    match line {
        Some(line) => lines[line - 1] = text,
        None => lines.push(text),
    }
    lines.join("\r\n")
}

type Change = fn(&mut Description);

#[test]
fn odd_line_is_ignored_with_number_and_reason() {
    let same: Change = |_| ();
    let no_ptime: Change = |base| base.packet = None;
    let cases: [(Option<usize>, &str, Change); 38] = [
        (Some(1), "v=1", same),
        (Some(2), "o=- 1 17461803126912345678901 IN IP4 10.77.0.1", |base| {
            (base.origin.session, base.origin.version) = (1, 0);
        }),
        (Some(2), "o=-", |base| {
            (base.origin.session, base.origin.version) = (0, 0);
            base.origin.address = [0, 0, 0, 0].into();
        }),
        (Some(4), "c=IN IP4 239.77.1.1/300", |base| base.ttl = None),
        (
            Some(4),
            "c=IN IP4 studio.example\r\nc=IN IP4 239.77.1.1/32\r\nc=IN IP4 239.77.1.2/32",
            same,
        ),
        (Some(5), "t=now", same),
        (Some(8), "a=ptime:0", no_ptime),
        (Some(8), "a=ptime:soon", no_ptime),
        (Some(8), "a=ptime:1000", no_ptime),
        (Some(8), "a=ptime:99999999999999999999", no_ptime),
        (Some(8), "a=ptime:20.1", no_ptime),
        (Some(8), "a=ptime:20", |base| base.packet = Some(Frames::new(960))),
        (Some(8), "a=ptime:", no_ptime),
        (Some(10), "a=mediaclk:direct=-963214424", |base| base.mediaclk_offset = None),
        (Some(10), "a=mediaclk:direct=963214424963", |base| base.mediaclk_offset = None),
        (None, "a=framecount:48-192", same),
        (None, "a=framecount:0", same),
        (None, "a=framecount:48000", same),
        (None, "a=x-link-offset:-1", same),
        (None, "a=x-link-offset:5001", same),
        (None, "a=source-filter: incl IN IP4 239.77.1.1", same),
        (None, "a=source-filter: incl IN IP4 239.77.1.1 studio.example", same),
        (None, "a=source-filter: incl IN IP4 239.77.1.1 ff15::1", same),
        (None, "a=source-filter: excl IN IP4 * 10.77.0.2", same),
        (None, "a=extmap:4097 urn:x:foo", same),
        (None, "a=extmap:15 urn:x-tautline:sender-instants", same),
        (None, "a=extmap", same),
        (None, "a=rtcp:", same),
        (None, "a=rtcp:0", same),
        (None, "b=AS:2304.5", same),
        (None, "a=rtpmap:98 telephone-event", same),
        (None, "a=rtpmap:97 L16/44100/1", same),
        (None, "a=ptime:4", same),
        (None, "a=maxptime:soon", same),
        (Some(5), "t=0 0\r\nz=2882844526 -1h 2898848070", same),
        (Some(5), "t=0 0\r\nk=clear:secret", same),
        (None, "<html><body>", same),
        (None, "q=1", same),
    ];
    for (line, text, change) in cases {
        let mut expected = base();
        change(&mut expected);
        let (description, warnings) = read(with(line, text));
        assert_eq!(description, expected, "{text}");
        let reported: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        assert_eq!(reported.is_empty(), text == "a=ptime:20", "{text}: {reported:?}");
        snapshot!(text, reported.join("\n"));
    }
}

#[test]
fn packet_longer_than_a_datagram_is_not_believed() {
    let text = with(Some(7), "a=rtpmap:97 L32/192000/64").replace("ptime:1", "framecount:300");
    let (description, warnings) = read(text);
    assert_eq!(description.packet, None);
    assert_eq!(warnings[0].oddity, SdpOddity::PacketBytes(300 * 64 * 4));
}

#[test]
fn ptime_is_read_as_fraction_with_comma_or_spaces() {
    for text in [".125", "0,125", " 0.125 ", "\t0.125", "00.1250"] {
        let (description, warnings) = read(with(Some(8), &format!("a=ptime:{text}")));
        assert_eq!((description.packet, warnings), (Some(Frames::new(6)), vec![]), "{text:?}");
    }
}

#[test]
fn ordinary_variants_of_lines_need_no_warning() {
    for (line, text) in [
        (4, "c=IN IP4 239.77.1.1/32/1"),
        (4, " c = IN  IP4\t239.77.1.1/32 "),
        (6, "m=audio  5004/1\trtp/avpf  97"),
        (6, "m=audio 5004 RTP/AVP 96 97"),
        (7, "a=RTPMAP: 97  l24 / 48000 / 2 "),
        (10, "a=mediaclk:direct=963214424 rate=1000/1001"),
    ] {
        assert_eq!(read(with(Some(line), text)), (base(), vec![]), "{text}");
    }
    let filtered = read(with(None, "a=source-filter: INCL IN IP4 239.77.1.1/32 10.77.0.1"));
    assert_eq!((filtered.0.sources, filtered.1), (vec![[10, 77, 0, 1].into()], vec![]));
}

fn after(section: &str) -> String {
    let mut lines = BASE.to_vec();
    lines.insert(MEDIA, section);
    lines.join("\n")
}

#[test]
fn first_section_that_can_be_received_is_taken() {
    for (section, oddity) in [
        (
            "m=audio 5006 RTP/AVP 14\na=rtpmap:14 MPA/90000",
            SdpOddity::Refused(SdpFault::Coding("MPA".into())),
        ),
        ("m=audio 0 RTP/AVP 97\na=rtpmap:97 L24/48000/2", SdpOddity::Refused(SdpFault::Disabled)),
        (
            "m=audio 5006 UDP/TLS/RTP/SAVPF 97\na=rtpmap:97 L24/48000/2",
            SdpOddity::Refused(SdpFault::Transport("UDP/TLS/RTP/SAVPF".into())),
        ),
        ("m=audio 5006 RTP/AVP 96", SdpOddity::Refused(SdpFault::PayloadType("96".into()))),
        (
            "m=audio 5006 RTP/AVP 10\nc=IN IP4 studio.example",
            SdpOddity::Refused(SdpFault::Destination("IN IP4 studio.example".into())),
        ),
        ("m=audio x RTP/AVP 10", SdpOddity::Refused(SdpFault::UdpPort("x".into()))),
        ("m=audio 5006 RTP/SAVP 10", SdpOddity::NoKey),
        ("m=audio 5006 RTP/AVP 10\na=inactive", SdpOddity::Inactive),
    ] {
        let (description, warnings) = read(after(section));
        assert_eq!(description, base(), "{section}");
        let reported: Vec<_> =
            warnings.iter().map(|warning| (warning.line, &warning.oddity)).collect();
        assert_eq!(reported, [(6, &oddity)], "{section}");
        snapshot!(section, &warnings[0]);
    }
    let text = BASE.join("\n");
    let alone = |text: String| read(text).0;
    assert_eq!(alone(text.clone() + "\na=inactive"), base());
    assert!(alone(text.replace("RTP/AVP", "RTP/SAVP")).sealed);
    let both = text.replace("audio 5004", "audio 0");
    let error = Description::read(after("m=audio 0 RTP/AVP 10").as_bytes());
    assert!(error.is_ok());
    let error = Description::read(format!("{both}\nm=audio 9 RTP/AVP 96").as_bytes()).unwrap_err();
    assert_eq!((error.line, error.fault), (Some(11), SdpFault::PayloadType("96".into())));
    let error = Description::read(both.as_bytes()).unwrap_err();
    assert_eq!((error.line, error.fault), (Some(6), SdpFault::Disabled));
}

#[test]
fn text_of_a_description_is_shown_printable_and_cut() {
    let hostile = format!("RTP/{}\u{202e}\u{2028}\u{1b}[2J\u{2066}", "x".repeat(5_000));
    let (_, warnings) = read(after(&format!("b={hostile}\nm=audio 9 {hostile} 96")));
    let [SdpWarning { text: line, .. }, SdpWarning { oddity, .. }] = &warnings[..] else {
        panic!("{warnings:?}")
    };
    let SdpOddity::Refused(SdpFault::Transport(transport)) = oddity else { panic!("{oddity:?}") };
    for text in [line, transport] {
        assert!(text.chars().all(is_printable) && text.chars().count() <= 60, "{text:?}");
    }
}

#[test]
fn second_description_is_not_mixed_with_the_first() {
    let text = BASE.join("\n");
    let (description, warnings) = read(format!("{text}\n{}", text.replace("ptime:1", "ptime:2")));
    assert_eq!(description, base());
    assert_eq!((warnings.len(), warnings[0].line), (1, 11));
    assert_eq!(warnings[0].oddity, SdpOddity::Second);
}

#[test]
fn line_ends_encodings_and_trailing_bytes_do_not_matter() {
    for end in ["\r\n", "\n", "\r", "\r\r\n", "\0\r\n"] {
        assert_eq!(read(BASE.join(end)), (base(), vec![]), "{end:?}");
    }
    let text = BASE.join("\r\n") + "\r\n";
    let mixed = text.replacen("\r\n", "\n", 4).replacen("\r\n", "\r", 2);
    let of_units = |to_bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        "\u{FEFF}".encode_utf16().chain(text.encode_utf16()).flat_map(to_bytes).collect()
    };
    for bytes in [
        mixed.into_bytes(),
        format!("\u{FEFF}{text}").into_bytes(),
        of_units(u16::to_le_bytes),
        of_units(u16::to_be_bytes),
        format!("\n\n{text}").into_bytes(),
        format!("{text}\0\0").into_bytes(),
        format!("{text}\u{1A}").into_bytes(),
    ] {
        let (description, warnings) = read(&bytes);
        assert_eq!((description, warnings), (base(), vec![]), "{:?}", &bytes[..4]);
    }
    let latin = [b"s=K\xFCche".as_slice(), b"\r\n", &text.as_bytes()[text.find("c=").unwrap()..]];
    let (description, warnings) = read(latin.concat());
    assert_eq!((description.name.as_str(), warnings), ("Küche", vec![]));
}

fn core(description: &Description) -> impl PartialEq + core::fmt::Debug + use<> {
    let Description { destination, rtp_port, rate, channels, sample, payload_type, sealed, .. } =
        *description;
    (destination, rtp_port, rate, channels, sample, payload_type, sealed)
}

fn any_line() -> impl Strategy<Value = Vec<u8>> {
    let names = "ptime|maxptime|framecount|mediaclk|mediaclk:direct=|ts-refclk|source-filter|extmap|rtcp|rtcp-mux|\
                 crypto|fmtp|x-link-offset|recvonly|inactive|sync-time|rtpmap:98";
    let attribute = format!("a=({names})[: ]?[ -~]{{0,30}}");
    let other = "[osiuepbtrzkq] ?= ?[ -~]{0,30}";
    let text = prop_oneof![
        proptest::string::string_regex(&attribute).unwrap(),
        proptest::string::string_regex(other).unwrap(),
        "[^\\smcv\\p{C}][^\\r\\n]{0,20}",
        Just(String::new()),
    ];
    let tail = proptest::collection::vec(any::<u8>(), 0..4);
    (text, tail).prop_map(|(text, tail)| {
        let mut bytes = text.into_bytes();
        if bytes.is_empty() {
            return bytes;
        }
        bytes.extend(tail.into_iter().filter(|byte| !matches!(byte, b'\r' | b'\n')));
        bytes
    })
}

proptest! {
    #[test]
    fn lines_that_are_not_needed_change_no_stream(
        changed in proptest::collection::vec((0..BASE.len(), any::<bool>(), any_line()), 0..6),
        ends in proptest::collection::vec(0..3_usize, 20),
        marked: bool,
    ) {
        let mut lines: Vec<(bool, Vec<u8>)> =
            BASE.iter().enumerate().map(|(at, line)| (NEEDED.contains(&at), line.as_bytes().to_vec())).collect();
        for (at, replace, line) in changed {
            match replace && !lines[at].0 {
                true => lines[at].1 = line,
                false => lines.insert(at + 1, (false, line)),
            }
        }
        let mut bytes = if marked { b"\xEF\xBB\xBF".to_vec() } else { Vec::new() };
        for ((_, line), end) in lines.iter().zip(ends) {
            bytes.extend(line);
            bytes.extend([b"\r\n".as_slice(), b"\n", b"\r"][end]);
        }
        let text = String::from_utf8_lossy(&bytes);
        let (description, warnings) = Description::read(&bytes).expect(&text);
        prop_assert_eq!(core(&description), core(&base()), "{}", text);
        for warning in warnings {
            prop_assert_eq!(warning.to_string().lines().count(), 1);
        }
    }
}
