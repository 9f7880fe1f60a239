use alsa_sys::{
    SND_PCM_FORMAT_FLOAT_BE, SND_PCM_FORMAT_S16_BE, SND_PCM_FORMAT_S24_3BE, SND_PCM_FORMAT_S32_BE,
};

use super::*;
use crate::samples::SampleCoding;

fn keys(pairs: &[(&str, &str)]) -> Vec<(String, Value)> {
    let value =
        |text: &str| text.parse().map_or_else(|_| Value::Text(text.to_owned()), Value::Number);
    pairs.iter().map(|(key, text)| ((*key).to_owned(), value(text))).collect()
}

fn refusal(pairs: &[(&str, &str)]) -> String {
    let complaint = read("x", &keys(pairs), Direction::Playback).unwrap_err();
    assert_eq!(complaint.errno, libc::EINVAL);
    complaint.sentence
}

#[test]
fn a_pcm_is_what_its_keys_say() {
    let all = [
        ("type", "tautline"),
        ("to", "rtp://239.69.1.5:5004"),
        ("from", ""),
        ("latency", "5ms"),
        ("ptime", "125us"),
        ("format", "L16"),
        ("rate", "96000"),
        ("channels", "8"),
        ("period", "32"),
        ("link", "ringed"),
        ("pacing", "fq"),
    ];
    let wish = read("x", &keys(&all), Direction::Playback).unwrap();
    assert_eq!(wish.latency, LatencyRule::Chosen(Span::from_millis(5)));
    assert_eq!((wish.ptime, wish.format), (Span::from_micros(125), SampleFormat::L16));
    assert_eq!(wish.rate.map(Rate::hertz), Some(96_000));
    assert_eq!(wish.channels.map(Channels::count), Some(8));
    assert_eq!((wish.period, wish.link), (Frames::new(32), LinkKind::Ringed));
    assert_eq!(wish.pacing, Some(PacingRung::Fq));
    assert_eq!(wish.address.to_string(), "rtp://239.69.1.5:5004");
}

#[test]
fn a_card_that_is_served_has_a_name_and_no_other_key() {
    let served = |pairs: &[(&str, &str)]| served("x", &keys(pairs));
    assert_eq!(served(&[("to", "a"), ("serve", "")]), Ok(None));
    let named = served(&[("type", "tautline"), ("hint", "h"), ("to", ""), ("serve", "desk-1")]);
    assert_eq!(named.unwrap().map(|name| name.to_string()).as_deref(), Some("desk-1"));
    assert_eq!(
        served(&[("serve", "5")]).unwrap().map(|name| name.to_string()).as_deref(),
        Some("5")
    );
    for (pairs, words) in [
        (&[("serve", "desk"), ("latency", "5ms")][..], "latency is nothing to it; leave one out"),
        (&[("serve", "../desk")], "no name; use up to 32 letters"),
        (&[("serve", "a b")], "no name; use up to 32 letters"),
    ] {
        let complaint = served(pairs).unwrap_err();
        let sentence = complaint.sentence;
        assert!(sentence.starts_with("pcm.x: serve ") && sentence.contains(words), "{sentence}");
        assert_eq!(complaint.errno, libc::EINVAL);
    }
}

#[test]
fn what_link_was_called_at_first_is_still_understood() {
    let read = |word| {
        let wish = read("x", &keys(&[("to", "a"), ("pacing", word)]), Direction::Playback);
        wish.map(|wish| (wish.link, wish.pacing)).unwrap()
    };
    assert_eq!(read("ringed"), (LinkKind::Ringed, None));
    assert_eq!(read("auto"), (LinkKind::Auto, None));
    assert_eq!(read("etf"), (LinkKind::Auto, Some(PacingRung::Etf)));
}

#[test]
fn what_type_aaf_is_configured_by_is_understood() {
    let configured = [
        ("type", "tautline"),
        ("ifname", "eth0"),
        ("addr", "01:AA:AA:AA:AA:AA"),
        ("prio", "3"),
        ("streamid", "AA:BB:CC:DD:EE:FF:0001"),
        ("mtt", "2000"),
        ("time_uncertainty", "125"),
        ("frames_per_pdu", "6"),
        ("ptime_tolerance", "100"),
    ];
    for direction in [Direction::Playback, Direction::Capture] {
        let wish = read("x", &keys(&configured), direction).unwrap();
        let address = wish.address.to_string();
        assert!(address.starts_with("avtp://eth0/01:AA:AA:AA:AA:AA"), "{address}");
        assert_eq!(wish.packet, Some(Frames::new(6)));
        assert_eq!(wish.transit, Some(Span::from_micros(2125)));
    }
    let without = |key: &str| {
        let left: Vec<_> = configured.into_iter().filter(|(other, _)| *other != key).collect();
        read("x", &keys(&left), Direction::Playback)
    };
    assert!(without("addr").unwrap_err().sentence.contains("belong together"));
    assert_eq!(without("mtt").unwrap().transit, Some(Span::from_micros(125)));
    assert_eq!(without("frames_per_pdu").unwrap().packet, None);
}

#[test]
fn what_type_aaf_is_configured_by_is_coded_as_the_program_codes_it() {
    let wish = |format: &str| {
        let place = [("ifname", "eth0"), ("addr", "01:AA:AA:AA:AA:AA"), ("format", format)];
        read("x", &keys(&place), Direction::Playback).unwrap()
    };
    let mut free = wish("");
    assert_eq!(free.format, SampleFormat::L32, "the widest, until it is known");
    // All that type `aaf` offers, with its `format` on the wire.
    for (number, sample, format) in [
        (SND_PCM_FORMAT_S16_BE, SampleFormat::L16, 4),
        (SND_PCM_FORMAT_S24_3BE, SampleFormat::L24, 3),
        (SND_PCM_FORMAT_S32_BE, SampleFormat::L32, 2),
        (SND_PCM_FORMAT_FLOAT_BE, SampleFormat::F32, 1),
    ] {
        let program = SampleCoding::of(number).unwrap().on_wire();
        assert!(free.code_as(program) && free.format == sample);
        assert_eq!(free.address.form().coding(free.format), format);
        assert!(!free.code_as(program), "the same once more");
    }
    let mut said = wish("l24");
    assert!(!said.code_as(SampleFormat::L16) && said.format == SampleFormat::L24);
    let mut by_address = read("x", &keys(&[("to", "a")]), Direction::Playback).unwrap();
    assert!(!by_address.code_as(SampleFormat::L16));
    assert_eq!(by_address.format, SampleFormat::L24);
}

#[test]
fn a_packet_may_be_told_twice_where_both_are_the_same() {
    let wish = |rate| {
        let twice = [("to", "a"), ("frames_per_pdu", "6"), ("ptime", "125us"), ("rate", rate)];
        read("x", &keys(&twice), Direction::Playback)
    };
    assert_eq!(wish("").unwrap().packet, Some(Frames::new(6)));
    assert_eq!(wish("48000").unwrap().packet, Some(Frames::new(6)));
    let other = wish("96000").unwrap_err().sentence;
    assert!(other.contains("12 frames at 96000 Hz"), "{other}");
}

#[test]
fn the_direction_says_which_address_is_meant() {
    let both = keys(&[("to", "10.0.0.2"), ("from", "0.0.0.0:6000")]);
    let address = |direction| read("x", &both, direction).unwrap().address.to_string();
    assert_eq!(address(Direction::Playback), "rtp://10.0.0.2:5004");
    assert_eq!(address(Direction::Capture), "rtp://0.0.0.0:6000");
}

#[test]
fn a_clock_is_followed_where_it_is_recorded() {
    let (from, clock) =
        (("from", "avtp://eth0/91:E0:F0:00:FE:09"), "avtp+udp://239.1.1.1:1?iface=eth0");
    let both = keys(&[("to", "10.0.0.2"), from, ("clock", clock)]);
    let followed = |direction| read("x", &both, direction).unwrap().clock;
    let recorder = followed(Direction::Capture).map(|clock| clock.to_string());
    assert_eq!(recorder.as_deref(), Some(clock));
    assert_eq!(followed(Direction::Playback), None);
    let refused = |from, clock| {
        let keys = keys(&[("from", from), ("clock", clock)]);
        read("x", &keys, Direction::Capture).unwrap_err().sentence
    };
    let sentence = refused("0.0.0.0", clock);
    assert!(sentence.contains("rtp://0.0.0.0:5004 is none; leave clock out"), "{sentence}");
    let sentence = refused(from.1, "rtp://a:1");
    assert!(sentence.contains("`rtp://a:1` is no clock"), "{sentence}");
    let sentence = refused(from.1, "avtp://eth0/91:E0:F0:00:FE:08?prio=3");
    assert!(sentence.contains("`prio` is nothing that a clock is asked for by"), "{sentence}");
}

#[test]
fn an_address_may_leave_out_what_is_usual() {
    for (short, full) in [
        ("kitchen", "rtp://kitchen:5004"),
        ("kitchen:6000", "rtp://kitchen:6000"),
        ("239.69.1.5?iface=eth0&ttl=4", "rtp://239.69.1.5:5004?iface=eth0&ttl=4"),
        ("::1", "rtp://[::1]:5004"),
        ("[::1]:6000", "rtp://[::1]:6000"),
        ("[::1]", "rtp://[::1]:5004"),
        ("rtp://a:1", "rtp://a:1"),
        ("/tmp/kitchen.sdp", "/tmp/kitchen.sdp"),
    ] {
        assert_eq!(completed(short).as_deref(), Some(full));
    }
}

#[test]
fn what_cannot_be_is_answered_with_the_mend() {
    for (pairs, words) in [
        (vec![], "an address is missing; write taut:HOST, or to \"rtp://HOST:5004\""),
        (vec![("from", "0.0.0.0")], "only `from`"),
        (
            vec![("to", "a"), ("latncy", "5ms")],
            "`latncy` is no key of type tautline; use serve alone, or to",
        ),
        (vec![("to", "a"), ("latency", "5")], "latency 5 has no unit; write latency \"5ms\""),
        (vec![("to", "a"), ("latency", "5 parsecs")], "is not a duration"),
        (vec![("to", "a"), ("latency", "1h")], "cannot be kept"),
        (vec![("to", "a"), ("ptime", "1s")], "125us to 20ms"),
        (vec![("to", "a"), ("ptime", "0")], "125us to 20ms"),
        (vec![("to", "a"), ("ptime", "250")], "write ptime \"250us\""),
        (vec![("to", "a"), ("ptime", "0.5")], "write ptime \"0.5ms\""),
        (vec![("to", "a"), ("latency", "0")], "cannot be kept"),
        (vec![("to", "5")], "to 5 names no host; write to \"rtp://HOST:5004\""),
        (vec![("to", "5:5004")], "names no host"),
        (vec![("to", ":5004")], "names no host; write rtp://HOST:5004"),
        (vec![("to", " ")], "an address is missing"),
        (vec![("to", "rtp:/127.0.0.1:5004")], "write rtp://127.0.0.1:5004"),
        (vec![("to", "rtp:127.0.0.1")], "write rtp://127.0.0.1:5004"),
        (vec![("to", "127.0.0.1:99999")], "99999 is too large for a UDP port"),
        (vec![("to", "a"), ("format", "s16")], "l16, l24, l32 or f32"),
        (vec![("to", "a"), ("rate", "44000")], "44000"),
        (vec![("to", "a"), ("rate", "many")], "no whole number"),
        (vec![("to", "a"), ("rate", "-1")], "no rate"),
        (vec![("to", "a"), ("channels", "65")], "65"),
        (vec![("to", "a"), ("channels", "0")], "0"),
        (vec![("to", "a"), ("channels", "-2")], "-2 channels cannot be carried; use 1 to 64"),
        (vec![("to", "a"), ("period", "7")], "16 to 8192"),
        (vec![("to", "a"), ("link", "etf")], "auto, direct or ringed"),
        (vec![("to", "a"), ("pacing", "soon")], "use auto or one of etf-offload, etf, fq"),
        (vec![("to", "a"), ("ifname", "eth0"), ("addr", "1")], "say both where it goes"),
        (vec![("to", "a"), ("latency", "5ms"), ("mtt", "2000")], "say the same"),
        (vec![("to", "a"), ("mtt", "2ms")], "mtt"),
        (vec![("to", "a"), ("frames_per_pdu", "0")], "cannot be carried"),
        (vec![("to", "avtp://eth0/01:02")], "01:02"),
        (vec![("to", "avtp+udp://a"), ("latency", "auto")], "give a latency or an mtt"),
        (vec![("to", "a?gain=3dB")], "--from"),
        (vec![("ifname", "eth0")], "belong together"),
        (
            vec![("to", "a"), ("mttt", "1")],
            "pacing and clock, or of those of type aaf ifname, addr",
        ),
        (vec![("to", "a"), ("clock", "avtp://e/1:0:0:0:0:1")], "has no `from`; leave it out"),
        (vec![("to", "a"), ("prio", "3")], "prio is of ifname and addr; leave it out, or"),
        (vec![("to", "avtp://e/1:0:0:0:0:1"), ("streamid", "1:2:3:4:5:6:7")], "?streamid="),
        (vec![("to", "a"), ("frames_per_pdu", "6"), ("ptime", "1ms")], "leave one out"),
        (vec![("to", "avtp+udp://a"), ("latency", "3s")], "2.1s ahead at most; use latency"),
        (vec![("to", "avtp+udp://a"), ("rate", "11025")], "use 8000, 16000, 24000"),
        (vec![("to", "a"), ("rate", "47000")], "96000, 176400 or 192000"),
    ] {
        let sentence = refusal(&pairs);
        assert!(sentence.starts_with("pcm.x: ") && sentence.contains(words), "{sentence}");
    }
    let half = [("channels".to_owned(), Value::Real(2.5))];
    let sentence = read("x", &half, Direction::Playback).unwrap_err().sentence;
    assert!(sentence.contains("channels 2.5 is no whole number; write channels 2"), "{sentence}");
    let compound = [("to".to_owned(), Value::Other)];
    let sentence = read("x", &compound, Direction::Playback).unwrap_err().sentence;
    assert!(sentence.contains("is to be a text"), "{sentence}");
}
