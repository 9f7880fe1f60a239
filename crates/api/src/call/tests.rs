use proptest::prelude::*;
use tautline_dsp::format::SampleFormat;
use tautline_proto::call::CallId;
use tautline_proto::call::message::{CallMessage, CallReason};
use tautline_proto::call::terms::{
    CallAdaptation, CallLatency, CallOffer, CallPath, CallTerms, StreamAbilities, StreamTerms,
};
use tautline_proto::redundancy::Redundancy;
use tautline_proto::stream::Coding;
use tautline_proto::text::is_printable;
use tautline_proto::time::Span;
use tautline_proto::units::{Channels, Rate};

use super::*;

fn offer() -> CallOffer {
    let abilities = StreamAbilities {
        rates: vec![Rate::new(48_000).unwrap(), Rate::new(8_000).unwrap()],
        channels: vec![Channels::STEREO],
        codings: vec![SampleFormat::L24.into(), SampleFormat::L16.into()],
        ptimes: (Span::from_micros(125), Span::from_millis(20)),
        takes: None,
    };
    CallOffer {
        there: abilities.clone(),
        back: abilities,
        paths: vec![CallPath::Udp, CallPath::Tcp],
        latency: None,
        adapts: None,
        redundancy: None,
    }
}

fn terms() -> CallTerms {
    let stream = StreamTerms {
        rate: Rate::new(48_000).unwrap(),
        channels: Channels::STEREO,
        coding: SampleFormat::L24.into(),
        ptime: Span::from_micros(2_500),
    };
    CallTerms {
        there: stream,
        back: stream,
        paths: vec![CallPath::Udp],
        latency: CallLatency::Kept(Span::from_millis(15)),
        adapts: None,
        redundancy: None,
    }
}

fn in_bits(bitrate: u32) -> StreamTerms {
    StreamTerms { ptime: Span::from_millis(5), ..terms().there }
        .coded(tautline_proto::stream::Coding::OPUS.at_bitrate(bitrate))
}

fn within(millis: i64) -> CallLatency {
    CallLatency::Auto { maximum: Span::from_millis(millis) }
}

fn offering(latency: CallLatency) -> CallOffer {
    CallOffer { latency: Some(latency), ..offer() }
}

fn all() -> Vec<CallMessage> {
    let call = CallId([7; 16]);
    let why = || CallReason::new("because");
    vec![
        CallMessage::Call { version: 1, offer: offer(), resumes: None },
        CallMessage::Call { version: 1, offer: offer(), resumes: Some(call) },
        CallMessage::Accepted { call, terms: terms(), udp_port: 17_240 },
        CallMessage::Resumed,
        CallMessage::Refused(why()),
        CallMessage::Change(terms()),
        CallMessage::Change(CallTerms {
            there: in_bits(64_000),
            back: in_bits(192_000),
            ..terms()
        }),
        CallMessage::Changed(terms()),
        CallMessage::Kept(why()),
        CallMessage::Path { path: CallPath::Tcp, transport: 3 },
        CallMessage::NotReceived { transport: 3 },
        CallMessage::Ping,
        CallMessage::Pong,
        CallMessage::Bye(why()),
        CallMessage::Call { version: 1, offer: offering(within(80)), resumes: None },
        CallMessage::Call { version: 1, offer: offering(CallLatency::AUTO), resumes: None },
        CallMessage::Changed(CallTerms { latency: CallLatency::AUTO, ..terms() }),
        CallMessage::Change(CallTerms {
            adapts: Some(CallAdaptation {
                codings: vec![Coding::OPUS, Coding::OPUS_VOICE],
                max_bitrate: Some(64_000),
                after_loss: true,
            }),
            ..terms()
        }),
        CallMessage::Changed(CallTerms { latency: within(80), ..terms() }),
        CallMessage::Call {
            version: 6,
            offer: CallOffer { redundancy: Some(Redundancy::Auto), ..offer() },
            resumes: None,
        },
        CallMessage::Changed(CallTerms { redundancy: Some(Redundancy::Code(2)), ..terms() }),
    ]
}

#[test]
fn default_call_latency_is_omitted_from_messages() {
    let said = |latency| {
        let terms = CallTerms { latency, ..terms() };
        String::from_utf8(written(&CallMessage::Changed(terms))).unwrap()
    };
    let usual = said(CallLatency::AUTO);
    assert!(!usual.contains("latency"), "{usual}");
    assert!(said(within(80)).contains("\"latency_max_ns\":80000000"), "{}", said(within(80)));
    let kept = said(CallLatency::Kept(Span::from_millis(15)));
    let both = kept.replace("\"latency_ns\"", "\"latency_max_ns\":1,\"latency_ns\"");
    assert!(read(both.trim_end().as_bytes()).is_err(), "{both}");
}

#[test]
fn every_message_reads_as_it_was_written_and_is_one_line() {
    for message in all() {
        let line = written(&message);
        let (last, line) = line.split_last().unwrap();
        assert!(*last == b'\n' && !line.contains(&b'\n'));
        assert!(line.len() < MAX_LINE / 4, "{} bytes", line.len());
        assert_eq!(read(line), Ok(message));
    }
}

#[test]
fn message_has_the_documented_form() {
    let text = String::from_utf8(written(&CallMessage::Path { path: CallPath::Tcp, transport: 3 }))
        .unwrap();
    assert_eq!(text, "{\"path\":{\"path\":\"tcp\",\"transport\":3}}\n");
    assert_eq!(read(b"{\"ping\":{}}"), Ok(CallMessage::Ping));
}

#[test]
fn error_of_invalid_input_is_printable() {
    let line = br#"{"\u001b]0;x\u0007\u202e\u2028":{}}"#;
    let invalid = read(line).unwrap_err().to_string();
    assert!(invalid.lines().flat_map(str::chars).all(is_printable), "{invalid:?}");
    let bye = br#"{"bye":{"reason":"a\u202e\u2028\u001b[2J"}}"#;
    let reason = CallReason::new(r"a\u{202e}\u{2028}\u{1b}[2J");
    assert_eq!(read(bye), Ok(CallMessage::Bye(reason)));
}

#[test]
fn truncated_unknown_or_absurd_messages_are_rejected() {
    for line in [
        &b""[..],
        b"{}",
        b"null",
        b"{\"ping\":{}",
        b"{\"ping\":{\"more\":1}}",
        b"{\"sing\":{}}",
        b"{\"accepted\":{\"call\":\"AAAA\",\"terms\":{},\"udp_port\":1}}",
        b"{\"path\":{\"path\":\"pigeon\",\"transport\":1}}",
        b"\xff\xff",
    ] {
        assert!(read(line).is_err(), "{}", String::from_utf8_lossy(line));
    }
    let asking = CallTerms { redundancy: Some(Redundancy::Code(2)), ..terms() };
    let asking = String::from_utf8(written(&CallMessage::Change(asking))).unwrap();
    assert!(asking.contains("\"fec:2\""), "{asking}");
    assert!(read(asking.trim().replace("fec:2", "fec:200").as_bytes()).is_err());
    let mut absurd = String::from_utf8(written(&CallMessage::Change(terms()))).unwrap();
    absurd = absurd.replace("2500000", "9223372036854775807");
    assert!(read(absurd.trim().as_bytes()).is_err(), "a packet of 292 years");
}

#[test]
fn device_latencies_are_sent_and_negative_ones_refused() {
    let mut offer = offer();
    (offer.there.takes, offer.back.takes) = (Some(Span::from_millis(20)), Some(Span::ZERO));
    let message = CallMessage::Call { version: 3, offer, resumes: None };
    let line = String::from_utf8(written(&message)).unwrap();
    assert_eq!(read(line.trim().as_bytes()), Ok(message));
    assert!(read(line.trim().replace("20000000}", "-1}").as_bytes()).is_err(), "{line}");
}

#[test]
fn additions_of_a_newer_peer_are_ignored() {
    let line = String::from_utf8(written(&all()[0])).unwrap();
    let newer = line
        .replace("[\"l24\",\"l16\"]", "[\"dream\",\"l16\"]")
        .replace("[\"udp\"", "[\"pigeon\",\"udp\"");
    let Ok(CallMessage::Call { offer, .. }) = read(newer.trim().as_bytes()) else {
        panic!("{newer}")
    };
    assert_eq!(offer.there.codings, [SampleFormat::L16.into()]);
    assert_eq!(offer.paths, [CallPath::Udp, CallPath::Tcp]);
}

#[test]
fn keys_differ_per_call_direction_connection_transport() {
    let keys = |secret: u8, call: u8, by| CallKeys::of(&[secret; 32], CallId([call; 16]), by);
    let (one, again) = (keys(1, 1, 0), keys(1, 1, 0));
    assert_eq!((one.there.key, one.back.salt), (again.there.key, again.back.salt));
    assert_ne!(one.there.key, one.back.key);
    assert_ne!(one.there.salt, one.back.salt);
    assert_ne!(one.there.key, one.probe);
    for other in [keys(2, 1, 0), keys(1, 2, 0), keys(1, 1, 1)] {
        assert_ne!(one.there.key, other.there.key);
        assert_ne!(one.back.key, other.back.key);
        assert_ne!(one.probe, other.probe);
    }
}

#[test]
fn nothing_secret_is_printed() {
    let keys = CallKeys::of(&[1; 32], CallId([7; 16]), 0);
    let printed = format!("{keys:?} {:?} {:?}", keys.there, CallId([7; 16]));
    assert_eq!(printed, "CallKeys SrtpSecret CallId");
}

proptest! {
    #[test]
    fn lines_are_the_same_in_whatever_pieces_they_arrive(
        lines in prop::collection::vec(prop::collection::vec(b' '..=b'~', 0..40), 0..8),
        cuts in prop::collection::vec(1_usize..20, 1..40),
    ) {
        let all: Vec<u8> = lines.iter().flat_map(|line| [line.as_slice(), b"\n"].concat()).collect();
        let (mut buffer, mut received) = (LineBuffer::default(), Vec::new());
        let (mut rest, mut cuts) = (all.as_slice(), cuts.iter().cycle());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
            buffer.take(piece, |line| received.push(line.to_vec())).unwrap();
            rest = after;
        }
        prop_assert_eq!(received, lines);
    }
}

#[test]
fn a_line_without_an_end_takes_no_more_memory_than_a_line() {
    let mut buffer = LineBuffer::default();
    let taken = (0..).find(|_| buffer.take(&[b'x'; 1000], |_| ()).is_err());
    assert_eq!(taken, Some(MAX_LINE / 1000));
    let mut buffer = LineBuffer::default();
    assert_eq!(buffer.take(&[b'x'; MAX_LINE + 1], |_| ()), Err(LineTooLong));
    assert_eq!(buffer.take(&vec![b'\n'; 3 * MAX_LINE], |_| ()), Ok(()), "many short ones");
}

#[test]
fn probe_depends_on_key_direction_count_and_every_bit() {
    let keys = CallKeys::of(&[1; 32], CallId([7; 16]), 0);
    let probes = PathProbes::new(&keys.probe);
    let probe = probes.written(ProbeWay::There, 5, 0);
    let long = probes.written(ProbeWay::There, 5, 1_400);
    assert_eq!((long.len(), probes.read(ProbeWay::There, &long)), (1_400, Some(5)));
    assert_eq!(probes.read(ProbeWay::There, &probe), Some(5));
    assert_eq!(probes.read(ProbeWay::Back, &probe), None, "sent back as it came");
    let others = CallKeys::of(&[2; 32], CallId([7; 16]), 0);
    assert_eq!(PathProbes::new(&others.probe).read(ProbeWay::There, &probe), None);
    for bit in 0..8 * PROBE_BYTES {
        let mut flipped = probe.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(probes.read(ProbeWay::There, &flipped), None, "bit {bit}");
    }
    assert_eq!(probes.read(ProbeWay::There, &probe[..PROBE_BYTES - 1]), None);
}

#[test]
fn a_ticket_is_that_of_one_transport_of_one_call() {
    let ticket = |call, number| CallKeys::of(&[1; 32], CallId([call; 16]), number).ticket;
    let shown = ticket(1, 1).shown();
    let read = MediaTicket::read(&shown).unwrap();
    assert!(MediaTicket::of(&[1; 32], CallId([1; 16]), 1).is(&read));
    assert!(read.is(&ticket(1, 1)));
    assert!(!read.is(&ticket(1, 2)) && !read.is(&ticket(2, 1)));
    let mut other = shown;
    other[0] = 22;
    assert!(MediaTicket::read(&other).is_none(), "a handshake of TLS");
}
