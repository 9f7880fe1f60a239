//! Each kind of mistake, and the values of a valid file.

use std::collections::BTreeSet;

use tautline_audio::{OutputConfig, OutputSettings};
use tautline_dsp::equalizer::{Band, BandShape, Equalizer, EqualizerError, MAX_BANDS};
use tautline_dsp::signal::Frequency;
use tautline_proto::text::on_one_line;
use tautline_trial::snapshot;

use super::*;

/// A valid file of two zones; tests change one part each.
pub(crate) const VALID: &str = r#"epoch = 3
announcements = "239.255.77.1:5004"
[priorities]
music = 10
page = 100
[node.east]
host = "10.0.0.11"
[node.east.card.main]
device = "alsa:hw:0"
channels = 4
[node.west]
host = "10.0.0.12"
[source.radio]
stream = "rtp://239.1.2.3:5004"
[source.piano]
device = "alsa:hw:1"
node = "west"
address = "239.255.78.1:5004"
[zone.gym]
number = 1
node = "east"
card = "main"
channels = [1, 2]
volume = "-6dB"
max-volume = "-3dB"
delay = "34.32m"
equalizer = [
  { shape = "peaking", frequency = 120, gain = "-4dB", q = 1.4 },
  { shape = "high-pass", frequency = 62.5 },
]
limiter = "-3.5dB"
source = "piano"
[zone.hall]
number = 2
node = "east"
card = "main"
channels = [4]
[group.inside]
number = 3
members = ["gym", "hall"]
[group.all]
number = 4
members = ["inside"]
[station.desk]
node = "west"
priority = "page"
rank = 1
to = ["all"]
mutes = "hall"
[message.fire]
file = "fire.wav"
"#;

/// The only mistake after `old` is replaced, with its line.
#[track_caller]
fn only_mistake(old: &str, new: &str) -> (usize, MistakeKind) {
    assert!(VALID.contains(old), "{old}");
    let mistakes = Site::check(VALID.replacen(old, new, 1).as_bytes()).unwrap_err();
    let [mistake] = mistakes.as_slice() else { panic!("{mistakes:#?}") };
    (mistake.line, mistake.kind.clone())
}

/// Line of the first `text` in the valid file.
fn line(text: &str) -> usize {
    1 + VALID[..VALID.find(text).unwrap()].matches('\n').count()
}

fn gain(text: &str) -> Gain {
    text.parse().unwrap()
}

fn value(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

#[track_caller]
fn invalid_value(old: &str, new: &str) -> (String, String) {
    match only_mistake(old, new) {
        (at, MistakeKind::Value { key, value, .. }) if at == line(old) => (key, value),
        other => panic!("{other:?}"),
    }
}

#[test]
fn valid_file_has_its_values() {
    let site = Site::check(VALID.as_bytes()).unwrap();
    assert_eq!(site.epoch, 3);
    assert_eq!(site.announcements, "239.255.77.1:5004".parse().unwrap());
    assert_eq!((site.rate, site.latency), (Rate::HZ_48000, Span::from_millis(20)));
    assert_eq!(site.priorities["page"], 100);
    let gym = &site.zones["gym"];
    assert_eq!((gym.number, gym.channels.as_slice(), gym.mute), (1, &[1, 2][..], false));
    assert_eq!(gym.delay, Span::from_millis(100));
    let levels = [gym.volume, gym.min_volume, gym.max_volume].map(|gain| gain.to_string());
    assert_eq!(levels, ["-6dB", "-inf", "-3dB"]);
    let band = |shape, frequency: &str, q| Band { shape, frequency: frequency.parse().unwrap(), q };
    let bands = [
        band(BandShape::Peaking(gain("-4dB")), "120", 1.4),
        band(BandShape::HighPass, "62.5", 0.71),
    ];
    assert_eq!(gym.equalizer, bands);
    assert_eq!(gym.limiter, Some(gain("-3.5dB")));
    let hall = &site.zones["hall"];
    assert_eq!((hall.volume, hall.equalizer.len(), hall.limiter), (Gain::UNITY, 0, None));
    let card = &site.nodes["east"].cards["main"];
    assert_eq!((card.channels.count(), card.period, card.periods), (4, Frames::new(48), 2));
    let desk = &site.stations["desk"];
    assert_eq!(desk.host, StationHost::Node("west".into()));
    assert_eq!((desk.priority, desk.rank, desk.mutes.as_deref()), (100, 1, Some("hall")));
    assert!(matches!(site.sources["piano"], Source::Own { input: SourceInput::Device(_), .. }));
    assert_eq!(site.messages["fire"].sha256, None);
}

#[test]
fn source_names_a_program_of_its_node() {
    let file = VALID.replace("device = \"alsa:hw:1\"", "local = \"radio\"");
    let piano = Site::check(file.as_bytes()).unwrap().sources["piano"].clone();
    let Source::Own { input: SourceInput::Local(name), node, .. } = piano else { panic!() };
    assert_eq!((name.as_str(), node.as_str()), ("radio", "west"));
    let (_, kind) = only_mistake("device = \"alsa:hw:1\"\nnode = \"west\"", "local = \"radio\"");
    assert!(matches!(kind, MistakeKind::Missing { key: "node", .. }), "{kind:?}");
}

#[test]
fn output_of_a_zone_has_its_values() {
    let site = Site::check(VALID.replace("max-volume", "mute = true\nmax-volume").as_bytes());
    let gym = &site.unwrap().zones["gym"];
    let settings = OutputSettings {
        equalizer: Equalizer::new(48_000, &gym.equalizer).unwrap(),
        delay: Span::from_millis(100),
        limiter: Some(gain("-3.5dB")),
    };
    assert_ne!(settings.equalizer, Equalizer::FLAT);
    assert_eq!(
        crate::card::config(gym, Rate::HZ_48000),
        OutputConfig { channels: vec![0, 1], mono: false, settings }
    );
}

#[test]
fn mute_leaves_only_emergencies() {
    let of = |values: &str| {
        let file = VALID.replace("max-volume", &format!("{values}\nmax-volume"));
        let volumes = Site::check(file.as_bytes()).unwrap().zones["gym"].volumes();
        [volumes.program, volumes.announcement, volumes.emergency].map(|it| it.to_string())
    };
    assert_eq!(of(""), ["-6dB", "-3dB", "-3dB"], "max-volume is below 0 dB");
    assert_eq!(of("page-volume = \"-9dB\""), ["-6dB", "-9dB", "-3dB"]);
    assert_eq!(of("page-volume = \"2dB\""), ["-6dB", "2dB", "2dB"], "it may be above");
    assert_eq!(of("mute = true\nemergency-volume = \"1dB\""), ["-inf", "-inf", "1dB"]);
}

#[test]
fn volume_of_announcements_has_limits_at_run_time() {
    // Changes one after another.
    let refused = |file: &str, pages: &[&str]| {
        let values = format!("min-volume = \"-40dB\"\n{file}\nmax-volume");
        let site = Site::check(VALID.replace("max-volume", &values).as_bytes()).unwrap();
        let mut zone = site.zones["gym"].clone();
        let is_refused = |page: &&str| {
            let (zone_name, page_volume) = ("gym".to_owned(), Some((*page).to_owned()));
            let change = ZoneChange { zone: zone_name, page_volume, ..ZoneChange::default() };
            let refused = zone.change(&site, &change);
            assert_eq!(refused.is_empty(), zone.page_volume == gain(page));
            !refused.is_empty()
        };
        pages.iter().map(is_refused).collect::<Vec<_>>()
    };
    assert_eq!(refused("", &["-2dB", "-3dB", "-40dB", "-41dB"]), [true, false, false, true]);
    let [louder, softer] = ["page-volume = \"3dB\"", "page-volume = \"-50dB\""];
    assert_eq!(refused(louder, &["-9dB", "3dB", "4dB"]), [false, false, true]);
    assert_eq!(refused(softer, &["-9dB", "-50dB", "-51dB"]), [false, false, true]);
}

#[test]
fn hash_is_that_of_the_bytes() {
    let site = Site::check(b"epoch = 1\nannouncements = \"239.255.77.1:5004\"\n").unwrap();
    // printf 'epoch = 1\nannouncements = "239.255.77.1:5004"\n' | sha256sum
    let hash = "88a6fa205b8f20ecb343988675df76e3615f19206aeb921efccdddfbb946135a";
    assert_eq!(site.hash.to_string(), hash);
    assert_eq!(format!("{:.8}", site.hash), hash[..8]);
}

#[test]
fn zone_has_the_numbers_of_all_its_groups() {
    let site = Site::check(VALID.as_bytes()).unwrap();
    assert_eq!(site.numbers_of("gym"), BTreeSet::from([1, 3, 4]));
    assert_eq!(site.numbers_of("inside"), BTreeSet::new());
}

#[test]
fn volume_without_a_value_is_within_its_limits() {
    let volume = |limits: &str| {
        let file = VALID.replace("volume = \"-6dB\"\nmax-volume = \"-3dB\"", limits);
        Site::check(file.as_bytes()).unwrap().zones["gym"].volume.to_string()
    };
    assert_eq!(volume("max-volume = \"-3dB\""), "-3dB");
    assert_eq!(volume("max-volume = \"9dB\""), "0dB");
    assert_eq!(volume("min-volume = \"3dB\"\nmax-volume = \"9dB\""), "3dB");
}

#[test]
fn file_of_more_than_a_mebibyte_is_rejected() {
    let mut file = VALID.to_owned();
    file.push_str(&"#".repeat(MAX_BYTES - file.len()));
    assert!(Site::check(file.as_bytes()).is_ok());
    file.push('#');
    let kinds: Vec<_> = Site::check(file.as_bytes()).unwrap_err();
    assert_eq!(kinds, [Mistake { line: 1, column: 1, kind: MistakeKind::TooLarge }]);
}

#[test]
fn byte_that_is_not_utf8_has_its_place() {
    let found = Site::check(b"epoch = 1\n# caf\xe9\n").unwrap_err();
    assert_eq!(found, [Mistake { line: 2, column: 6, kind: MistakeKind::NotUtf8(0xe9) }]);
}

#[test]
fn toml_error_is_one_mistake_on_its_line() {
    for (old, new) in [
        ("volume = \"-6dB\"", "volume = -6dB"),
        ("\"main\"\nchannels = [1, 2]", "\"main\nchannels = [1, 2]"),
        ("node = \"west\"\naddress", "node west\naddress"),
        ("number = 1\n", "number =\n"),
        ("[group.inside]", "[group.inside"),
    ] {
        match only_mistake(old, new) {
            (at, MistakeKind::Syntax(_)) => assert_eq!(at, line(old), "{new}"),
            other => panic!("{new}: {other:?}"),
        }
    }
}

#[test]
fn zone_defined_twice_is_one_mistake() {
    let (_, kind) =
        only_mistake("[group.inside]", "[zone.gym]\nnumber = 9\nmute = true\n[group.inside]");
    assert_eq!(kind, MistakeKind::Duplicate("gym".into()));
    let (at, kind) = only_mistake("rank = 1", "rank = 1\nrank = 2");
    assert_eq!((at, kind), (line("rank = 1") + 1, MistakeKind::Duplicate("rank".into())));
}

#[test]
fn unknown_key_has_a_suggestion() {
    for (old, new, near) in [
        ("max-volume", "max_volume", Some("max-volume")),
        ("delay", "dealy", Some("delay")),
        ("mutes = \"hall\"", "schedule = 1", None),
        ("epoch = 3", "epoch = 3\nnodes = 1", Some("node")),
    ] {
        let (_, kind) = only_mistake(old, new);
        let MistakeKind::UnknownKey { near: found, .. } = kind else { panic!("{kind:?}") };
        assert_eq!(found.as_deref(), near, "{new}");
    }
}

#[test]
fn missing_key_is_reported_at_its_table() {
    for (old, key, table) in [
        ("epoch = 3\n", "epoch", "epoch"),
        ("host = \"10.0.0.12\"\n", "host", "[node.west]"),
        ("device = \"alsa:hw:0\"\n", "device", "[node.east.card.main]"),
        ("number = 2\n", "number", "[zone.hall]"),
        ("channels = [4]\n", "channels", "[zone.hall]"),
        ("shape = \"peaking\", ", "shape", "shape = \"peaking\""),
        ("frequency = 120, ", "frequency", "shape = \"peaking\""),
        ("gain = \"-4dB\", ", "gain", "shape = \"peaking\""),
        ("members = [\"inside\"]\n", "members", "[group.all]"),
        ("node = \"west\"\naddress", "node", "[source.piano]"),
        ("address = \"239.255.78.1:5004\"\n", "address", "[source.piano]"),
        ("announcements = \"239.255.77.1:5004\"\n", "announcements", "epoch"),
        ("priority = \"page\"\n", "priority", "[station.desk]"),
        ("file = \"fire.wav\"\n", "file", "[message.fire]"),
    ] {
        let (at, kind) = only_mistake(old, if key == "node" { "address" } else { "" });
        let MistakeKind::Missing { key: found, .. } = kind else { panic!("{kind:?}") };
        assert_eq!((found, at), (key, line(table)));
    }
    let (_, kind) = only_mistake("number = 2\n", "");
    let MistakeKind::Missing { example, .. } = kind else { panic!("{kind:?}") };
    assert_eq!(example, "2", "the lowest free number");
}

#[test]
fn source_has_one_origin_and_a_station_one_machine() {
    for (old, new, at, count) in [
        ("stream = \"rtp://239.1.2.3:5004\"\n", "", "[source.radio]", 0),
        ("device = \"alsa:hw:1\"", "device = \"null:\"\nfiles = [\"a\"]", "[source.piano]", 2),
        ("device = \"alsa:hw:1\"", "local = \"a\"\nfiles = [\"a\"]", "[source.piano]", 2),
        ("node = \"west\"\npriority", "priority", "[station.desk]", 0),
        (
            "node = \"west\"\npriority",
            "node = \"west\"\nkey = \"a\"\npriority",
            "[station.desk]",
            2,
        ),
    ] {
        let (found_at, kind) = only_mistake(old, new);
        let MistakeKind::ExactlyOne { found, .. } = kind else { panic!("{kind:?}") };
        assert_eq!((found, found_at), (count, line(at)), "{new}");
    }
}

#[test]
fn value_of_another_type_or_range_is_rejected() {
    for (old, new, key, shown) in [
        ("epoch = 3", "epoch = 0", "epoch", "0"),
        ("epoch = 3", "epoch = 1.5", "epoch", "1.5"),
        ("page = 100", "page = 256", "priority", "256"),
        ("host = \"10.0.0.12\"", "host = \"a b\"", "host", "'a b'"),
        ("epoch = 3", "epoch = 3\nlatency = \"1ms\"", "latency", "'1ms'"),
        ("channels = 4", "channels = 65", "channels", "65"),
        ("channels = 4", "channels = 4\nperiods = 1", "periods", "1"),
        ("channels = [4]", "channels = []", "channels", "[]"),
        ("channels = [4]", "channels = [0]", "channels", "0"),
        ("volume = \"-6dB\"", "volume = \"loud\"", "volume", "'loud'"),
        ("volume = \"-6dB\"", "volume = -6", "volume", "-6"),
        ("delay = \"34.32m\"", "delay = \"400m\"", "delay", "'400m'"),
        ("delay = \"34.32m\"", "delay = \"nanm\"", "delay", "'nanm'"),
        ("delay = \"34.32m\"", "delay = \"-1ms\"", "delay", "'-1ms'"),
        ("\"peaking\"", "\"peak\"", "shape", "'peak'"),
        ("120", "0", "frequency", "0"),
        ("120", "96001", "frequency", "96001"),
        ("120", "nan", "frequency", "nan"),
        ("120", "\"120\"", "frequency", "'120'"),
        ("\"-4dB\"", "-4", "gain", "-4"),
        ("q = 1.4", "q = true", "q", "true"),
        ("equalizer = [", "equalizer = [3, ", "equalizer", "3"),
        ("\"-3.5dB\"", "\"0.1dB\"", "limiter", "'0.1dB'"),
        ("\"-3.5dB\"", "\"-inf\"", "limiter", "'-inf'"),
        ("number = 1", "number = 0", "number", "0"),
        ("number = 1", "number = 65536", "number", "65536"),
        ("mutes = \"hall\"", "mutes = true", "mutes", "true"),
        ("file = \"fire.wav\"", "file = \"a\"\nsha256 = \"12\"", "sha256", "'12'"),
        ("\"239.255.77.1:5004\"", "\"239.255.77.1\"", "announcements", "'239.255.77.1'"),
        ("\"239.255.77.1:5004\"", "\"239.255.77.1:5005\"", "announcements", "'239.255.77.1:5005'"),
    ] {
        if new.contains('\n') {
            let (_, kind) = only_mistake(old, new);
            assert!(matches!(kind, MistakeKind::Value { key: found, .. } if found == key));
            continue;
        }
        assert_eq!(invalid_value(old, new), value(key, shown), "{new}");
    }
}

#[test]
fn device_and_stream_keep_the_message_of_their_parser() {
    for (old, new, key, why) in [
        ("\"alsa:hw:0\"", "\"hw:0\"", "device", "unknown kind of device"),
        ("\"rtp://239.1.2.3:5004\"", "\"rtp://239.1.2.3\"", "stream", "no valid UDP port"),
        ("epoch = 3", "epoch = 3\nrate = 48001", "rate", "unsupported rate, 48001"),
    ] {
        let (_, kind) = only_mistake(old, new);
        let MistakeKind::Rejected { key: found, why: text } = kind else { panic!("{kind:?}") };
        assert_eq!(found, key);
        assert!(text.contains(why), "{text}");
    }
}

#[test]
fn message_of_a_parser_is_short_and_printable() {
    let long = format!("\"\\u001b[2J{}\"", "x".repeat(1000));
    for old in ["\"alsa:hw:0\"", "\"rtp://239.1.2.3:5004\""] {
        let (_, kind) = only_mistake(old, &long);
        let text = kind.to_string();
        assert!(text.len() < 1000 && !text.contains('\u{1b}'), "{text}");
    }
}

#[test]
fn name_with_a_comma_or_spaces_at_its_end_is_rejected() {
    for name in ["a,b", "a ", "", "a\\u0007"] {
        let (_, kind) = only_mistake("[message.fire]", &format!("[message.\"{name}\"]"));
        assert!(matches!(kind, MistakeKind::Name(_)), "{name:?}: {kind:?}");
    }
    assert!(
        Site::check(VALID.replace("[message.fire]", "[message.\"Große Halle\"]").as_bytes())
            .is_ok()
    );
}

#[test]
fn unknown_name_has_a_similar_one() {
    for (old, new, kind, near) in [
        ("node = \"east\"", "node = \"eats\"", "node", Some("east")),
        ("node = \"east\"", "node = \"cellar\"", "node", None),
        ("card = \"main\"", "card = \"mian\"", "card", Some("main")),
        ("source = \"piano\"", "source = \"pianos\"", "source", Some("piano")),
        ("[\"gym\", \"hall\"]", "[\"gym\", \"halle\"]", "zone or group", Some("hall")),
        ("priority = \"page\"", "priority = \"pages\"", "priority", Some("page")),
        ("to = [\"all\"]", "to = [\"al\"]", "zone or group", Some("all")),
        ("mutes = \"hall\"", "mutes = \"inside\"", "zone", None),
    ] {
        let (at, found) = only_mistake(old, new);
        let MistakeKind::Unknown { kind: of, near: similar, .. } = found else {
            panic!("{found:?}")
        };
        assert_eq!((at, of.as_str(), similar.as_deref()), (line(old), kind, near), "{new}");
    }
}

#[test]
fn group_cannot_have_the_name_of_a_zone() {
    let (at, kind) =
        only_mistake("[group.all]", "[group.gym]\nnumber = 9\nmembers = [\"hall\"]\n[group.all]");
    assert_eq!((at, kind), (line("[group.all]"), MistakeKind::ZoneAndGroup("gym".into())));
}

#[test]
fn number_of_another_zone_or_group_is_rejected() {
    let (at, kind) = only_mistake("number = 4", "number = 1");
    let other = "zone 'gym'".to_owned();
    assert_eq!(
        (at, kind),
        (line("number = 4"), MistakeKind::NumberTaken { number: 1, other, free: 4 })
    );
}

#[test]
fn host_device_rank_and_address_belong_to_one_table() {
    let rank = "[station.two]\nkey = \"two\"\npriority = \"page\"\nrank = 1\nto = [\"all\"]\n[message.fire]";
    let card = "[node.east.card.other]\ndevice = \"alsa:hw:0\"\n[node.west]";
    for (old, new, key, other) in [
        ("10.0.0.12", "10.0.0.11", "host", "node 'east'"),
        ("[node.west]", card, "device", "card 'main'"),
        ("[message.fire]", rank, "rank", "station 'desk'"),
        ("\"239.255.78.1:5004\"", "\"239.255.77.1:5004\"", "address", "the file"),
    ] {
        let (_, kind) = only_mistake(old, new);
        let MistakeKind::Taken { key: found, other: of, .. } = kind else { panic!("{kind:?}") };
        assert_eq!((found, of.as_str()), (key, other));
    }
}

#[test]
fn group_that_contains_itself_is_reported_at_the_member() {
    let (at, kind) = only_mistake("[\"gym\", \"hall\"]", "[\"gym\", \"all\"]");
    let path = "'all' → 'inside' → 'all'".to_owned();
    let cycle = MistakeKind::GroupCycle { path, group: "inside".into(), member: "all".into() };
    assert_eq!((at, kind), (line("[\"gym\", \"hall\"]"), cycle));
    let (_, kind) = only_mistake("[\"inside\"]", "[\"inside\", \"all\"]");
    assert!(matches!(kind, MistakeKind::GroupCycle { path, .. } if path == "'all' → 'all'"));
}

#[test]
fn thousands_of_nested_groups_are_checked() {
    let mut file = VALID.to_owned();
    for number in 0..5000 {
        let member = if number == 4999 { "g0".to_owned() } else { format!("g{}", number + 1) };
        file += &format!("[group.g{number}]\nnumber = {}\nmembers = [\"{member}\"]\n", number + 10);
    }
    let mistakes = Site::check(file.as_bytes()).unwrap_err();
    let [Mistake { kind: MistakeKind::GroupCycle { path, .. }, .. }] = mistakes.as_slice() else {
        panic!("{mistakes:?}")
    };
    assert!(path.ends_with("'g5' → 4994 more → 'g0'"), "{path}");
}

#[test]
fn channel_belongs_to_the_card_and_to_one_zone() {
    let (at, kind) = only_mistake("channels = [4]", "channels = [5]");
    let beyond = MistakeKind::ChannelBeyondCard {
        channel: 5,
        channels: Channels::new(4).unwrap(),
        card: "main".into(),
    };
    assert_eq!((at, kind), (line("channels = [4]"), beyond));
    for (old, new, zone) in [
        ("channels = [4]", "channels = [2]", "zone 'gym'"),
        ("channels = [4]", "channels = [4, 4]", "zone 'hall'"),
    ] {
        let (at, kind) = only_mistake(old, new);
        let MistakeKind::ChannelTaken { other, .. } = kind else { panic!("{kind:?}") };
        assert_eq!((at, other.as_str()), (line(old), zone));
    }
}

#[test]
fn volume_outside_its_limits_is_rejected() {
    let (at, kind) = only_mistake("volume = \"-6dB\"", "volume = \"-1dB\"");
    let [zone, volume, min, max] = ["zone 'gym'", "-1dB", "-inf", "-3dB"].map(str::to_owned);
    assert_eq!(
        (at, kind),
        (line("volume = \"-6dB\""), MistakeKind::VolumeOutsideLimits { zone, volume, min, max })
    );
    let (_, kind) = only_mistake("volume = \"-6dB\"", "min-volume = \"-2dB\"");
    let [min, max] = ["-2dB", "-3dB"].map(str::to_owned);
    assert_eq!(kind, MistakeKind::LimitsReversed { min, max });
}

#[test]
fn band_outside_the_limits_of_the_equalizer_is_rejected() {
    let frequency =
        |text: &str, rate| EqualizerError::Frequency(text.parse::<Frequency>().unwrap(), rate);
    for (old, new, error) in [
        ("120", "9.999", frequency("9.999", 48_000)),
        ("120", "24e3", frequency("24000", 48_000)),
        ("62.5", "30_000", frequency("30000", 48_000)),
        ("\"-4dB\"", "\"24.1dB\"", EqualizerError::Gain(gain("24.1dB"))),
        ("\"-4dB\"", "\"-inf\"", EqualizerError::Gain(Gain::SILENCE)),
        ("q = 1.4", "q = 31", EqualizerError::Q(31.0)),
        ("q = 1.4", "q = inf", EqualizerError::Q(f64::INFINITY)),
    ] {
        assert_eq!(only_mistake(old, new), (line(old), MistakeKind::Equalizer(error)), "{new}");
    }
    let (old, band) = ("62.5 },", "\n{ shape = \"high-pass\", frequency = 20, q = 1 },");
    let (at, kind) = only_mistake(old, &format!("{old}{}", band.repeat(MAX_BANDS)));
    let bands = EqualizerError::Bands(MAX_BANDS + 2);
    assert_eq!((at, kind), (line(old) + MAX_BANDS - 1, MistakeKind::Equalizer(bands)));
}

#[test]
fn frequency_of_a_band_is_below_half_of_the_files_rate() {
    let at = |rate: &str, hertz: &str| {
        let file = VALID.replace("epoch = 3", &format!("epoch = 3\nrate = {rate}"));
        Site::check(file.replace("120", hertz).as_bytes())
            .map(|site| site.zones["gym"].output(site.rate).equalizer)
    };
    let kinds = |mistakes: Vec<Mistake>| mistakes.into_iter().map(|mistake| mistake.kind);
    let kinds: Vec<_> = kinds(at("32000", "16000").unwrap_err()).collect();
    let error = EqualizerError::Frequency("16000".parse().unwrap(), 32_000);
    assert_eq!(kinds, [MistakeKind::Equalizer(error)]);
    assert_ne!(at("96000", "47000").unwrap(), at("192000", "47000").unwrap());
    assert_eq!(at("48001", "47000").unwrap_err().len(), 1, "only the rate is invalid");
}

#[test]
fn pass_band_has_no_gain() {
    for shape in ["high-pass", "low-pass"] {
        let (at, kind) = only_mistake("\"peaking\"", &format!("\"{shape}\""));
        let not = MistakeKind::NotApplicable { key: "gain", what: "a pass band" };
        assert_eq!((at, kind), (line("\"-4dB\""), not));
    }
    for shape in ["low-shelf", "high-shelf"] {
        let file = VALID.replace("\"peaking\"", &format!("\"{shape}\""));
        assert!(Site::check(file.as_bytes()).is_ok(), "{shape}");
    }
}

#[test]
fn address_is_a_multicast_group_that_is_not_reserved() {
    for (address, reserved) in [
        ("10.0.0.1", false),
        ("[fe80::1]", false),
        ("224.0.0.251", true),
        ("[ff02::1]", true),
        ("[ff31::7777]", true),
    ] {
        for old in ["\"239.255.77.1:5004\"", "\"239.255.78.1:5004\""] {
            let (at, kind) = only_mistake(old, &format!("\"{address}:5004\""));
            let text = address.trim_matches(['[', ']']).to_owned();
            let expected = match reserved {
                true => MistakeKind::ReservedMulticast(text),
                false => MistakeKind::NotMulticast(text),
            };
            assert_eq!((at, kind), (line(old), expected));
        }
    }
    let six = VALID.replace("239.255.77.1", "[ff35::7777]");
    assert!(Site::check(six.as_bytes()).is_ok());
}

#[test]
fn stream_has_no_node_and_no_address() {
    let (_, kind) = only_mistake("stream =", "node = \"west\"\nstream =");
    assert_eq!(kind, MistakeKind::NotApplicable { key: "node", what: "a stream" });
}

#[test]
fn station_with_a_background_priority_is_rejected() {
    let (at, kind) = only_mistake("priority = \"page\"", "priority = \"music\"");
    let name = "music".to_owned();
    assert_eq!(
        (at, kind),
        (line("priority = \"page\""), MistakeKind::BackgroundPriority { name, value: 10 })
    );
}

#[test]
fn commands_are_refused_wherever_they_are() {
    for (old, new) in [
        ("device = \"alsa:hw:1\"", "device = \"exec:arecord\""),
        ("device = \"alsa:hw:1\"", "exec = \"arecord\""),
        ("device = \"alsa:hw:1\"", "files = [\"exec:date\"]"),
        ("mutes = \"hall\"", "input = \" exec:arecord\""),
        ("file = \"fire.wav\"", "file = \"exec:espeak fire\""),
    ] {
        assert_eq!(only_mistake(old, new), (line(old), MistakeKind::Exec), "{new}");
    }
}

#[test]
fn mistakes_beyond_the_maximum_are_not_listed() {
    let file = format!("epoch = 1\n{}", "[zone.x]\n".repeat(MAX_MISTAKES + 10));
    let mistakes = Site::check(file.as_bytes()).unwrap_err();
    assert_eq!(mistakes.len(), MAX_MISTAKES + 1);
    assert_eq!(mistakes[MAX_MISTAKES].kind, MistakeKind::TooMany);
    assert!(mistakes.is_sorted_by_key(|mistake| mistake.line));
}

#[test]
fn all_messages_read_as_one_text() {
    let file = include_str!("tests/mistakes.toml");
    let mut all = Site::check(file.as_bytes()).unwrap_err();
    for bytes in [b"# \xe9".to_vec(), vec![b'#'; MAX_BYTES + 1]] {
        all.extend(Site::check(&bytes).unwrap_err());
    }
    all.push(Mistake { line: 1, column: 1, kind: MistakeKind::TooMany });
    let lines = all.iter().map(|it| format!("building.toml:{}: {}", it.line, on_one_line(it)));
    let text: Vec<_> = lines.collect();
    assert!(all.iter().all(|mistake| mistake.to_string().contains("\nhint: ")), "{text:#?}");
    snapshot!("mistakes.toml", text.join("\n"));
}

#[test]
fn zone_of_one_channel_is_mono_and_others_if_set() {
    let mono = |channels: &str| {
        let file = VALID.replace("channels = [1, 2]", channels);
        assert_ne!(file, VALID);
        Site::check(file.as_bytes()).map(|site| site.zones["gym"].mono)
    };
    assert_eq!(mono("channels = [1]"), Ok(true));
    assert_eq!(mono("channels = [1, 2]\nmap = \"mono\""), Ok(true));
    assert_eq!(mono("channels = [2, 1]"), Ok(false));
    for invalid in ["channels = [1]\nmap = \"stereo\"", "channels = [1, 2]\nmap = \"left\""] {
        assert_eq!(mono(invalid).unwrap_err().len(), 1, "{invalid}");
    }
}

#[test]
fn emergency_volume_may_exceed_the_limits_of_the_volume() {
    let site = Site::check(
        VALID.replace("max-volume", "emergency-volume = \"6dB\"\nmax-volume").as_bytes(),
    );
    let site = site.unwrap();
    assert_eq!(site.zones["gym"].emergency_volume, gain("6dB"));
    assert_eq!(site.zones["hall"].emergency_volume, Gain::UNITY);
    assert_eq!((site.muted_by("hall"), site.muted_by("gym")), (vec![1], vec![]));
}
