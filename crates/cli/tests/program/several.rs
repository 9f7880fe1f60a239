//! Several senders and receivers, and events during a run.

use std::collections::HashMap;

use serde_json::Value;

use crate::common::program::{Call, Running, taut, words};
use crate::common::report::Report;
use crate::common::sound::{Shape, Sound};
use crate::common::{Folder, Onlooker, PATIENT, loopback, shared};

/// A receiver that learns the format may miss the first packets.
const SHAPE: &str = "--rate 48000 --channels 2";

struct Scene(Folder);

impl Scene {
    fn new() -> Self {
        Self(Folder::new())
    }

    fn noise(&self, name: &str, millis: usize, seed: u64) -> Sound {
        let sound = Sound::noise(Shape::STEREO_24, millis, seed).quieter();
        sound.write(&self.0.file(name));
        sound
    }

    fn received(&self, name: &str) -> Sound {
        Sound::read(&self.0.file(name))
    }

    fn call(&self, line: &str) -> Call {
        taut(words(line)).and(PATIENT).in_folder(self.0.path())
    }

    fn recv(&self, from: &str, options: &str) -> Running {
        let shape = if from.starts_with("rtp:") { SHAPE } else { "" };
        let line = format!(
            "recv --from {from} --output file:heard.wav --exit-on-bye --report json \
             --overwrite {shape} {options}"
        );
        self.call(&line).start().listening()
    }

    fn send(&self, name: &str, to: &str) -> Call {
        self.call(&format!("send --input file:{name} --to {to} --report json"))
    }
}

fn minus_6_db(sample: i32) -> i32 {
    (f64::from(sample) * 10_f64.powf(-6.0 / 20.0)).round() as i32
}

#[test]
fn two_senders_are_summed_with_their_gains() {
    shared(|| {
        let scene = Scene::new();
        let (early, late) = (scene.noise("early.wav", 1000, 1), scene.noise("late.wav", 400, 2));
        let (first, other, onlooker) = (loopback(), loopback(), Onlooker::new());
        let recv = scene.recv(&first, &format!("--from {other}?volume=-6dB"));
        let sooner = scene.send("early.wav", &first).and(["--to", &onlooker.address()]).start();
        onlooker.see(300);
        scene.send("late.wav", &other).run().well();
        sooner.end().well();
        let (report, received) = (recv.end().report(), scene.received("heard.wav"));
        assert_eq!(report.0["streams"].as_array().unwrap().len(), 2);
        received.without(&early, received.begins().unwrap()).is_about(&late, minus_6_db, 1);
    });
}

/// Runs of frames of one of `sounds` (its index) or of none.
fn runs(received: &Sound, sounds: &[&Sound]) -> Vec<(Option<usize>, usize)> {
    let frames = |index: usize| {
        let sound: &Sound = sounds[index];
        (0..sound.frames()).map(move |frame| (sound.frame(frame), index))
    };
    let whose: HashMap<&[i32], usize> = (0..sounds.len()).flat_map(frames).collect();
    let mut runs: Vec<(Option<usize>, usize)> = Vec::new();
    for frame in 0..received.frames() {
        let owner = whose.get(received.frame(frame)).copied();
        match runs.last_mut() {
            Some((last, count)) if *last == owner => *count += 1,
            _ => runs.push((owner, 1)),
        }
    }
    runs
}

fn owners(runs: &[(Option<usize>, usize)]) -> Vec<usize> {
    let mut owners: Vec<usize> =
        runs.iter().filter(|(_, count)| *count > 1000).filter_map(|(owner, _)| *owner).collect();
    owners.dedup();
    owners
}

#[test]
fn the_more_important_stream_takes_over_and_gives_back() {
    shared(|| {
        let scene = Scene::new();
        let (early, late) = (scene.noise("early.wav", 1500, 1), scene.noise("late.wav", 400, 2));
        let (minor, major, onlooker) = (loopback(), loopback(), Onlooker::new());
        let recv = scene.recv(&major, &format!("--from {minor} --select priority"));
        let first = scene.send("early.wav", &minor).and(["--to", &onlooker.address()]).start();
        onlooker.see(300);
        scene.send("late.wav", &major).run().well();
        first.end().well();
        recv.end().well();
        let runs = runs(&scene.received("heard.wav"), &[&early, &late]);
        assert_eq!(owners(&runs), [0, 1, 0], "{runs:?}");
    });
}

#[test]
fn the_map_and_the_volume_are_applied_at_either_end() {
    shared(|| {
        let scene = Scene::new();
        let mut sent = scene.noise("sent.wav", 300, 1);
        let options = words("--map 2,1 --volume -6dB");
        let (first, second) = (loopback(), loopback());
        let recv = scene.recv(&first, &options.join(" "));
        scene.send("sent.wav", &first).run().well();
        recv.end().well();
        sent.samples.chunks_mut(2).for_each(|frame| frame.reverse());
        scene.received("heard.wav").is_about(&sent, minus_6_db, 1);
        let recv = scene.recv(&second, "");
        scene.send("sent.wav", &second).and(&options).run().well();
        recv.end().well();
        scene.received("heard.wav").is_about(&sent, minus_6_db, 1);
    });
}

#[test]
fn settings_file_supplies_options_and_command_line_wins() {
    shared(|| {
        let scene = Scene::new();
        let sent = scene.noise("sent.wav", 300, 1);
        let addresses = [loopback(), loopback()];
        let settings = format!(
            "latency = \"400ms\"\nperiod = 240\nperiods = 32\nreport = \"json\"\nno-stall-monitor = true\n\
         [send]\ninput = \"file:sent.wav\"\nto = [\"{}\", \"{}\"]\nptime = \"5ms\"\n\
         [recv]\noutput = \"file:heard.wav\"\nexit-on-bye = true\nlatency = \"300ms\"\nrate = 48000\nchannels = 2\n",
            addresses[0], addresses[1]
        );
        std::fs::write(scene.0.file("tautline.toml"), settings).unwrap();
        let call = |line: &str| taut(words(line)).in_folder(scene.0.path());
        let configured = |report: &Report| report.nanos("/latency/configured_ns");
        let recv = call(&format!("recv --from {}", addresses[0])).start().listening();
        let other = call(&format!("recv --from {} --output null: --latency 350ms", addresses[1]));
        let other = other.start().listening();
        let report = call("send").run().report();
        assert_eq!(report.stream("/receivers").as_array().unwrap().len(), 2, "{:#}", report.0);
        assert_eq!((configured(&report), report.nanos("/ptime_ns")), (400_000_000, 5_000_000));
        assert_eq!(configured(&recv.end().report()), 300_000_000, "of the command's own table");
        assert_eq!(configured(&other.end().report()), 350_000_000, "of the command line");
        scene.received("heard.wav").is_exactly(&sent);
    });
}

const SUMMARY: [&str; 11] = [
    "count", "min_ns", "mean_ns", "stdev_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "p9999_ns",
    "max_ns", "range_ns",
];
const COUNTERS: [&str; 13] = [
    "packets_sent",
    "packets_received",
    "lost",
    "late",
    "reordered",
    "duplicate",
    "repaired",
    "invalid",
    "missing_frames",
    "concealed_frames",
    "xruns",
    "resyncs",
    "host_stalled",
];
const STAGES: [&str; 8] =
    ["capture", "pack", "send", "wire", "wakeup", "buffer", "render", "device"];

#[track_caller]
fn has(value: &Value, names: &[&str]) {
    let missing: Vec<_> = names.iter().filter(|name| value.get(**name).is_none()).collect();
    assert!(missing.is_empty(), "no {missing:?} in {value:#}");
}

#[test]
fn interrupted_ends_finish_cleanly_with_complete_reports() {
    shared(|| {
        let scene = Scene::new();
        let sent = scene.noise("sent.wav", 30_000, 1);
        let (address, onlooker) = (loopback(), Onlooker::new());
        let recv = scene.recv(&address, "--report-file report.json");
        let send = scene.send("sent.wav", &address).and(["--to", &onlooker.address()]).start();
        onlooker.see(1500);
        recv.signal("-INT");
        let ended = recv.end().well();
        let written = std::fs::read_to_string(scene.0.file("report.json")).unwrap();
        assert_eq!(written, ended.out, "the file holds the same report");
        let received = ended.report();
        send.signal("-INT");
        for (report, role) in [(send.end().report(), "send"), (received, "recv")] {
            assert_eq!((&report.0["schema"], &report.0["role"]), (&2.into(), &role.into()));
            has(&report.0, &["duration_ns", "streams", "host"]);
            has(&report.0["host"], &["kernel", "scheduler", "cpus", "stalls"]);
            let of_stream = [
                "address", "rate", "channels", "format", "ptime_ns", "latency", "stages",
                "counters", "clock",
            ];
            has(&report.0["streams"][0], &of_stream);
            has(report.stream("/latency"), &["configured_ns", "measured", "uncertainty_ns"]);
            has(report.stream("/latency/measured"), &SUMMARY);
            has(report.stream("/counters"), &COUNTERS);
            let stages = report.stream("/stages").as_array().unwrap();
            let names: Vec<&str> =
                stages.iter().map(|stage| stage["name"].as_str().unwrap()).collect();
            assert_eq!(names, STAGES[..if role == "send" { 3 } else { 8 }]);
            stages.iter().for_each(|stage| has(&stage["summary"], &SUMMARY));
            if role == "recv" {
                has(report.stream("/clock"), &["offset_ns", "uncertainty_ns", "rate_ppm"]);
            }
        }
        let received = scene.received("heard.wav");
        let begins = received.begins().unwrap();
        let played = received.frames() - begins;
        assert!(played > 48_000, "{played} frames were heard of 1.5 s");
        assert_eq!(received.samples[begins * 2..], sent.samples[..played * 2]);
    });
}

#[test]
fn receiver_joins_by_the_sdp_of_a_running_sender() {
    shared(|| {
        let scene = Scene::new();
        let sent = scene.noise("sent.wav", 2000, 1);
        let (address, onlooker) = (loopback(), Onlooker::new());
        let send = scene.send("sent.wav", &address).and(["--to", &onlooker.address()]);
        let send = send.and(["--sdp", "stream.sdp", "--payload-type", "101"]).start();
        // The description exists before the first packet.
        onlooker.see(1);
        let recv = scene.recv("stream.sdp", "");
        send.end().well();
        let report = recv.end().report();
        // It may move once, when the sender's clock becomes known, 400 ms before the first sound.
        assert_eq!((report.count("lost"), report.count("late")), (0, 0), "{:#}", report.0);
        let received = scene.received("heard.wav");
        let runs = runs(&received, &[&sent]);
        let longest =
            runs.iter().filter(|(owner, _)| owner.is_some()).map(|(_, count)| *count).max();
        // One piece from start to end, except for fades.
        let longest = longest.unwrap();
        assert!(longest > 24_000, "{runs:?}");
        let end = received
            .samples
            .windows(4)
            .rposition(|four| four == &sent.samples[sent.samples.len() - 4..]);
        let end = end.expect("the last frames are heard") + 4;
        assert_eq!(
            received.samples[end - longest * 2..end],
            sent.samples[sent.samples.len() - longest * 2..]
        );
    });
}

/// SSRC and packet count of each stream; none was missed.
#[track_caller]
fn senders(report: &Report) -> Vec<(String, u64, u64)> {
    let streams = report.0["streams"].as_array().unwrap();
    let sender = |index: usize| {
        let of = |pointer: &str| report.of_stream(index, pointer);
        for counter in ["lost", "late", "other_source", "over_stream_limit", "missing_frames"] {
            assert_eq!(of(&format!("/counters/{counter}")), 0, "{counter}: {:#}", report.0);
        }
        assert_eq!(of("/latency/basis"), "clock", "{:#}", report.0);
        let from = of("/sender/from").as_str().unwrap().to_owned();
        let packets = of("/counters/packets_received").as_u64().unwrap();
        (from, of("/sender/ssrc").as_u64().unwrap(), packets)
    };
    (0..streams.len()).map(sender).collect()
}

#[test]
fn two_senders_at_one_port_are_summed_and_both_reported() {
    shared(|| {
        let scene = Scene::new();
        let (early, late) = (scene.noise("early.wav", 1500, 1), scene.noise("late.wav", 400, 2));
        let (place, onlooker) = (loopback(), Onlooker::new());
        let recv = scene.recv(&format!("{place}?senders=all"), "");
        let first = scene.send("early.wav", &place).and(["--to", &onlooker.address()]).start();
        onlooker.see(300);
        let second = scene.send("late.wav", &place).run().report();
        let first = first.end().report();
        let report = recv.end().report();
        let received = scene.received("heard.wav");
        received.without(&early, received.begins().unwrap()).is_exactly(&late);
        let reported = senders(&report);
        assert_eq!(reported.len(), 2, "{:#}", report.0);
        assert_ne!((&reported[0].0, reported[0].1), (&reported[1].0, reported[1].1));
        for (sent, (_, _, packets)) in [first, second].iter().zip(&reported) {
            assert_eq!(sent.count("packets_sent"), *packets, "{:#}", report.0);
            let answered = sent.stream("/receivers").as_array().unwrap();
            assert_eq!(answered.len(), 1, "{:#}", sent.0);
        }
    });
}

#[test]
fn senders_beyond_the_limit_are_reported_with_a_hint() {
    shared(|| {
        let scene = Scene::new();
        let early = scene.noise("early.wav", 1500, 1);
        scene.noise("late.wav", 300, 2);
        let (place, onlooker) = (loopback(), Onlooker::new());
        let recv = scene.recv(&format!("{place}?senders=1"), "");
        let first = scene.send("early.wav", &place).and(["--to", &onlooker.address()]).start();
        onlooker.see(300);
        let second = scene.send("late.wav", &place).run().report();
        first.end().well();
        let report = recv.end().report();
        scene.received("heard.wav").is_exactly(&early);
        assert_eq!(report.0["streams"].as_array().unwrap().len(), 1, "{:#}", report.0);
        assert_eq!(
            report.count("over_stream_limit"),
            second.count("packets_sent"),
            "{:#}",
            report.0
        );
        let notes = report.0["notes"].to_string();
        assert!(notes.contains("?senders=2"), "{notes}");
    });
}
