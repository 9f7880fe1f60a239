//! A building of two nodes: music, announcements, volumes, and the restart of what died.

mod contacts;
mod sources;

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::calls_of_several::level;
use crate::common::network::{Cable, Namespace};
use crate::common::program::{Call, Running, taut, words};
use crate::common::sound::{FileCoding, Shape, Sound};
use crate::common::{Folder, grows, shared, until};

/// Zones `hall` and `bar` on the left node, `gym` on the right one. Stations: `desk`, and `fire`
/// with a higher priority.
const BUILDING: &str = r#"epoch = 1
announcements = "239.255.77.1:5004"
latency = "150ms"
[priorities]
page = 100
fire = 240
[node.left]
host = "10.77.0.1"
[node.left.card.main]
device = "virtual:?record=left.wav"
channels = 4
periods = 48
[node.right]
host = "10.77.0.2"
[node.right.card.main]
device = "virtual:?record=right.wav"
periods = 48
[source.music]
files = ["music.wav"]
node = "left"
address = "239.255.78.1:5004"
[source.tone]
device = "tone:2000"
node = "right"
address = "239.255.78.2:5004"
[zone.hall]
number = 1
node = "left"
card = "main"
channels = [1, 2]
source = "music"
max-volume = "-6dB"
[zone.bar]
number = 2
node = "left"
card = "main"
channels = [3]
source = "music"
[zone.gym]
number = 3
node = "right"
card = "main"
channels = [1, 2]
source = "music"
[group.all]
number = 100
members = ["hall", "bar", "gym"]
[station.desk]
node = "right"
priority = "page"
rank = 1
to = ["all"]
[station.fire]
node = "left"
priority = "fire"
rank = 2
to = ["all"]
[message.alarm]
file = "alarm.wav"
"#;

const MUSIC: f64 = 440.0;
const PAGE: f64 = 1000.0;
const TONE: f64 = 2000.0;

pub(crate) struct Building {
    pub(crate) cable: Cable,
    pub(crate) folder: Folder,
    _turn: MutexGuard<'static, ()>,
}

/// Two buildings at a time. Each has about ten processes, which would delay each other.
fn turn() -> MutexGuard<'static, ()> {
    static TURNS: [Mutex<()>; 2] = [const { Mutex::new(()) }; 2];
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let turn = &TURNS[NEXT.fetch_add(1, Ordering::Relaxed) % TURNS.len()];
    turn.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Building {
    /// `None`, with a message, without namespaces.
    pub(crate) fn open() -> Option<Self> {
        let building = Self { cable: Cable::lay()?, folder: Folder::new(), _turn: turn() };
        let write = |name: &str, hertz, seconds| {
            tone(hertz, seconds).write(&building.folder.file(name));
        };
        write("music.wav", MUSIC, 2);
        write("page.wav", PAGE, 2);
        write("alarm.wav", PAGE, 1);
        std::fs::write(building.folder.file("building.toml"), BUILDING).unwrap();
        let key = building.left("id").run().well().out;
        let key = key.split_whitespace().last().unwrap().to_owned();
        building.left("trust both").and([key]).run().well();
        Some(building)
    }

    fn at(&self, place: &Namespace, line: &str) -> Call {
        let call = taut(words(line)).in_folder(self.folder.path()).within(place);
        call.with("TAUT_HOME", self.folder.file("home"))
    }

    pub(crate) fn left(&self, line: &str) -> Call {
        self.at(&self.cable.left, line)
    }

    pub(crate) fn right(&self, line: &str) -> Call {
        self.at(&self.cable.right, line)
    }

    pub(crate) fn nodes(&self) -> [Running; 2] {
        let node = |call: Call| call.listened_to().start().wait_for("node ");
        let nodes = [node(self.left("node")), node(self.right("node"))];
        until("not all zones play", || self.zones().iter().all(|zone| zone["state"] == "playing"));
        nodes
    }

    pub(crate) fn zones(&self) -> Vec<Value> {
        let listed = self.right("zones --report json").run().out;
        let listed: Value = serde_json::from_str(&listed).unwrap();
        let nodes = listed["nodes"].as_array().unwrap().iter();
        nodes.flat_map(|node| node["zones"].as_array().unwrap().clone()).collect()
    }

    pub(crate) fn zone(&self, name: &str) -> Value {
        self.zones().into_iter().find(|zone| zone["zone"] == name).unwrap()
    }

    /// Levels of these tones on a channel, per tenth of a second.
    pub(crate) fn levels<const N: usize>(
        &self,
        file: &str,
        channel: usize,
        tones: [f64; N],
    ) -> Vec<[f64; N]> {
        let Sound { shape, samples } = Sound::read(&self.folder.file(file));
        let alone = samples.iter().skip(channel).step_by(shape.channels);
        // `level` takes the first of two channels.
        let stereo: Vec<i32> = alone.flat_map(|sample| [*sample, 0]).collect();
        stereo.chunks_exact(9600).map(|tenth| tones.map(|tone| level(tenth, tone))).collect()
    }
}

/// Stops nodes, so that their recordings are complete.
pub(crate) fn end(nodes: [Running; 2]) {
    for node in nodes {
        node.signal("-INT");
        node.end().well();
    }
}

/// Process of the node's card. Any of its threads may have started it.
pub(crate) fn card_process(node: &Running) -> Option<String> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", node.id())).unwrap();
    let children = threads
        .filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("children")).ok());
    let children: String = children.collect::<Vec<_>>().join(" ");
    let is_card = |id: &&str| {
        let line = std::fs::read_to_string(format!("/proc/{id}/cmdline"));
        line.is_ok_and(|line| line.contains("--card"))
    };
    children.split_whitespace().find(is_card).map(str::to_owned)
}

/// At −12 dBFS.
fn tone(hertz: f64, seconds: usize) -> Sound {
    let shape = Shape { rate: 48_000, channels: 2, coding: FileCoding::L24 };
    let at = |frame: usize| (frame as f64 * hertz * std::f64::consts::TAU / 48_000.0).sin();
    let sample = |frame| (at(frame) * f64::from(1 << 21)) as i32;
    Sound { shape, samples: (0..48_000 * seconds).flat_map(|frame| [sample(frame); 2]).collect() }
}

/// No two parts are alike.
fn noise(frames: i32, first: i32) -> Sound {
    let Sound { shape, .. } = tone(MUSIC, 0);
    let sample = |number: i32| (first + number).wrapping_mul(0x9e37_79b1_u32.cast_signed()) >> 10;
    Sound { shape, samples: (0..2 * frames).map(sample).collect() }
}

pub(crate) fn near(level: f64, expected: f64) -> bool {
    (level - expected).abs() < 0.5
}

/// Announced zones with their results.
pub(crate) fn results(json: &str) -> Vec<(String, String)> {
    let announced: Value = serde_json::from_str(json).unwrap();
    let word = |zone: &Value, key: &str| zone[key].as_str().unwrap().to_owned();
    let zones = announced["zones"].as_array().unwrap().iter();
    zones.map(|zone| (word(zone, "zone"), word(zone, "result"))).collect()
}

#[test]
fn page_lowers_the_music_of_its_zones_only() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        let nodes = building.nodes();
        let page = building.right("play hall,gym page.wav --report json").run().well();
        let played = ["gym", "hall"].map(|zone| (zone.to_owned(), "played".to_owned()));
        assert_eq!(results(&page.out), played);
        // Its hold and the ramp.
        for file in ["left.wav", "right.wav"] {
            grows(&building.folder.file(file), 2500);
        }
        end(nodes);
        for (file, channel, music) in [("left.wav", 0, -18.0), ("right.wav", 1, -12.0)] {
            let levels = building.levels(file, channel, [MUSIC, PAGE]);
            let pages = levels.iter().filter(|[_, page]| near(*page, music)).count();
            assert!((18..=21).contains(&pages), "{file}: {pages} tenths");
            let lowered =
                levels.iter().filter(|[low, page]| near(*page, music) && near(*low, music - 20.0));
            assert!(lowered.count() >= pages - 2, "{file}: {levels:.1?}");
            // It is back for a second before the end, which fades.
            let after = levels.iter().rposition(|[_, page]| near(*page, music)).unwrap();
            let back = |[low, page]: &&[f64; 2]| near(*low, music) && *page < -60.0;
            let back = levels[after..].iter().filter(back).count();
            assert!(back >= 6, "{file}: {back} tenths, {levels:.1?}");
        }
        // The start of the music has all frequencies.
        let levels = building.levels("left.wav", 2, [MUSIC, PAGE]);
        // The end fades.
        let whole = levels[..levels.len() - 2].iter();
        let mut playing = whole.skip_while(|[music, _]| !near(*music, -12.0));
        assert!(playing.all(|[music, page]| near(*music, -12.0) && *page < -60.0), "{levels:.1?}");
    });
}

#[test]
fn machine_trusted_after_the_start_of_a_node_can_use_it() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        let key = building.left("id").run().well().out;
        let key = key.split_whitespace().last().unwrap().to_owned();
        building.left("trust --remove both").run().well();
        let node = building.left("node").listened_to().start().wait_for("node ");
        assert!(building.zones().is_empty());
        building.right("trust both").and([key]).run().well();
        until("the node stays unreachable", || {
            building.zones().iter().any(|zone| zone["zone"] == "bar")
        });
        node.signal("-INT");
        node.end().well();
    });
}

#[test]
fn zones_keep_changes_over_the_death_of_their_process() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        let nodes = building.nodes();
        building.right("zone hall volume -9dB").run().well();
        building.right("zone hall source tone").run().well();
        building.left("zone bar mute").run().well();
        let refused = building.right("zone hall,gym volume 0dB").run();
        assert_eq!(refused.status, Some(1), "{refused:#?}");
        assert_eq!(building.zone("gym")["volume"], "0dB");
        let shown = building.left("zone hall").run().well();
        let settings = "hall: -9dB (default -6dB), tone (default music), page-volume";
        assert!(shown.out.starts_with(settings), "{shown:#?}");
        let before = card_process(&nodes[0]).unwrap();
        let killed = Command::new("kill").args(["-KILL", &before]).status().unwrap();
        assert!(killed.success());
        until("the zone does not fail", || building.zone("hall")["state"] == "failed");
        until("the zone does not return", || building.zone("hall")["state"] == "playing");
        assert_ne!(card_process(&nodes[0]).unwrap(), before);
        let (hall, bar) = (building.zone("hall"), building.zone("bar"));
        assert_eq!((&hall["volume"], &hall["source"]), (&"-9dB".into(), &"tone".into()));
        assert_eq!(bar["muted"], true);
        grows(&building.folder.file("left.wav"), 2000);
        end(nodes);
        let levels = building.levels("left.wav", 0, [TONE]);
        let [tone] = levels[levels.len() - 3];
        assert!(near(tone, -27.0), "{tone}");
        let [bar] = building.levels("left.wav", 2, [MUSIC])[levels.len() - 3];
        assert!(bar < -90.0, "{bar}");
    });
}

#[test]
fn card_fades_before_it_ends() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        let [left, right] = building.nodes();
        grows(&building.folder.file("right.wav"), 2000);
        // The music plays on until the right node has ended.
        end([right, left]);
        let Sound { samples, .. } = Sound::read(&building.folder.file("right.wav"));
        let tail: Vec<i32> = samples.iter().step_by(2).rev().take(48_000).copied().collect();
        let sounds = tail.iter().position(|sample| sample.abs() > 1 << 16);
        assert!(sounds.is_some_and(|at| at >= 48), "{:?}", &tail[..48]);
        // At −12 dBFS the tone itself changes by 2π × 440 ÷ 48000 = 0.058 of its peak per frame.
        let step = tail.windows(2).map(|two| (two[0] - two[1]).abs()).max();
        assert!(step <= Some((1 << 21) * 7 / 100), "{step:?}");
    });
}

#[test]
fn files_of_a_source_reach_the_card_without_a_gap_and_again() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        let files = ["one.wav", "two.wav"].map(|name| building.folder.file(name));
        let mut both = Vec::new();
        for (file, frames) in files.iter().zip([20_001, 30_011]) {
            let sound = noise(frames, both.len() as i32);
            sound.write(file);
            both.extend(sound.samples);
        }
        let list = BUILDING.replace("\"music.wav\"", "\"one.wav\", \"two.wav\"");
        std::fs::write(building.folder.file("building.toml"), list).unwrap();
        let nodes = building.nodes();
        grows(&building.folder.file("right.wav"), 5000);
        end(nodes);
        let Sound { samples, .. } = Sound::read(&building.folder.file("right.wav"));
        let twice = both.repeat(2);
        let is_exact = samples.windows(twice.len()).step_by(2).any(|part| part == twice);
        assert!(is_exact, "{} of {} samples", samples.len(), twice.len());
    });
}

/// First frame after the music, counted from a start of its file, and the sound from there on.
fn switched(recorded: &Sound, music: &Sound) -> (usize, Vec<i32>) {
    let start = recorded.samples.windows(200).step_by(2).position(|it| *it == music.samples[..200]);
    let received = &recorded.samples[2 * start.expect("the music plays")..];
    let same =
        received.iter().zip(music.samples.iter().cycle()).take_while(|(one, other)| one == other);
    let frames = same.count() / 2;
    (frames, received[2 * frames..].to_vec())
}

#[test]
fn emergency_sounds_in_a_muted_zone_and_not_in_its_own_room() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        let own = BUILDING.replace("rank = 2\n", "rank = 2\nmutes = \"hall\"\n");
        std::fs::write(building.folder.file("building.toml"), own).unwrap();
        let nodes = building.nodes();
        building.right("zone gym mute").run().well();
        grows(&building.folder.file("right.wav"), 1000);
        let alarm = building.left("play all alarm --station fire --report json").run().well();
        let expected = [("bar", "played"), ("gym", "played"), ("hall", "muted")];
        let expected = expected.map(|(zone, result)| (zone.to_owned(), result.to_owned()));
        assert_eq!(results(&alarm.out), expected);
        for file in ["left.wav", "right.wav"] {
            grows(&building.folder.file(file), 2500);
        }
        end(nodes);
        let alarms = |file, channel| {
            let levels = building.levels(file, channel, [PAGE]);
            levels.iter().filter(|[level]| near(*level, -12.0)).count()
        };
        assert!((8..=10).contains(&alarms("right.wav", 0)), "{}", alarms("right.wav", 0));
        assert_eq!(alarms("left.wav", 0), 0, "the room of the station");
        let [last] = *building.levels("right.wav", 0, [MUSIC]).iter().rev().nth(3).unwrap();
        assert!(last < -90.0, "muted again: {last}");
    });
}

#[test]
fn page_is_refused_during_an_alarm() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        let nodes = building.nodes();
        // Its end is not awaited.
        let fire = building.left("page all --station fire --input tone:3000 --report json");
        let fire = fire.listened_to().start().wait_for("on air in 3 of 3 zones");
        let page = building.right("play gym alarm --report json").run();
        assert_eq!(page.status, Some(1), "{page:#?}");
        assert_eq!(results(&page.out), [("gym".to_owned(), "refused".to_owned())]);
        let why = page.messages.iter().filter(|it| it.contains("station fire with priority 240"));
        assert_eq!(why.count(), 1, "{page:#?}");
        fire.signal("-INT");
        let fire = fire.end().well();
        assert!(results(&fire.out).iter().all(|(_, result)| result == "played"), "{fire:#?}");
        let gone = building.zone("gym")["announcements"].as_array().unwrap().len();
        assert_eq!(gone, 2);
        end(nodes);
    });
}

#[test]
fn only_holders_of_the_key_announce() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        building.left("srtp-key group.key").run().well();
        let sealed = BUILDING.replace("latency =", "srtp-key-file = \"group.key\"\nlatency =");
        std::fs::write(building.folder.file("building.toml"), sealed).unwrap();
        std::fs::write(building.folder.file("plain.toml"), BUILDING).unwrap();
        let nodes = building.nodes();
        let stranger = building.right("play gym alarm.wav --report json --site plain.toml").run();
        assert_eq!(stranger.status, Some(1), "{stranger:#?}");
        assert_eq!(results(&stranger.out), [("gym".to_owned(), "unknown".to_owned())]);
        let page = building.right("play gym alarm.wav --report json").run().well();
        assert_eq!(results(&page.out), [("gym".to_owned(), "played".to_owned())]);
        end(nodes);
    });
}

/// Messages that a wrong command gives.
#[test]
fn command_that_the_file_does_not_permit_is_refused() {
    let Some(building) = Building::open() else { return };
    for (line, status) in [
        ("play hall page.wav --station door", 2),
        ("play cellar page.wav", 2),
        ("page all --station desk", 2),
        ("node --node attic", 2),
        ("zone hall volume -6dB", 1),
        ("zone hall,bar", 1),
        ("play hall nosuch", 3),
    ] {
        let ended = building.right(line).run();
        assert_eq!(ended.status, Some(status), "{line}: {ended:#?}");
        tautline_trial::snapshot!(line, ended.messages.join("\n"));
    }
    let at: PathBuf = building.folder.file("building.toml");
    std::fs::write(&at, BUILDING.replace("to = [\"all\"]", "to = [\"bar\"]")).unwrap();
    let ended = building.right("play hall,bar page.wav").run();
    assert_eq!(ended.status, Some(2), "{ended:#?}");
    tautline_trial::snapshot!("other zone", ended.messages.join("\n"));
    let second =
        "[station.door]\nnode = \"right\"\npriority = \"page\"\nrank = 3\nto = [\"all\"]\n";
    std::fs::write(&at, BUILDING.to_owned() + second).unwrap();
    let ended = building.right("play hall page.wav").run();
    assert_eq!(ended.status, Some(2), "{ended:#?}");
    tautline_trial::snapshot!("several stations", ended.messages.join("\n"));
}

#[test]
fn pushed_file_reaches_all_nodes_and_unchanged_cards_play_on() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        let other = building.folder.file("other");
        std::fs::create_dir(&other).unwrap();
        std::fs::write(other.join("building.toml"), BUILDING).unwrap();
        let node = |call: Call| call.listened_to().start().wait_for("node ");
        let right = building.right("node").in_folder(&other);
        let nodes = [node(building.left("node")), node(right)];
        until("no music", || building.zones().iter().all(|zone| zone["state"] == "playing"));
        let before = nodes.each_ref().map(|node| card_process(node).unwrap());
        let text = BUILDING.replace("epoch = 1", "epoch = 2");
        let text = text.replace("max-volume = \"-6dB\"", "max-volume = \"-8dB\"");
        std::fs::write(building.folder.file("building.toml"), &text).unwrap();
        let pushed = building.left("site push").run().well();
        assert_eq!(pushed.out, "left: epoch 2\nright: epoch 2, 1 file copied\n");
        assert_eq!(std::fs::read_to_string(other.join("building.toml")).unwrap(), text);
        let alarm = |folder: &std::path::Path| std::fs::read(folder.join("alarm.wav")).unwrap();
        assert_eq!(alarm(&other), alarm(building.folder.path()));
        until("the old volume", || building.zone("hall")["volume"] == "-8dB");
        until("no music", || building.zone("hall")["state"] == "playing");
        let after = nodes.each_ref().map(|node| card_process(node).unwrap());
        assert_ne!(before[0], after[0]);
        assert_eq!(before[1], after[1]);
        let rule = "[schedule.bell]\nat = \"08:00\"\nzones = [\"all\"]\nstation = \"desk\"\n\
                    message = \"alarm\"\nholidays = \"h.ics\"\n";
        let newest = text
            .replace("epoch = 2", "epoch = 3")
            .replace("latency =", "timezone = \"UTC\"\nlatency =");
        std::fs::write(building.folder.file("building.toml"), newest + rule).unwrap();
        let monthly = "BEGIN:VEVENT\nDTSTART;VALUE=DATE:20260102\nRRULE:FREQ=MONTHLY\nEND:VEVENT\n";
        std::fs::write(building.folder.file("h.ics"), monthly).unwrap();
        let silent = building.left("site push").run();
        assert_eq!(silent.status, Some(1), "{silent:#?}");
        assert!(!other.join("h.ics").exists(), "bells would not ring");
        std::fs::write(building.folder.file("building.toml"), BUILDING).unwrap();
        let older = building.left("site push").run();
        assert_eq!(older.status, Some(1), "{older:#?}");
        assert_eq!(std::fs::read_to_string(other.join("building.toml")).unwrap(), text);
        end(nodes);
    });
}

/// Time of day in UTC after so many seconds, and its Unix seconds.
fn soon(seconds: u64) -> (String, u64) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let at = now.as_secs() + seconds;
    let (hours, minutes) = (at / 3600 % 24, at / 60 % 60);
    (format!("{hours:02}:{minutes:02}:{:02}", at % 60), at)
}

#[test]
fn schedule_plays_on_each_node_to_its_own_zones() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        // The right node has another file, so that its zones show any packet of the left one.
        let other = building.folder.file("other");
        std::fs::create_dir(&other).unwrap();
        std::fs::write(other.join("building.toml"), BUILDING).unwrap();
        let (time, at) = soon(15);
        // A zone that the preset mutes at the same time would not play the bell.
        let (later, _) = soon(18);
        let zone = "timezone = \"UTC\"\nschedule-clock = \"any\"\nlatency =";
        let rules = format!(
            "[preset.evening]\nall = {{ volume = \"-12dB\" }}\nbar = {{ mute = true }}\n\
             [schedule.bell]\nat = \"{time}\"\nzones = [\"all\"]\nstation = \"desk\"\n\
             message = \"alarm\"\n[schedule.evening]\nat = \"{later}\"\npreset = \"evening\"\n"
        );
        let text = BUILDING.replace("latency =", zone) + &rules;
        std::fs::write(building.folder.file("building.toml"), &text).unwrap();
        let next = building.left("schedule next 2 --report json").run().well();
        let next: Value = serde_json::from_str(&next.out).unwrap();
        let rules: Vec<_> = (0..2).map(|at| next["plays"][at]["rule"].clone()).collect();
        assert_eq!(rules, ["bell", "evening"]);
        let node = |call: Call| call.listened_to().start().wait_for("node ");
        let right = building.right("node").in_folder(&other);
        let nodes = [node(building.left("node")), node(right)];
        let announcements = |zone: &str| building.zone(zone)["announcements"].clone();
        let is_played = |zone: &str| announcements(zone)[0]["result"] == "played";
        until("no bell", || is_played("hall") && is_played("bar"));
        assert_eq!(announcements("gym"), Value::Array(Vec::new()));
        let [hall, bar] = ["hall", "bar"].map(|zone| announcements(zone)[0].clone());
        assert_eq!(hall["id"], bar["id"]);
        let planned = at as i64 * 1_000_000_000 + 150_000_000;
        let late = hall["started_ns"].as_i64().unwrap() - planned;
        assert!(late.abs() < 2_000_000, "{late} ns");
        until("no preset", || building.zone("bar")["muted"] == true);
        assert_eq!(building.zone("hall")["volume"], "-12dB");
        assert_eq!(building.zone("gym")["volume"], "0dB");
        building.left("preset evening").run().well();
        assert_eq!(building.zone("gym")["volume"], "-12dB");
        let unknown = building.left("preset morning").run();
        assert_eq!(unknown.status, Some(2), "{unknown:#?}");
        let journal = building.folder.file("home/zones-left.journal.json");
        let journal: Value = serde_json::from_slice(&std::fs::read(journal).unwrap()).unwrap();
        assert_eq!(journal["bell"], at);
        end(nodes);
    });
}

mod exclusive {
    //! The result is a function of time (decision 25): a zone that joins late switches later.

    use super::*;
    use tautline_trial::steady;

    #[test]
    fn zones_of_two_nodes_switch_their_source_at_one_time() {
        steady(|| {
            let Some(building) = Building::open() else { return };
            let music = noise(96_000, 0);
            music.write(&building.folder.file("music.wav"));
            // At full volume, the music is exact.
            let loud = BUILDING.replace("max-volume = \"-6dB\"\n", "");
            std::fs::write(building.folder.file("building.toml"), loud).unwrap();
            let nodes = building.nodes();
            grows(&building.folder.file("right.wav"), 3000);
            building.right("zone hall,gym source tone").run().well();
            for file in ["left.wav", "right.wav"] {
                grows(&building.folder.file(file), 4000);
            }
            end(nodes);
            let left = {
                let Sound { shape, samples } = Sound::read(&building.folder.file("left.wav"));
                let hall = samples.chunks(shape.channels).flat_map(|frame| [frame[0], frame[1]]);
                Sound { shape: music.shape, samples: hall.collect() }
            };
            let right = Sound::read(&building.folder.file("right.wav"));
            let both = [left, right].map(|recorded| switched(&recorded, &music));
            let [at, other] = both.each_ref().map(|(frames, _)| frames % 96_000);
            let apart = at.abs_diff(other).min(96_000 - at.abs_diff(other));
            assert!(apart <= 24, "{apart} frames apart");
            for (_, after) in &both {
                // The cross-fade has no gap; the tone follows, at −18 dBFS.
                let loud = |part: &[i32]| part.iter().any(|sample| sample.abs() > 1 << 19);
                assert!(after.chunks_exact(480).take(100).all(loud));
                let tone = level(&after[2 * 4800..4 * 4800], TONE);
                assert!(near(tone, -18.0), "{tone}");
            }
        });
    }
}
