//! Changes during a run: no click, no gap, and the new state in the report.

use std::path::Path;

use serde_json::Value;

use crate::common::messages;
use crate::common::program::{Call, Running, taut, words};
use crate::common::report::Report;
use crate::common::sound::Sound;
use crate::common::{Folder, Onlooker, PATIENT, loopback, shared};

/// −18 dBFS.
const PEAK: f64 = 0.125_892_54;
const HERTZ: f64 = 440.0;

struct Tone(Vec<f64>);

const ENDING: usize = 4_800;

impl Tone {
    fn read(path: &Path) -> Self {
        let sound = Sound::read(path);
        let samples: Vec<i32> = (0..sound.frames()).map(|at| sound.frame(at)[0]).collect();
        let begins = samples.iter().position(|sample| *sample != 0).expect("sound");
        let ends = samples.iter().rposition(|sample| *sample != 0).expect("sound") - ENDING;
        let full = 8_388_608.0;
        Self(samples[begins..ends].iter().map(|sample| f64::from(*sample) / full).collect())
    }

    /// Maximum second difference, as a multiple of that of a tone of [`PEAK`], with its position
    /// and the number of frames.
    fn sharpest(&self, hertz: f64) -> (f64, usize, usize) {
        let own = PEAK * (core::f64::consts::TAU * hertz / 48_000.0).powi(2);
        let bends = self.0.windows(3).map(|three| (three[0] - 2.0 * three[1] + three[2]).abs());
        let (at, maximum) = bends.enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).expect("sound");
        (maximum / own, at, self.0.len())
    }

    /// In pieces of 3 ms: more than a period of 440 Hz.
    fn peaks(&self) -> impl Iterator<Item = f64> + '_ {
        self.0
            .chunks_exact(144)
            .map(|piece| piece.iter().fold(0.0, |maximum, s| s.abs().max(maximum)))
    }

    fn softest(&self) -> f64 {
        self.peaks().fold(1.0, f64::min)
    }
}

fn call(folder: &Folder, line: &str) -> Call {
    taut(words(line)).and(PATIENT).in_folder(folder.path())
}

fn recv(folder: &Folder, from: &str, options: &str) -> Running {
    let line = format!("recv --from {from} --output file:heard.wav --report json {options}");
    call(folder, &line).controlled().start().listening()
}

fn send(folder: &Folder, hertz: u32, to: &str) -> Running {
    let line = format!("send --input tone:{hertz} --to {to} --report json");
    call(folder, &line).controlled().start()
}

fn word<'a>(report: &'a Report, pointer: &str) -> &'a str {
    report.stream(pointer).as_str().expect("a word")
}

#[test]
fn every_change_of_a_stream_is_free_of_clicks_and_gaps() {
    shared(|| {
        let (folder, address, onlooker) = (Folder::new(), loopback(), Onlooker::new());
        let mut recv = recv(&folder, &address, "--exit-on-bye");
        let to = format!("{address} --to {}", onlooker.address());
        let mut send = send(&folder, 440, &to).request("status", "ptime 1ms, format l24");
        let changes = [
            "ptime 2ms",
            "format l16",
            "ptime 10ms",
            "redundancy red:1",
            "format f32",
            "ptime 125us",
            "volume -6dB",
            "redundancy off",
            "volume 0dB",
            "latency 450ms",
            "ptime 1.5ms",
            "format l24",
        ];
        onlooker.handle(400);
        for line in changes {
            send = send.request(line, &format!("ok {line}"));
            // Longer packets are announced 600 ms in advance.
            onlooker.handle(if line.starts_with("ptime") { 900 } else { 300 });
        }
        for line in ["volume -3dB", "volume 0dB"] {
            recv = recv.request(line, &format!("ok {line}"));
            onlooker.handle(300);
        }
        recv = recv.request("status", "latency 400ms");
        let sent = send.request("quit", "ok quit").end().report();
        let received = recv.end().report();
        assert_eq!(received.missed(), 0, "{:#}", received.0);
        assert_eq!((received.count("lost"), received.count("resyncs")), (0, 0), "{:#}", received.0);
        assert_eq!(received.count("missing_frames"), 0, "{:#}", received.0);
        for report in [&sent, &received] {
            assert_eq!(word(report, "/format"), "l24");
            assert_eq!(report.nanos("/ptime_ns"), 1_500_000);
        }
        assert_eq!(sent.nanos("/latency/configured_ns"), 450_000_000);
        let reported = sent.notes().iter().any(|note| note.contains(messages::SAME_PAYLOAD_TYPE));
        assert!(
            reported,
            "receivers with a description would refuse the new coding: {:#?}",
            sent.notes()
        );
        let tone = Tone::read(&folder.file("heard.wav"));
        // A volume change adds a tenth. At 16 bits, rounding and dither add a second difference of
        // up to 6 steps, 0.44 of the tone's.
        let (sharpest, softest) = (tone.sharpest(HERTZ), tone.softest() / PEAK);
        assert!(sharpest.0 < 1.55, "a click: bends {sharpest:?} times as sharply as the tone");
        assert!(softest > 0.49, "a gap: {softest} of the peak, and -6 dB are 0.5");
    });
}

#[test]
fn receiver_follows_a_newly_announced_latency() {
    shared(|| {
        let (folder, address, onlooker) = (Folder::new(), loopback(), Onlooker::new());
        let line = format!(
            "recv --from {address} --output file:heard.wav --report json --exit-on-bye --period 240 \
         --periods 32 --no-stall-monitor"
        );
        let recv = taut(words(&line)).in_folder(folder.path()).controlled().start().listening();
        let send = send(&folder, 440, &format!("{address} --to {}", onlooker.address()));
        onlooker.handle(1000);
        let recv = recv.becomes(|status| status.contains("latency 400ms"));
        let send = send.request("latency 300ms", "ok latency 300ms");
        onlooker.handle(300);
        let recv = recv.becomes(|status| status.contains("latency 300ms"));
        let recv = recv.request("latency 430ms", "ok latency 430ms");
        let recv = recv.request("latency announced", "ok latency 300ms");
        // The device takes 160 ms, a packet 20 ms, and the network 1 ms, so the receiver raises
        // 170 ms to 181 ms, before the first longer packet.
        let send = send.request("latency 170ms", "ok latency 170ms");
        onlooker.handle(300);
        let recv = recv.becomes(|status| status.contains("latency 170ms"));
        let send = send.request("ptime 20ms", "ok ptime 20ms");
        onlooker.handle(1200);
        let recv = recv.becomes(|status| status.contains("latency 181ms"));
        let sent = send.request("quit", "ok quit").end().report();
        let received = recv.end().report();
        assert_eq!(sent.nanos("/ptime_ns"), 20_000_000);
        assert_eq!(received.nanos("/ptime_ns"), 20_000_000);
        assert_eq!(received.nanos("/latency/configured_ns"), 181_000_000, "{:#}", received.0);
        // The last millisecond is for the network.
        assert_eq!(received.count("lost"), 0, "{:#}", received.0);
        assert!(50 * received.missed() <= received.count("packets_received"), "{:#}", received.0);
    });
}

#[test]
fn destinations_change_gapless_and_removed_ones_get_a_goodbye() {
    shared(|| {
        let (folder, other) = (Folder::new(), Folder::new());
        let (address, onlooker) = (loopback(), Onlooker::new());
        let first = recv(&folder, &address, "--exit-on-bye");
        let second_address = loopback();
        let second = recv(&other, &second_address, "--exit-on-bye");
        let send = send(&folder, 440, &format!("{address} --to {}", onlooker.address()));
        onlooker.handle(500);
        let all = [&address[..], &onlooker.address(), &second_address].join(",");
        let send = send.request(&format!("to {all}"), &format!("ok to {}", all.replace(',', " ")));
        onlooker.handle(500);
        let send = send.request(&format!("to {},{second_address}", onlooker.address()), "ok to ");
        let received = first.end().report();
        assert_eq!(received.missed() + received.count("lost"), 0, "{:#}", received.0);
        onlooker.handle(500);
        let sent = send.request("quit", "ok quit").end().report();
        assert!(word(&sent, "/address").ends_with(&second_address));
        let received = second.end().report();
        assert_eq!(received.missed() + received.count("lost"), 0, "{:#}", received.0);
        for folder in [&folder, &other] {
            let tone = Tone::read(&folder.file("heard.wav"));
            let (sharpest, softest) = (tone.sharpest(HERTZ), tone.softest() / PEAK);
            assert!(
                sharpest.0 < 1.25 && softest > 0.99,
                "{sharpest:?}, {softest}, {:?}",
                folder.path()
            );
        }
    });
}

#[test]
fn another_address_is_crossed_over_to_when_its_sound_is_there() {
    shared(|| {
        let (folder, onlooker) = (Folder::new(), Onlooker::new());
        let (here, there) = (loopback(), loopback());
        let recv = recv(&folder, &here, "--exit-on-bye");
        let first = send(&folder, 440, &format!("{here} --to {}", onlooker.address()));
        onlooker.handle(1000);
        let silent = format!("to {here}");
        let first = first.request(&silent, &format!("ok {silent}"));
        let recv = recv.request(&format!("from {there}"), messages::CHANGE_IS_LATE);
        let second = send(&folder, 660, &format!("{there} --to {}", onlooker.address()));
        onlooker.handle(1500);
        first.request("quit", "ok quit").end().report();
        onlooker.handle(500);
        let recv = recv.becomes(|status| status.contains(&format!("from {there}")));
        second.request("quit", "ok quit").end().report();
        let received = recv.end().report();
        assert_eq!(received.of_stream(0, "/address"), &Value::from(there), "{:#}", received.0);
        assert_eq!(received.of_stream(1, "/address"), &Value::from(here), "{:#}", received.0);
        let tone = Tone::read(&folder.file("heard.wav"));
        let (sharpest, softest) = (tone.sharpest(660.0), tone.softest() / PEAK);
        assert!(
            sharpest.0 < 1.25,
            "a click: bends {sharpest:?} times as sharply as the sharper tone"
        );
        // In mid cross-fade, two tones of half the level beat.
        assert!(softest > 0.1, "a gap: {softest} of the peak");
        let silent = tone.0.chunk_by(|a, b| (*a == 0.0) == (*b == 0.0)).filter(|run| run[0] == 0.0);
        assert!(silent.map(<[f64]>::len).max().unwrap_or(0) < 3, "a gap of digital silence");
    });
}

#[test]
fn left_address_can_return_and_a_pending_one_is_shown() {
    shared(|| {
        let (folder, onlooker) = (Folder::new(), Onlooker::new());
        let (here, there, nowhere) = (loopback(), loopback(), loopback());
        let mut recv = recv(&folder, &here, "");
        let send = send(&folder, 440, &format!("{here} --to {there} --to {}", onlooker.address()));
        onlooker.handle(1000);
        for address in [&there, &here, &there] {
            recv = recv.request(&format!("from {nowhere}"), &format!("ok from {nowhere}"));
            onlooker.handle(100);
            recv = recv.becomes(|status| status.contains(&format!(", waiting for {nowhere}")));
            recv = recv.request(&format!("from {address}"), &format!("ok from {address}"));
            onlooker.handle(1500);
            recv = recv.becomes(|status| status.ends_with(&format!("from {address}")));
        }
        recv = recv.request("latency auto", "ok latency ");
        recv = recv.becomes(|status| status.contains("latency auto, now "));
        recv.request("quit", "ok quit").end().report();
        send.request("quit", "ok quit").end().report();
    });
}

#[test]
fn opus_is_tuned_otherwise_at_the_bitrate_that_was_given() {
    shared(|| {
        let folder = Folder::new();
        let line = format!(
            "send --input tone:440 --to {} --format opus --ptime 10ms --bitrate 128k --report json",
            loopback()
        );
        let send = call(&folder, &line).controlled().start();
        let send = send.request("format opus-voice", "ok format opus-voice");
        let send = send.request("format lossless16", "ok format lossless16");
        let send = send.request("format opus", "ok format opus");
        send.request("quit", "ok quit").end().report();
    });
}

#[test]
fn invalid_line_is_answered_with_a_hint_and_changes_nothing() {
    shared(|| {
        let folder = Folder::new();
        let address = loopback();
        let recv = recv(&folder, &address, "--exit-on-bye");
        let mut send = send(&folder, 440, &address).request("status", "ok status");
        let before =
            "ok status latency 400ms, ptime 1ms, format l24, redundancy off, volume 0dB, to";
        for line in [
            "louder",
            "ptime 50ms",
            "ptime",
            "latency 1ms",
            "latency",
            "latency -5ms",
            "format l20",
            "volume 90dB",
            "mute now",
            "to",
            "to 127.0.0.1:5004",
            "to rtp://[::1]:5004",
            "to rtp://239.1.2.3:5004?ttl=9",
        ] {
            send = send.refuses(line).request("status", before);
        }
        let mut recv = recv;
        for line in [
            "ptime 2ms",
            "latency 1us",
            "latency",
            "latency 90s",
            "latency soon",
            "volume 2 -6dB",
            &format!("from {address}")[..],
        ] {
            recv = recv.refuses(line);
        }
        send.request("quit", "ok quit").end().report();
        recv.end().report();
    });
}

#[test]
fn the_end_of_standard_input_ends_the_control_and_not_the_run() {
    shared(|| {
        let folder = Folder::new();
        let line = "send --input tone:440 --to rtp://127.0.0.1:9 --duration 1s --report json";
        let send = call(&folder, line).controlled().start().request("mute", "ok volume 0dB muted");
        let report = send.no_more_lines().end().report();
        assert_eq!(report.0["duration_ns"].as_i64().map(|nanos| nanos / 1_000_000_000), Some(1));
    });
}
