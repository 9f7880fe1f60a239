//! Sources: programs of a node, files of any rate, ALSA programs.

use super::*;
use crate::common::program::call;
use crate::pcm::{Scene, is_there};

/// The tone at another rate, in mono.
fn tone_at(rate: u32, hertz: f64, seconds: usize) -> Sound {
    let shape = Shape { rate, channels: 1, coding: FileCoding::L24 };
    let at = |frame: usize| (frame as f64 * hertz * std::f64::consts::TAU / f64::from(rate)).sin();
    let samples = (0..rate as usize * seconds).map(|frame| (at(frame) * f64::from(1 << 21)) as i32);
    Sound { shape, samples: samples.collect() }
}

impl Building {
    fn with_site(self, site: &str) -> Self {
        std::fs::write(self.folder.file("building.toml"), site).unwrap();
        self
    }

    fn with_local(self, local: &str) -> Self {
        std::fs::write(self.folder.file("home/local.toml"), local).unwrap();
        self
    }

    /// Fault of a source at the left node.
    fn fault(&self, source: &str) -> Option<String> {
        let listed = self.right("zones --report json").run().out;
        let listed: Value = serde_json::from_str(&listed).unwrap();
        let mut nodes = listed["nodes"].as_array().unwrap().iter();
        let node = nodes.find(|node| node["node"] == "left").unwrap();
        let mut sources = node["sources"].as_array().unwrap().iter();
        let found = sources.find(|found| found["source"] == source)?;
        found["fault"].as_str().map(str::to_owned)
    }

    /// Waits, and checks that 3 s of the recording have the tone.
    #[track_caller]
    fn plays(&self, file: &str, channel: usize, hertz: f64) {
        grows(&self.folder.file(file), 12_000);
        let levels = self.levels(file, channel, [hertz]);
        let plays = |tenth: &&[f64; 1]| near(tenth[0], -12.0);
        let tenths = levels.iter().filter(plays).count();
        assert!(tenths >= 30, "{file}: {tenths} tenths: {levels:.1?}");
    }

    /// Checks that the music of `bar` has no gap from its start to the fade at the end.
    #[track_caller]
    fn bar_plays_on(&self) {
        let levels = self.levels("left.wav", 2, [MUSIC]);
        let whole = levels[..levels.len() - 2].iter();
        let mut playing = whole.skip_while(|[music]| !near(*music, -12.0));
        assert!(playing.all(|[music]| near(*music, -12.0)), "{levels:.1?}");
    }
}

const WEB: f64 = 800.0;

fn local(site: &str, name: &str) -> String {
    site.replace("files = [\"music.wav\"]", &format!("local = \"{name}\""))
}

#[test]
fn web_radio_of_a_program_plays_in_a_zone() {
    shared(|| {
        if !is_there("ffmpeg", "-version") || !is_there("python3", "--version") {
            return;
        }
        let Some(building) = Building::open() else { return };
        let site = local(BUILDING, "radio").replace("max-volume = \"-6dB\"", "");
        let building = building.with_site(&site).with_local(
            "[source.radio]\n\
             exec = \"ffmpeg -v error -i http://127.0.0.1:8000/radio.flac -f wav -\"\n",
        );
        tone_at(44_100, WEB, 30).write(&building.folder.file("radio.wav"));
        let pack = "-v error -i radio.wav radio.flac";
        call("ffmpeg", words(pack)).in_folder(building.folder.path()).run().well();
        let server = call("python3", words("-u -m http.server --bind 127.0.0.1 8000"));
        let server = server.in_folder(building.folder.path()).within(&building.cable.left);
        let server = server.listened_to().start().wait_for("Serving HTTP");
        let nodes = building.nodes();
        building.plays("left.wav", 0, WEB);
        assert_eq!(building.fault("music"), None);
        end(nodes);
        server.signal("-TERM");
        server.end();
    });
}

#[test]
fn program_that_dies_is_a_fault_and_others_play_on() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        let dying = "[source.dying]\nlocal = \"dying\"\nnode = \"left\"\n\
                     address = \"239.255.78.3:5004\"\n[zone.hall]";
        let site = BUILDING.replacen("[zone.hall]", dying, 1);
        let building = building
            .with_site(&site)
            .with_local("[source.dying]\nexec = \"echo >> starts; echo no stream >&2; exit 7\"\n");
        let nodes = building.nodes();
        let starts = || std::fs::read(building.folder.file("starts")).map_or(0, |it| it.len());
        until("the program does not start again", || starts() >= 3);
        let fault = building.fault("dying").unwrap();
        assert!(fault.ends_with("ended: exit status: 7: no stream"), "{fault}");
        assert_eq!(building.fault("music"), None);
        building.plays("left.wav", 2, MUSIC);
        end(nodes);
        building.bar_plays_on();
    });
}

#[test]
fn raw_program_that_stalls_starts_again() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        let building = building.with_site(&local(BUILDING, "player")).with_local(
            "[source.player]\nexec = \"cat raw; echo >> starts; exec sleep 1000\"\n\
             format = \"s16le\"\nrate = 32000\nchannels = 1\ntimeout = \"1s\"\n",
        );
        let Sound { samples, .. } = tone_at(32_000, WEB, 3);
        let raw = samples.iter().flat_map(|sample| ((sample >> 8) as i16).to_le_bytes());
        std::fs::write(building.folder.file("raw"), raw.collect::<Vec<_>>()).unwrap();
        let nodes = building.nodes();
        let starts = || std::fs::read(building.folder.file("starts")).map_or(0, |it| it.len());
        until("the program does not start again", || starts() >= 2);
        building.plays("left.wav", 2, WEB);
        end(nodes);
    });
}

#[test]
fn playlist_has_files_of_any_rate_and_skips_missing_ones() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        for (name, rate) in [("cd.wav", 44_100), ("speech.wav", 22_050), ("studio.wav", 96_000)] {
            tone_at(rate, MUSIC, 1).write(&building.folder.file(name));
        }
        let files = r#""missing.wav", "cd.wav", "speech.wav", "studio.wav""#;
        let site = BUILDING.replace("\"music.wav\"", files);
        let building = building.with_site(&site);
        let nodes = building.nodes();
        building.plays("left.wav", 2, MUSIC);
        let fault = building.fault("music").unwrap();
        assert!(fault.contains("file:missing.wav: "), "{fault}");
        end(nodes);
        // The tone has whole periods in a second, so it goes on over the joints.
        building.bar_plays_on();
    });
}

#[test]
fn alsa_program_plays_into_the_building() {
    shared(|| {
        if !is_there("aplay", "--version") {
            return;
        }
        let Some(building) = Building::open() else { return };
        let site = BUILDING.replace("files = [\"music.wav\"]", "device = \"programs:\"");
        let building = building.with_site(&site);
        tone(WEB, 20).write(&building.folder.file("song.wav"));
        let scene = Scene::set("");
        let home = building.folder.file("home");
        let node = |call: Call| {
            call.with("XDG_RUNTIME_DIR", &home).listened_to().start().wait_for("node ")
        };
        let nodes = [node(building.left("node")), node(building.right("node"))];
        until("not all zones play", || {
            building.zones().iter().all(|zone| zone["state"] == "playing")
        });
        let song = building.folder.file("song.wav");
        let player = scene.program("aplay", "-q -D tautserve").and([song]);
        let player = player.with("XDG_RUNTIME_DIR", &home).within(&building.cable.left).start();
        building.plays("left.wav", 2, WEB);
        player.signal("-TERM");
        player.end();
        end(nodes);
    });
}
