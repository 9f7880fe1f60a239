//! Impossible requests get an error and a hint; broken input does not end the program.

mod files;

use std::path::PathBuf;

use crate::common::messages;
use crate::common::network::Cable;
use crate::common::program::{Call, Ended, taut, words};
use tautline_trial::snapshot;

use crate::common::{Folder, free_udp_ports, loopback, shared};

/// Asserts an exit with `status` and only one error, compared with the snapshot.
#[track_caller]
pub(crate) fn is_refused(call: &Call, status: i32) -> String {
    refused(&call.line(), call, status)
}

#[track_caller]
pub(crate) fn is_refused_when(situation: &str, call: &Call, status: i32) -> String {
    refused(&format!("{situation}: {}", call.line()), call, status)
}

#[track_caller]
fn refused(key: &str, call: &Call, status: i32) -> String {
    let ended = call.run();
    assert_eq!(ended.status, Some(status), "{ended:#?}");
    assert_eq!(ended.out, "");
    let [message] = ended.messages.as_slice() else { panic!("not one message: {ended:#?}") };
    assert!(message.starts_with("error: "), "{message:?}");
    snapshot!(key, message);
    message.clone()
}

fn send(folder: &Folder, options: &str) -> Call {
    let line = format!("send --to rtp://127.0.0.1:5004 {options}");
    taut(words(&line)).in_folder(folder.path())
}

fn recv(folder: &Folder, options: &str) -> Call {
    taut(words("recv")).and(words(options)).in_folder(folder.path())
}

#[test]
fn a_network_that_is_not_there_is_answered_with_how_to_look() {
    let Some(cable) = Cable::lay() else { return };
    let call = taut(words("send --input tone:440 --to rtp://203.0.113.9:5004"));
    is_refused(&call.within(&cable.left), 3);
    let call = taut(words("recv --output null: --from rtp://10.77.0.2:5004"));
    is_refused(&call.within(&cable.left), 3);
    let call = taut(words("send --input tone:440 --to rtp://no-such-host.invalid:5004"));
    is_refused(&call.within(&cable.left), 3);
}

#[test]
fn the_latency_that_an_error_names_works() {
    let folder = Folder::new();
    for (ptime, period) in [("1ms", 48), ("5ms", 48), ("125us", 12), ("20ms", 240)] {
        let with = |latency: &str| {
            let timing = format!("--ptime {ptime} --period {period} --latency {latency}");
            let from = format!("rtp://127.0.0.1:{}", free_udp_ports());
            recv(&folder, &format!("--from {from} --output null: --duration 1ms {timing}"))
        };
        let refused = with("1us").run();
        let line = refused.messages.concat();
        let named = line.split("--latency ").nth(2).and_then(|rest| rest.split(' ').next());
        let ended = with(named.unwrap_or_else(|| panic!("{line}"))).run();
        assert_eq!(ended.status, Some(1), "{ended:#?}");
        assert!(ended.messages.concat().contains(messages::NOTHING_RECEIVED), "{ended:#?}");
    }
}

#[test]
fn packets_longer_than_the_path_mtu_are_refused_or_warned_of() {
    let Some(cable) = Cable::lay() else { return };
    let send = "send --input tone:440 --to rtp://10.77.0.2:5004 --ptime 20ms --duration 50ms";
    let never = taut(words(send)).and(["--fragment", "never"]).within(&cable.left);
    is_refused(&never, 2);
    let ended = taut(words(send)).within(&cable.left).run().well();
    let [line] = ended.messages.as_slice() else { panic!("{:#?}", ended.messages) };
    // 960 frames of 6 bytes with headers of RTP, its extension, UDP and IP: 4 fragments of 1480.
    assert!(line.contains(" 4 "), "{line}");
    let named = line.split("--ptime ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let shorter = taut(words(send).into_iter().map(|word| match word.as_str() {
        "20ms" => named.to_owned(),
        _ => word,
    }));
    shorter.and(["--fragment", "never"]).within(&cable.left).run().well();
}

#[test]
fn descriptions_that_are_none_are_refused_however_long() {
    let folder = Folder::new();
    let big = "v=0\r\n".to_owned() + &"a=x:y\r\n".repeat(150_000);
    std::fs::write(folder.file("big.sdp"), big).unwrap();
    std::fs::write(folder.file("prose.sdp"), "Once upon a time").unwrap();
    let from = |name: &str| recv(&folder, &format!("--from {name} --output null:"));
    is_refused(&from("big.sdp"), 3);
    is_refused(&from("prose.sdp"), 3);
    is_refused(&from("missing.sdp"), 3);
}

#[test]
fn a_setting_that_cannot_be_is_refused_with_its_file_and_place() {
    let folder = Folder::new();
    let cases = [
        "latencyy = \"5ms\"",
        "[send]\noutput = \"null:\"",
        "[sned]\nlatency = \"5ms\"",
        "# first\nlatency = = 5",
        "latency = 5.5",
        "latency = 5",
        "[send]\nptime = \"x\"",
        "to = [\"nowhere\"]",
    ];
    for text in cases {
        std::fs::write(folder.file("tautline.toml"), text).unwrap();
        let call = taut(words("send --input tone:440")).in_folder(folder.path());
        is_refused_when(text, &call, 2);
    }
    std::fs::write(folder.file("tautline.toml"), "latency = \"5ms\"").unwrap();
    let call = send(&folder, "--input tone:440 --latency 5");
    is_refused(&call, 2);
}

#[test]
fn delay_between_unconnected_devices_is_reported() {
    let line = "lab delay --output null: --input null: --scheduler other --settle 10ms \
                --duration 100ms --report none";
    is_refused(&taut(words(line)), 1);
}

#[test]
fn delay_to_a_missing_device_is_refused_with_a_hint() {
    let line = "lab delay --output null: --input alsa:hw:NoSuchCard";
    is_refused(&taut(words(line)), 3);
}

#[test]
fn six_channels_on_a_stereo_card_are_refused_with_a_map() {
    shared(|| {
        let folder = Folder::new();
        let conf = "pcm.pair { type multi slaves.a { pcm { type null } channels 2 } \
                bindings [ { slave a channel 0 } { slave a channel 1 } ] }\n";
        std::fs::write(folder.file("asound.conf"), conf).unwrap();
        let address = loopback();
        let send = format!("send --input tone:440 --channels 6 --to {address} --report none");
        let _sender = taut(words(&send)).start();
        let recv = |options: &str| {
            recv(&folder, &format!("--from {address} --output alsa:pair --report none {options}"))
                .with("ALSA_CONFIG_PATH", folder.file("asound.conf"))
                .run()
        };
        let last = |ended: &Ended| ended.messages.last().cloned().unwrap_or_default();
        let refused = recv("");
        assert_eq!(refused.status, Some(3), "{refused:#?}");
        for part in ["it has 2 channels, not 6", "add --map 1,2, or use alsa:plug:pair"] {
            assert!(last(&refused).contains(part), "{refused:#?}");
        }
        let refused = recv("--channels 2");
        assert_eq!(refused.status, Some(2), "{refused:#?}");
        let advice = "--channels 2, but the stream has 6 channels\nhint: leave --channels out";
        assert!(last(&refused).contains(advice), "{refused:#?}");
        // Until the format is known, the wait is part of the run.
        recv("--map 1,2 --duration 2s").well();
        recv("--map 6,- --duration 2s").well();
    });
}

const VERBS: [&str; 29] = [
    "use", "give", "set", "remove", "choose", "check", "name", "write", "start", "install", "call",
    "convert", "free", "repeat", "build", "wait", "connect", "see", "add", "make", "run", "try",
    "leave", "put", "end", "stop", "measure", "raise", "pass",
];

fn contains_fix(line: &str) -> bool {
    let begins = |part: &str, verb: &str| {
        part.strip_prefix(verb).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    };
    line.split("; ").skip(1).any(|part| VERBS.iter().any(|verb| begins(part, verb)))
}

#[test]
fn recorded_errors_have_their_fix_on_a_hint_line() {
    assert!(contains_fix("error: no x; write y") && !contains_fix("error: no x; y is z"));
    let mut folders = vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/snapshots"))];
    let (mut errors, mut wrong) = (0, Vec::new());
    while let Some(folder) = folders.pop() {
        for path in folder.read_dir().unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "txt") {
                let text = std::fs::read_to_string(&path).unwrap();
                for line in text.lines().filter(|line| line.starts_with("    error: ")) {
                    errors += 1;
                    if contains_fix(line) {
                        wrong.push(format!("{}: {}", path.display(), line.trim_start()));
                    }
                }
            }
        }
    }
    assert!(errors > 100, "only {errors} errors in the snapshots");
    assert!(wrong.is_empty(), "write \\nhint: before the fix\n{}", wrong.join("\n"));
}
