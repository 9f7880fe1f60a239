//! Files that a run reads and writes: settings, packet logs, reports, pages.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde_json::{Value, json};
use tautline_trial::snapshot;

use crate::common::messages;
use crate::common::program::{Ended, call, taut, words};
use crate::common::report::Report;
use crate::common::sound::{Shape, Sound};
use crate::common::{Folder, Lack, loopback, skipped};
use crate::errors::is_refused;

#[test]
fn broken_settings_file_affects_only_commands_that_read_it() {
    let folder = Folder::new();
    std::fs::write(folder.file("tautline.toml"), "latency = = 5").unwrap();
    let pages = folder.file("pages");
    let pages = format!("man --out {}", pages.display());
    for line in [
        "--help",
        "-h",
        "--version",
        "help",
        "help send",
        "help --help",
        "lab help --help",
        "send --help",
        "recv -h",
        "demo --help",
        "devices",
        pages.as_str(),
    ] {
        let ended = taut(words(line)).in_folder(folder.path()).run().well();
        assert!(ended.messages.is_empty(), "{line}: {:#?}", ended.messages);
    }
    let join = taut(words("join missing.csv missing.csv")).in_folder(folder.path());
    is_refused(&join, 3);
    let send = taut(words("send --input null: --to rtp://127.0.0.1:5004"));
    is_refused(&send.in_folder(folder.path()), 2);
}

#[test]
fn join_rejects_packet_logs_of_two_runs() {
    let folder = Folder::new();
    let sent = "rtp_timestamp,capture,taken,packed,handed,due\n1,1,1,1,1,1\n";
    let received = |timestamp: u32| {
        let columns = "rtp_timestamp,handed,arrival,read,taken,written,dac,measured_ns";
        format!("{columns}\n{timestamp},1,1,1,1,1,1,1\n")
    };
    std::fs::write(folder.file("sent.csv"), sent).unwrap();
    for (file, timestamp) in [("same.csv", 1), ("other.csv", 2)] {
        std::fs::write(folder.file(file), received(timestamp)).unwrap();
    }
    let join = |file: &str| taut(["join", "sent.csv", file]).in_folder(folder.path());
    join("same.csv").run().well();
    is_refused(&join("other.csv"), 2);
}

#[test]
fn a_setting_of_the_demo_is_not_taken_for_one_of_the_pages() {
    let folder = Folder::new();
    std::fs::write(folder.file("tautline.toml"), "out = \"demo\"").unwrap();
    is_refused(&taut(words("man")).in_folder(folder.path()), 2);
}

#[test]
fn unwritable_file_is_refused_before_the_run() {
    let folder = Folder::new();
    for option in ["packet-log", "report-file"] {
        let path = folder.file("missing").join("x.json");
        // Without these errors it would run forever.
        let send = format!("send --input null: --to rtp://127.0.0.1:5004 --{option}");
        is_refused(&taut(words(&send)).and([&path]), 3);
        let recv = format!("recv --output null: --from {} --{option}", loopback());
        is_refused(&taut(words(&recv)).and([&path]), 3);
        is_refused(&taut(words(&send)).and([folder.path()]), 3);
    }
}

#[test]
fn non_utf8_file_name_is_sent_and_looped_to_the_end() {
    let folder = Folder::new();
    let name = OsStr::from_bytes(b"a\xff.wav");
    Sound::noise(Shape::STEREO_24, 10, 3).write(&folder.path().join(name));
    let send = "send --to rtp://127.0.0.1:5004 --loop --duration 500ms --report json --input";
    let send =
        taut(words(send)).and([[&b"file:"[..], name.as_bytes()].concat()].map(OsString::from_vec));
    let report = send.in_folder(folder.path()).run().report();
    assert!(report.count("packets_sent") > 100, "ten times what it holds, and more");
    is_refused(&taut(words("send --loop --input tone:440 --to rtp://127.0.0.1:5004")), 2);
}

#[test]
fn suffix_of_a_report_file_decides_its_format() {
    let folder = Folder::new();
    let send = "send --input null: --to rtp://127.0.0.1:5004 --duration 500ms --report text \
                --report-file r.json --report-file r.csv --report-file r.txt --report-file r.svg";
    let printed = taut(words(send)).in_folder(folder.path()).run().well().out;
    let read = |name: &str| std::fs::read_to_string(folder.file(name)).unwrap();
    let all = read("r.txt");
    assert!(printed.lines().take(3).eq(all.lines().take(3)), "{printed}");
    assert!(all.contains("  stage ") && !printed.contains("  stage "), "{printed}");
    let csv = read("r.csv");
    let table: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let at = table[0].iter().position(|name| *name == "counters.packets_sent").unwrap();
    let report = Report(serde_json::from_str(&read("r.json")).unwrap());
    assert_eq!(
        (table.len(), table[1][at]),
        (2, &*report.count("packets_sent").to_string()),
        "{csv}"
    );
    let svg = read("r.svg");
    assert!(svg.starts_with("<svg xmlns") && svg.contains(">capture<"), "{svg}");
    assert!(!svg.contains("class="), "its colours are its own: {svg}");
    // Fails before the run, which would be endless.
    for name in ["r.xml", "r"] {
        let line = format!("send --input null: --to rtp://127.0.0.1:5004 --report-file {name}");
        is_refused(&taut(words(&line)).in_folder(folder.path()), 2);
        assert!(!folder.file(name).exists());
    }
}

#[test]
fn html_report_file_equals_the_printed_page() {
    let folder = Folder::new();
    let send = "send --input null: --to rtp://127.0.0.1:5004 --duration 500ms --report html \
                --packet-log ledger.csv --report-file page.html --report-file report.json";
    let printed = taut(words(send)).in_folder(folder.path()).run().well().out;
    assert_eq!(std::fs::read_to_string(folder.file("page.html")).unwrap(), printed);
    assert!(printed.starts_with("<!DOCTYPE html>") && printed.ends_with("</html>\n"), "{printed}");
    assert!(printed.contains("taut send --input null:"), "it says how it was made: {printed}");
    assert!(printed.contains("Every value"), "the ledger's packets are in it: {printed}");
    let report = std::fs::read_to_string(folder.file("report.json")).unwrap();
    let report = Report(serde_json::from_str(&report).unwrap());
    assert!(report.count("packets_sent") > 0);
}

#[test]
fn comparison_of_two_reports_fails_on_a_regression() {
    let folder = Folder::new();
    let write = |name: &str, rows: Value| {
        let report = json!({"schema": 2, "experiment": "delay", "rows": rows});
        std::fs::write(folder.file(name), report.to_string()).unwrap();
    };
    let row = |name: &str, median: u32| {
        let seconds = vec![json!({"p50_ns": median, "p99_ns": null}); 20];
        json!([{"name": name, "intervals": seconds}])
    };
    write("a.json", row("one", 5_000_000));
    write("b.json", row("one", 5_100_000));
    write("gone.json", row("another", 5_000_000));
    write("short.json", json!([{"name": "one"}]));
    let compare =
        |files: &str| taut(words(&format!("lab compare {files}"))).in_folder(folder.path()).run();
    let same = compare("a.json a.json").well().out;
    snapshot!(same.lines().next().unwrap());
    let faster = compare("b.json a.json").well().out;
    snapshot!(faster.lines().next().unwrap());
    // A row with a missing or short measurement proves nothing.
    for (files, status) in
        [("a.json b.json", 1), ("a.json gone.json", 1), ("short.json short.json", 5)]
    {
        let ended = compare(files);
        assert_eq!((ended.status, ended.messages.len()), (Some(status), 0), "{ended:#?}");
        let begins: Vec<_> = ended.out.lines().take_while(|line| !line.is_empty()).collect();
        snapshot!(files, begins.join("\n"));
        let unseen = compare(&format!("{files} --report none"));
        assert_eq!(unseen.status, Some(status), "{unseen:#?}");
        snapshot!(format!("{files} --report none"), unseen.messages.join("\n"));
    }
    std::fs::write(folder.file("c.json"), "{\"streams\": []}").unwrap();
    let other = taut(words("lab compare a.json c.json")).in_folder(folder.path());
    is_refused(&other, 2);
    std::fs::write(folder.file("d.csv"), "role,address\nrecv,x\n").unwrap();
    is_refused(&taut(words("lab compare d.csv a.json")).in_folder(folder.path()), 2);
    let none = taut(words("lab compare a.json none.json")).in_folder(folder.path());
    is_refused(&none, 3);
}

#[test]
fn reports_of_different_commands_are_not_compared() {
    let folder = Folder::new();
    let write = |role: &str| {
        let stream = json!({"address": "rtp://127.0.0.1:5004", "counters": {
            "packets_sent": 900, "packets_received": 900,
        }});
        let report = json!({"schema": 2, "role": role, "streams": [stream]});
        std::fs::write(folder.file(&format!("{role}.json")), report.to_string()).unwrap();
    };
    ["recv", "send", "serve", "call"].into_iter().for_each(write);
    for (first, second) in [("recv", "send"), ("send", "recv"), ("call", "serve")] {
        let line = format!("lab compare {first}.json {second}.json");
        is_refused(&taut(words(&line)).in_folder(folder.path()), 5);
    }
    let same = taut(words("lab compare send.json send.json")).in_folder(folder.path());
    same.run().well();
}

#[test]
fn pages_start_with_required_options_and_keep_example_lines() {
    let folder = Folder::new();
    for command in ["man", "completions"] {
        taut(words(&format!("{command} --out ."))).in_folder(folder.path()).run().well();
    }
    assert!(folder.file("_taut").exists());
    let page = |name: &str| std::fs::read_to_string(folder.file(name)).unwrap();
    assert!(page("taut.1").contains("taut\\-compare(1)"), "{}", page("taut.1"));
    for name in ["taut.1", "taut-send.1", "taut-recv.1", "taut-demo.1", "taut-compare.1"] {
        let page = page(name);
        let examples = page.split(".SH EXAMPLES AND NOTES\n.nf\n").nth(1);
        assert!(examples.is_some_and(|text| text.contains("\n  taut ")), "{name}: {page}");
        assert!(!page.contains(".SH EXTRA"), "{name}");
    }
    for (name, begins) in [
        ("taut-send.1", "\\fBtaut send\\fR \\-\\-input DEVICE \\-\\-to ADDRESS... ["),
        ("taut-compare.1", "\\fBtaut compare\\fR SENT RECEIVED"),
        ("taut.1", "\\fBtaut\\fR [\\-\\-help] [\\-\\-version] COMMAND ..."),
    ] {
        let page = page(name);
        let synopsis = page.split(".SH SYNOPSIS\n").nth(1).unwrap_or("");
        assert!(synopsis.starts_with(begins), "{name}: {synopsis}");
    }
}

fn command_for(folder: &Folder, input: &str, options: &str) -> String {
    let send = format!("send --to rtp://127.0.0.1:5004 --input file:{input} {options}");
    let ended = taut(words(&send)).in_folder(folder.path()).run();
    assert_eq!((ended.status, ended.messages.len()), (Some(3), 1), "{ended:#?}");
    let (_, command) = ended.messages[0].split_once(messages::CONVERT).expect("a command");
    command.to_owned()
}

fn is_converted(folder: &Folder, input: &str, options: &str) -> Report {
    let command = command_for(folder, input, options);
    call("sh", ["-c", &command]).in_folder(folder.path()).run().well();
    let made = command.rsplit(' ').next().unwrap();
    let send = format!("send --to rtp://127.0.0.1:5004 --input file:{made} --duration 50ms");
    taut(words(&format!("{send} {options} --report json"))).in_folder(folder.path()).run().report()
}

#[test]
fn printed_command_converts_files_that_cannot_be_sent() {
    let there = |program: &str| std::process::Command::new(program).arg("--version").output();
    if there("sox").is_err() || there("ffmpeg").is_err() {
        return skipped(Lack::Package, "there is no sox or no ffmpeg");
    }
    let folder = Folder::new();
    let make = |line: &str| call("ffmpeg", words(line)).in_folder(folder.path()).run().well();
    let noise = "-v error -f lavfi -i anoisesrc=r=12000:d=0.5 -ac 1";
    make(&format!("{noise} -c:a pcm_s32le many.wav"));
    make(&format!("{noise} -c:a pcm_f64le floats.wav"));
    make(&format!("{noise} -c:a libmp3lame -ar 22050 song.mp3"));
    for (input, options, rate, channels) in [
        ("many.wav", "", 48_000, 1),
        ("many.wav", "--rate 44100 --channels 2", 44_100, 2),
        ("floats.wav", "--channels 2", 48_000, 2),
        ("song.mp3", "", 48_000, 1),
        ("song.mp3", "--rate 44100 --channels 2", 44_100, 2),
    ] {
        let report = is_converted(&folder, input, options);
        assert_eq!(report.nanos("/rate"), rate, "{input} {options}");
        assert_eq!(report.nanos("/channels"), channels, "{input} {options}");
        for made in std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path()) {
            let name = made.file_stem().unwrap().to_string_lossy().into_owned();
            if name.contains('-') {
                std::fs::remove_file(made).unwrap();
            }
        }
    }
}

#[test]
fn make_finds_cargos_output_in_any_target_folder() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let elsewhere = ["-n", "-C", root, "CARGO_TARGET_DIR=/elsewhere", "demo", "install"];
    if std::process::Command::new("make").arg("--version").output().is_err() {
        return skipped(Lack::Package, "there is no make");
    }
    let messages = call("make", elsewhere).run().well().out;
    assert!(messages.contains("\n/elsewhere/release/taut demo\n"), "{messages}");
    let inside = messages.split_whitespace().find(|word| word.starts_with("target/"));
    assert_eq!(inside, None, "{messages}");
}

fn compared(sent: &Sound, received: &Sound) -> Ended {
    let folder = Folder::new();
    sent.write(&folder.file("sent.wav"));
    received.write(&folder.file("heard.wav"));
    taut(words("compare sent.wav heard.wav")).in_folder(folder.path()).run()
}

#[test]
fn a_comparison_is_printed_for_programs_or_not_at_all() {
    let folder = Folder::new();
    let sent = Sound::noise(Shape::STEREO_24, 1000, 3);
    sent.write(&folder.file("sent.wav"));
    let swapped = sent.samples.chunks_exact(2).flat_map(|frame| [frame[1], frame[0]]).collect();
    Sound { shape: sent.shape, samples: swapped }.write(&folder.file("heard.wav"));
    let run = |kind: &str| {
        let line = format!("compare sent.wav heard.wav --report {kind}");
        taut(words(&line)).in_folder(folder.path()).run()
    };
    let ended = run("json");
    assert_eq!(ended.status, Some(1), "{ended:#?}");
    let report = ended.json();
    assert_eq!(report["verdict"], "differs", "{report}");
    assert_eq!(report["channels"][0]["sources"], serde_json::json!([1, 0]), "{report}");
    assert_eq!(report["identical_frames"], sent.frames(), "{report}");
    let ended = run("none");
    assert_eq!((ended.status, ended.out.as_str()), (Some(1), ""), "{ended:#?}");
}

#[test]
fn comparison_of_a_sine_without_onset_is_left_open() {
    let sample = |at: usize| {
        let turn = std::f64::consts::TAU * (at % 160) as f64 / 160.0;
        (4e6 * turn.sin()).round() as i32
    };
    let shape = Shape { channels: 1, ..Shape::STEREO_24 };
    let sine =
        |frames: std::ops::Range<usize>| Sound { shape, samples: frames.map(sample).collect() };
    let folder = Folder::new();
    sine(0..96_000).write(&folder.file("sent.wav"));
    sine(20_010..60_010).write(&folder.file("heard.wav"));
    let run = |kind: &str| {
        let line = format!("compare sent.wav heard.wav --report {kind}");
        taut(words(&line)).in_folder(folder.path()).run()
    };
    let ended = run("json");
    assert_eq!(ended.status, Some(5), "{ended:#?}");
    let report = ended.json();
    assert_eq!(report["verdict"], "ambiguous", "{report}");
    assert_eq!(report["ambiguous_modulo_frames"], 160.0, "{report}");
    assert_eq!(report["begins_at_frame"], -10, "{report}");
    assert_eq!(report["missed_first_frames"], Value::Null, "{report}");
    snapshot!(run("none").messages.join("\n"));
}

#[test]
fn files_of_other_channels_are_refused() {
    let sent = Sound::noise(Shape::STEREO_24, 100, 3);
    let mono = Sound::noise(Shape { channels: 1, ..sent.shape }, 100, 3);
    for (sent, received) in [(&sent, &mono), (&mono, &sent)] {
        let ended = compared(sent, received);
        assert_eq!(ended.status, Some(2), "{ended:#?}");
        snapshot!(format!("{} channels", received.shape.channels), ended.last());
    }
}
