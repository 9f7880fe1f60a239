//! ALSA programs play to the network and record from it via a PCM of `type tautline`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tautline_trial::snapshot;

use crate::common::host::timed;
use crate::common::network::Cable;
use crate::common::program::{Call, Running, call, taut, words};
use crate::common::sound::{FileCoding, Shape, Sound};
use crate::common::{Folder, Lack, Onlooker, PATIENT, free_udp_ports, shared, skipped};
use crate::one_clock::is_copied;

fn shared_object() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let built = tests.with_file_name("libasound_module_pcm_tautline.so");
    assert!(built.exists(), "{} was not built", built.display());
    built
}

pub(crate) struct Scene {
    pub(crate) folder: Folder,
    port: u16,
}

impl Scene {
    pub(crate) fn set(keys: &str) -> Self {
        let (folder, port) = (Folder::new(), free_udp_ports());
        let installed =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugins/alsa-pcm/99-tautline.conf");
        let mut text = format!("</usr/share/alsa/alsa.conf>\n<{installed}>\n");
        writeln!(text, "pcm_type.tautline {{ lib \"{}\" }}", shared_object().display()).unwrap();
        writeln!(
            text,
            "pcm.net {{ type tautline to \"127.0.0.1:{port}\" from \"127.0.0.1:{port}\" {keys} }}"
        )
        .unwrap();
        std::fs::write(folder.file("asound.conf"), text).unwrap();
        Self { folder, port }
    }

    pub(crate) fn with(self, more: &str) -> Self {
        let conf = self.folder.file("asound.conf");
        let text = std::fs::read_to_string(&conf).unwrap();
        std::fs::write(&conf, text + more).unwrap();
        self
    }

    pub(crate) fn program(&self, program: &str, line: &str) -> Call {
        let conf = self.folder.file("asound.conf");
        call(program, words(line)).in_folder(self.folder.path()).with("ALSA_CONFIG_PATH", conf)
    }

    fn handle(&self, coding: FileCoding) -> Running {
        let line = format!(
            "recv --from rtp://127.0.0.1:{} --output file:heard.wav --exit-on-bye --report json \
             --rate 48000 --channels 2 --format {}",
            self.port,
            coding.word()
        );
        taut(words(&line)).and(PATIENT).in_folder(self.folder.path()).start().listening()
    }

    fn noise(&self, coding: FileCoding) -> Sound {
        let sent = Sound::noise(Shape { coding, ..Shape::STEREO_24 }, 1000, 9);
        sent.write(&self.folder.file("sent.wav"));
        sent
    }
}

/// Output on both streams with any exit status: sox's help has status 1. Empty if missing.
fn answered(program: &str, requests: &[&str]) -> String {
    let ran = Command::new(program).args(requests).stdin(Stdio::null()).output();
    ran.map_or_else(
        |_| String::new(),
        |ran| String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned(),
    )
}

fn plays(program: &str) -> bool {
    let there = match program {
        // The format is in a separate package.
        "sox" => answered("sox", &["--help-format", "alsa"]).contains("Format: alsa"),
        "ffmpeg" => answered("ffmpeg", &["-hide_banner", "-devices"])
            .lines()
            .filter_map(|line| line.trim().split_once(' '))
            .any(|(can, rest)| can.contains('E') && rest.starts_with("alsa ")),
        "gst-launch-1.0" => ["alsasink", "wavparse", "filesrc"].iter().all(|element| {
            let requests = Command::new("gst-inspect-1.0").args(["--exists", element]).status();
            requests.is_ok_and(|status| status.success())
        }),
        _ => return is_there(program, "--version"),
    };
    if !there {
        skipped(Lack::Package, &format!("{program} that plays to ALSA is not installed"));
    }
    there
}

pub(crate) fn is_there(program: &str, requests: &str) -> bool {
    let mut command = Command::new(program);
    let ran = command.arg(requests).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if ran.is_err() {
        skipped(Lack::Package, &format!("{program} is not installed"));
    }
    ran.is_ok()
}

fn is_played(coding: FileCoding, (program, line): (&str, &str)) {
    shared(|| {
        if !plays(program) {
            return;
        }
        let scene = Scene::set(&format!("latency \"400ms\" format {}", coding.word()));
        let (sent, recv) = (scene.noise(coding), scene.handle(coding));
        let played = scene.program(program, line).run().well();
        let report = recv.end().report();
        report.missed_nothing();
        Sound::read(&scene.folder.file("heard.wav")).is_exactly(&sent);
        assert_eq!(played.out, "", "nothing of ours is on standard output");
    });
}

#[test]
fn aplay_is_bit_exact_in_every_access_mode() {
    for (coding, line) in [
        (FileCoding::L16, "-q -D net sent.wav"),
        (FileCoding::L24, "-q -D net sent.wav"),
        (FileCoding::F32, "-q -D net sent.wav"),
        (FileCoding::L24, "-q -M -D net sent.wav"),
        (FileCoding::L24, "-q -N -D net sent.wav"),
    ] {
        is_played(coding, ("aplay", line));
    }
}

#[test]
fn other_programs_are_received_bit_exact() {
    for program in [
        // Its default buffer of 43 ms is shorter than stalls of the host; this one has 0.67 s.
        ("sox", "-q -D --buffer 131072 sent.wav -t alsa net"),
        ("ffmpeg", "-loglevel error -i sent.wav -f alsa net"),
        (
            "gst-launch-1.0",
            "-q filesrc location=sent.wav ! wavparse ! alsasink device=net buffer-time=500000",
        ),
    ] {
        is_played(FileCoding::L16, program);
    }
}

#[test]
fn speaker_test_is_received() {
    shared(|| {
        if !is_there("speaker-test", "--help") {
            return;
        }
        let scene = Scene::set("latency \"400ms\" channels 2");
        let recv = scene.handle(FileCoding::L24);
        let line = "-D net -c 2 -r 48000 -F S16_LE -t sine -f 440 -l 1 -b 500000";
        scene.program("speaker-test", line).run().well();
        recv.end().report().missed_nothing();
        let received = Sound::read(&scene.folder.file("heard.wav"));
        let loudest = received.samples.iter().map(|sample| sample.abs()).max();
        assert!(loudest > Some(1 << 20), "{loudest:?}");
    });
}

#[test]
fn a_host_is_played_to_by_its_address_alone() {
    shared(|| {
        if !is_there("aplay", "--version") {
            return;
        }
        let scene = Scene::set("");
        let (sent, recv) = (scene.noise(FileCoding::L24), scene.handle(FileCoding::L24));
        let line = format!("-q -D taut:HOST=127.0.0.1:{},LATENCY=400ms sent.wav", scene.port);
        scene.program("aplay", &line).run().well();
        recv.end().report().missed_nothing();
        Sound::read(&scene.folder.file("heard.wav")).is_exactly(&sent);
    });
}

#[test]
fn packets_refused_by_the_system_are_reported_once() {
    shared(|| {
        if !is_there("aplay", "--version") {
            return;
        }
        let Some(cable) = Cable::lay() else { return };
        let scene = Scene::set("");
        for (breaks, times) in [(false, 0), (true, 1)] {
            let line =
                format!("-D taut:{} -f S16_LE -r 48000 -c 2 -d 2 /dev/zero", cable.right.address);
            let played =
                scene.program("aplay", &line).within(&cable.left).start().wait_for("Playing");
            if breaks {
                cable.left.breaks();
            }
            let played = played.end().well();
            let messages: Vec<_> =
                played.messages.iter().filter(|line| line.contains("refused")).collect();
            assert_eq!(messages.len(), times, "{played:#?}");
            assert_eq!(played.messages.len(), 1 + times, "{played:#?}");
        }
    });
}

#[test]
fn arecord_records_bit_for_bit_with_and_without_mapped_memory() {
    for mapped in ["", "-M "] {
        shared(|| {
            if !is_there("arecord", "--version") {
                return;
            }
            let scene = Scene::set("latency \"400ms\" rate 48000 channels 2");
            let sent = scene.noise(FileCoding::L24);
            let line = format!("{mapped}-D net -f S24_3LE -r 48000 -c 2 -d 4 heard.wav");
            let recorder = scene.program("arecord", &line).start().wait_for("Recording");
            let send = format!(
                "send --input file:sent.wav --to rtp://127.0.0.1:{} --format l24 --report none",
                scene.port
            );
            taut(words(&send)).and(PATIENT).in_folder(scene.folder.path()).run().well();
            recorder.end().well();
            Sound::read(&scene.folder.file("heard.wav")).is_exactly(&sent);
        });
    }
}

#[test]
fn late_arecord_is_bit_exact_from_the_first_second() {
    shared(|| {
        if !is_there("arecord", "--version") {
            return;
        }
        let scene = Scene::set("latency \"400ms\" rate 48000 channels 2");
        let (sent, onlooker) = (Sound::noise(Shape::STEREO_24, 60_000, 9), Onlooker::new());
        sent.write(&scene.folder.file("sent.wav"));
        let send = format!(
            "send --input file:sent.wav --to rtp://127.0.0.1:{} --to {} --format l24",
            scene.port,
            onlooker.address()
        );
        let send =
            taut(words(&send)).and(PATIENT).in_folder(scene.folder.path()).controlled().start();
        for (take, millis) in [737, 211, 523].into_iter().enumerate() {
            onlooker.handle(millis);
            let line = format!("-q -D net -f S24_3LE -r 48000 -c 2 -d 4 {take}.wav");
            scene.program("arecord", &line).run().well();
            is_copied(&Sound::read(&scene.folder.file(&format!("{take}.wav"))), &sent, &line);
        }
        send.request("quit", "ok").end().well();
    });
}

#[test]
fn invalid_pcm_is_refused_with_one_message_and_a_hint() {
    shared(|| {
        if !is_there("aplay", "--version") {
            return;
        }
        for (pcm, errno) in [
            // The installed configuration's default, without a host.
            ("taut", "Invalid argument"),
            ("taut:no.such.host.invalid", "No such device or address"),
        ] {
            let scene = Scene::set("");
            scene.noise(FileCoding::L16);
            let refused = scene.program("aplay", &format!("-q -D {pcm} sent.wav")).run();
            assert_eq!(refused.status, Some(1), "{refused:#?}");
            assert_eq!(refused.out, "");
            let messages: Vec<_> =
                refused.messages.iter().filter(|line| line.contains("pcm.")).collect();
            let [line] = messages[..] else { panic!("{pcm}: {refused:#?}") };
            snapshot!(pcm, line);
            assert!(refused.messages.iter().any(|line| line.contains(errno)), "{refused:#?}");
        }
    });
}

/// When `aplay` queries a name server that does not exist.
const ASK: &str = "#!/bin/sh
echo 'nameserver 10.77.0.99' >resolv.conf && mount --bind resolv.conf /etc/resolv.conf || exit 9
exec aplay -q -D taut:kitchen.example sent.wav
";

#[test]
fn top_shows_programs_that_play_and_record_by_the_pcm() {
    shared(|| {
        if !is_there("aplay", "--version") {
            return;
        }
        let scene = Scene::set("rate 48000 channels 2");
        let runtime = ("XDG_RUNTIME_DIR", scene.folder.path());
        let starts = |program: &str, line: &str, word: &str| {
            scene.program(program, line).with(runtime.0, runtime.1).start().wait_for(word)
        };
        let line = "-D net -f S16_LE -r 48000 -c 2";
        let records = starts("arecord", &format!("{line} heard.wav"), "Recording");
        let plays = starts("aplay", &format!("{line} /dev/zero"), "Playing");
        let top = || {
            let top = taut(words("top --once --report json")).with(runtime.0, runtime.1);
            serde_json::from_str::<serde_json::Value>(&top.run().well().out).unwrap()
        };
        let reported = top();
        for (role, running, program) in [("send", &plays, "aplay"), ("recv", &records, "arecord")] {
            let programs = reported["programs"].as_array().unwrap();
            let shown = programs.iter().find(|shown| shown["role"] == role);
            let shown = shown.unwrap_or_else(|| panic!("no {role} in {reported:#}"));
            assert_eq!(shown["pid"].to_string(), running.id(), "{reported:#}");
            assert!(shown["command"].as_str().unwrap().starts_with(program), "{reported:#}");
            let address = shown["streams"][0]["address"].as_str().unwrap();
            assert_eq!(address, format!("rtp://127.0.0.1:{}", scene.port), "{reported:#}");
        }
        for running in [plays, records] {
            running.signal("-INT");
            running.end();
        }
        assert_eq!(top()["programs"].as_array().map(Vec::len), Some(0));
    });
}

#[test]
fn recorder_reports_silence_of_its_followed_clock() {
    shared(|| {
        if !is_there("arecord", "--version") {
            return;
        }
        let from = format!("avtp+udp://127.0.0.1:{}", free_udp_ports());
        let clock = format!("avtp+udp://127.0.0.1:{}", free_udp_ports());
        let keys = "rate 48000 channels 2 latency 50ms";
        let scene = Scene::set("").with(&format!(
            "pcm.led {{ type tautline from \"{from}\" clock \"{clock}\" {keys} }}\n"
        ));
        let line = "-q -D led -f S16_LE -r 48000 -c 2 heard.wav";
        let not_received = format!("{clock}: no clock packets received yet");
        let records = scene.program("arecord", line).start().wait_for(&not_received);
        records.signal("-INT");
        records.end();
    });
}

mod exclusive {
    use super::*;

    #[test]
    fn silent_name_server_is_given_up_within_a_second() {
        if !is_there("aplay", "--version") || !is_there("unshare", "--version") {
            return;
        }
        let Some(cable) = Cable::lay() else { return };
        timed(|| {
            let scene = Scene::set("");
            scene.noise(FileCoding::L16);
            std::fs::write(scene.folder.file("ask"), ASK).unwrap();
            let begun = Instant::now();
            let refused = scene.program("unshare", "--mount sh ask").within(&cable.left).run();
            let took = begun.elapsed();
            assert_eq!(refused.status, Some(1), "{refused:#?}");
            let messages = refused.messages.iter().any(|line| line.contains("kitchen.example"));
            assert!(messages, "{refused:#?}");
            assert!(took < Duration::from_secs(1), "{took:?}");
        });
    }
}
