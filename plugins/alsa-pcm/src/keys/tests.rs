use tautline_trial::snapshot;

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
fn pcm_follows_its_keys() {
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
        ("io_thread", "yes"),
        ("pacing", "fq"),
    ];
    let wish = read("x", &keys(&all), Direction::Playback).unwrap();
    assert_eq!(wish.keys.latency, LatencyRule::Chosen(Span::from_millis(5)));
    assert_eq!((wish.ptime, wish.format), (Span::from_micros(125), SampleFormat::L16));
    assert_eq!(wish.keys.rate.map(Rate::hertz), Some(96_000));
    assert_eq!(wish.keys.channels.map(Channels::count), Some(8));
    assert_eq!((wish.keys.period, wish.keys.io_thread), (Frames::new(32), LinkKind::Threaded));
    assert_eq!(wish.keys.pacing, Some(PacingMode::Fq));
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
    for pairs in [
        &[("serve", "desk"), ("latency", "5ms")][..],
        &[("serve", "../desk")],
        &[("serve", "a b")],
        &[("serve", " ")],
    ] {
        let complaint = served(pairs).unwrap_err();
        let sentence = complaint.sentence;
        snapshot!(format!("{pairs:?}"), sentence);
        assert_eq!(complaint.errno, libc::EINVAL);
    }
}

#[test]
fn keys_of_alsas_aaf_plugin_are_accepted() {
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
        let tolerated = (direction == Direction::Capture).then(|| Span::from_micros(100));
        assert_eq!(wish.address.tolerance, tolerated);
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
fn type_aaf_uses_the_programs_sample_format() {
    let wish = |format: &str| {
        let place = [("ifname", "eth0"), ("addr", "01:AA:AA:AA:AA:AA"), ("format", format)];
        read("x", &keys(&place), Direction::Playback).unwrap()
    };
    let mut free = wish("");
    assert_eq!(free.format, SampleFormat::L32, "the widest, until it is known");
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
fn identical_packet_may_be_reported_twice() {
    let wish = |rate| {
        let twice = [("to", "a"), ("frames_per_pdu", "6"), ("ptime", "125us"), ("rate", rate)];
        read("x", &keys(&twice), Direction::Playback)
    };
    assert_eq!(wish("").unwrap().packet, Some(Frames::new(6)));
    assert_eq!(wish("48000").unwrap().packet, Some(Frames::new(6)));
    let other = wish("96000").unwrap_err().sentence;
    snapshot!(other);
}

#[test]
fn direction_selects_the_address() {
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
    let followed = |direction| read("x", &both, direction).unwrap().keys.clock;
    let recorder = followed(Direction::Capture).map(|clock| clock.to_string());
    assert_eq!(recorder.as_deref(), Some(clock));
    assert_eq!(followed(Direction::Playback), None);
    let refused = |from, clock| {
        let keys = keys(&[("from", from), ("clock", clock)]);
        read("x", &keys, Direction::Capture).unwrap_err().sentence
    };
    let sentence = refused("0.0.0.0", clock);
    snapshot!(sentence);
    let sentence = refused(from.1, "rtp://a:1");
    snapshot!(sentence);
    let sentence = refused(from.1, "avtp://eth0/91:E0:F0:00:FE:08?prio=3");
    snapshot!(sentence);
}

#[test]
fn address_may_omit_defaults() {
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
fn impossible_values_have_a_hint() {
    for pairs in [
        vec![],
        vec![("from", "0.0.0.0")],
        vec![("to", "a"), ("latncy", "5ms")],
        vec![("to", "a"), ("latency", "5")],
        vec![("to", "a"), ("latency", "5 parsecs")],
        vec![("to", "a"), ("latency", "1h")],
        vec![("to", "a"), ("ptime", "1s")],
        vec![("to", "a"), ("ptime", "0")],
        vec![("to", "a"), ("ptime", "250")],
        vec![("to", "a"), ("ptime", "0.5")],
        vec![("to", "a"), ("latency", "0")],
        vec![("to", "5")],
        vec![("to", "5:5004")],
        vec![("to", ":5004")],
        vec![("to", " ")],
        vec![("to", "rtp:/127.0.0.1:5004")],
        vec![("to", "rtp:127.0.0.1")],
        vec![("to", "127.0.0.1:99999")],
        vec![("to", "a"), ("format", "s16")],
        vec![("to", "a"), ("rate", "44000")],
        vec![("to", "a"), ("rate", "many")],
        vec![("to", "a"), ("rate", "-1")],
        vec![("to", "a"), ("channels", "65")],
        vec![("to", "a"), ("channels", "0")],
        vec![("to", "a"), ("channels", "-2")],
        vec![("to", "a"), ("period", "7")],
        vec![("to", "a"), ("io_thread", "etf")],
        vec![("to", "a"), ("pacing", "soon")],
        vec![("to", "a"), ("ifname", "eth0"), ("addr", "1")],
        vec![("to", "a"), ("latency", "5ms"), ("mtt", "2000")],
        vec![("to", "a"), ("mtt", "2ms")],
        vec![("to", "a"), ("frames_per_pdu", "0")],
        vec![("to", "avtp://eth0/01:02")],
        vec![("to", "avtp+udp://a"), ("latency", "auto")],
        vec![("to", "a?volume=3dB")],
        vec![("ifname", "eth0")],
        vec![("to", "a"), ("mttt", "1")],
        vec![("to", "a"), ("clock", "avtp://e/1:0:0:0:0:1")],
        vec![("to", "a"), ("prio", "3")],
        vec![("to", "avtp://e/1:0:0:0:0:1"), ("streamid", "1:2:3:4:5:6:7")],
        vec![("to", "a"), ("frames_per_pdu", "6"), ("ptime", "1ms")],
        vec![("to", "avtp+udp://a"), ("latency", "3s")],
        vec![("to", "avtp+udp://a"), ("rate", "11025")],
        vec![("to", "a"), ("rate", "47000")],
    ] {
        let sentence = refusal(&pairs);
        snapshot!(format!("{pairs:?}"), sentence);
    }
    let half = [("channels".to_owned(), Value::Real(2.5))];
    let sentence = read("x", &half, Direction::Playback).unwrap_err().sentence;
    snapshot!(sentence);
    let compound = [("to".to_owned(), Value::Other)];
    let sentence = read("x", &compound, Direction::Playback).unwrap_err().sentence;
    snapshot!(sentence);
}
