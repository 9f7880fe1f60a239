//! Output during a run, also without a report; and readers that leave.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::common::messages;
use crate::common::program::{ordinary, taut, words};
use crate::common::{Folder, PATIENT, free_udp_ports, loopback, shared, sounding_at};

/// Exit status and standard error, without a reader of standard output.
fn unread(folder: &Folder, line: &str) -> (Option<i32>, String) {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = Command::new(env!("CARGO_BIN_EXE_taut"))
        .args(words(line))
        .current_dir(folder.path())
        .env("HOME", "/nonexistent")
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn closed_output_pipe_ends_the_program_successfully() {
    let folder = Folder::new();
    let send = "send --input null: --to rtp://127.0.0.1:5004 --duration 50ms";
    let line = format!("{send} --packet-log sent.csv");
    taut(words(&line)).in_folder(folder.path()).run().well();
    // A sender's ledger has no columns of a receiver.
    let received = "rtp_timestamp,handed,arrival,read,taken,written,dac,measured_ns\n";
    std::fs::write(folder.file("heard.csv"), received).unwrap();
    let report = format!("{send} --report-file report.json");
    for line in [
        "devices",
        "--help",
        "send --help",
        "--version",
        "join sent.csv heard.csv",
        &report,
        &format!("{send} --report json"),
    ] {
        let (status, messages) = unread(&folder, line);
        assert_eq!(status, Some(0), "{line}: {messages}");
        assert!(!messages.contains("panicked"), "{line}: {messages}");
    }
    let written = std::fs::read_to_string(folder.file("report.json")).unwrap();
    assert!(written.ends_with("}\n"), "{written}");
}

#[test]
fn run_continues_with_unread_output() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let recv = format!("recv --output null: --from {} --duration 50ms --report json", loopback());
    let mut taut = Command::new(env!("CARGO_BIN_EXE_taut"));
    let output = taut.args(words(&recv)).current_dir("/").stderr(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "nothing came");
    assert!(output.stdout.ends_with(b"}\n"));
}

const LACKS: &str = "taut: no real-time priority, no locked memory: sound may drop out under load; \
                     `taut doctor` shows how to allow it";
const EACH: [&str; 3] =
    ["memory is not locked", "stall monitor has no real-time", "thread runs as other"];

#[test]
fn missing_privileges_are_reported_once_in_one_line() {
    let address = loopback();
    let _send = sounding_at(&address);
    let recv = format!("recv --rate 48000 --channels 2 --output null: --from {address}");
    for line in ["send --input null: --to rtp://127.0.0.1:5004", &recv] {
        let Some(text) = ordinary(&format!("{line} --duration 1s")) else { return };
        let ended = text.run().well();
        let messages = ended.messages.iter().filter(|line| line.as_str() == LACKS).count();
        assert_eq!(messages, 1, "{ended:#?}");
        let all = ended.messages.concat() + &ended.out.replace("no receiver", "");
        for sentence in EACH {
            assert!(!all.contains(sentence), "{sentence}: {ended:#?}");
        }
        // Packets that are late for lack of priority may have this fix.
        let other = |line: &&str| !line.starts_with("fix: ");
        assert!(
            !ended.out.lines().filter(other).any(|line| line.contains("priority")),
            "{ended:#?}"
        );
        let json = ordinary(&format!("{line} --duration 1s --report json")).unwrap();
        let report = json.run().report();
        let refused = &report.0["host"]["refused"];
        for (field, sentence) in
            ["locked_memory", "stall_monitor_priority", "priority"].iter().zip(EACH)
        {
            let reported = refused[field].as_str().unwrap_or_default();
            assert!(reported.contains(sentence), "{field} in {:#}", report.0);
            assert!(!report.notes().contains(&reported), "{:#}", report.0);
        }
        // With a quiet standard error, it is in the report.
        let quiet = ordinary(&format!("{line} --duration 1s --quiet --report text"));
        let ended = quiet.unwrap().run().well();
        assert!(ended.messages.is_empty(), "{ended:#?}");
        let note = LACKS.replace("taut: ", "note: ");
        assert_eq!(ended.out.matches(&note).count(), 1, "{ended:#?}");
    }
    // Prints it immediately, because the run has no end.
    let send = ordinary("send --input null: --to rtp://127.0.0.1:5004 --report none").unwrap();
    drop(send.start().wait_for(LACKS));
}

#[test]
fn demo_reports_a_missing_permission_once() {
    let folder = Folder::new();
    let out = folder.file("demo");
    std::fs::create_dir(&out).unwrap();
    for path in [folder.path(), &out] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o777)).unwrap();
    }
    let Some(demo) = ordinary(&format!("demo --duration 1s --out {}", out.display())) else {
        return;
    };
    let ended = demo.run();
    let messages = ended.messages.iter().filter(|line| line.as_str() == LACKS).count();
    assert_eq!(messages, 1, "{ended:#?}");
    for sentence in EACH {
        assert!(!ended.out.contains(sentence), "{sentence}: {ended:#?}");
    }
    for name in ["sender", "receiver-1", "receiver-2"] {
        let report = std::fs::read_to_string(out.join(format!("{name}.json"))).unwrap();
        assert!(EACH.iter().all(|sentence| report.contains(sentence)), "{name}: {report}");
    }
}

#[test]
fn quiet_run_prints_only_errors() {
    let folder = Folder::new();
    let address = loopback();
    let _send = sounding_at(&address);
    let recv = format!("recv --rate 48000 --channels 2 --output null: --from {address}");
    // Possible notes: packet lengths, no answer, latency.
    let send = "send --input null: --rate 44100 --to rtp://127.0.0.1:5004";
    for line in [send, &recv] {
        for quiet in ["-q", "--quiet"] {
            let line = format!("{line} --duration 1s {quiet}");
            let ended = taut(words(&line)).run().well();
            assert!(ended.messages.is_empty() && ended.out.is_empty(), "{line}: {ended:#?}");
        }
        let report = taut(words(&format!("{line} --duration 1s -q --report json"))).run();
        assert!(report.messages.is_empty(), "{report:#?}");
        report.report();
    }
    let ended = taut(words("demo --duration 1s -q --out demo")).in_folder(folder.path()).run();
    assert!(ended.out.is_empty(), "{ended:#?}");
    assert_eq!(ended.messages.is_empty(), ended.status == Some(0), "{ended:#?}");
    let wrong = taut(words("send -q --input file:missing.wav --to rtp://127.0.0.1:5004")).run();
    assert_eq!((wrong.status, wrong.messages.len()), (Some(3), 1), "{wrong:#?}");
}

#[test]
fn verbose_run_reports_decisions_and_events() {
    shared(|| {
        let address = loopback();
        let recv = format!("recv -v --output null: --from {address} --exit-on-bye --report none");
        let recv = taut(words(&recv)).start();
        let send = format!("send -v --input tone:440 --to {address} --duration 1s --report none");
        let send = taut(words(&send)).start();
        let recv = recv.wait_for(messages::ONE_CLOCK);
        let (sent, received) = (send.end().well(), recv.end().well());
        for (ended, event_channel) in [
            (&sent, ["sockets: ", "stream: l24", "device: tone:440", "latency: 5ms announced"]),
            (&received, ["sockets: ", "stream: l24", "device: null:", "latency: 5ms announced"]),
        ] {
            for words in event_channel {
                let reported = ended.messages.iter().filter(|line| line.contains(words)).count();
                assert_eq!(reported, 1, "{words}: {ended:#?}");
            }
            assert!(ended.messages.iter().all(|line| line.starts_with("taut: ")), "{ended:#?}");
        }
        let usual =
            taut(words("send --input null: --to rtp://127.0.0.1:5004 --duration 50ms")).run();
        assert!(!usual.well().messages.concat().contains("sockets"));
    });
}

#[test]
fn unannounced_format_is_the_default_or_of_the_options() {
    for (options, whose) in [("", "the default"), ("--format l16", "from the options")] {
        let recv = format!("recv -v --output null: --duration 100ms --report none {options}");
        let ended = taut(words(&recv)).and(["--from", &loopback()]).run();
        let line = format!("taut: stream format: {whose}");
        assert!(ended.messages.contains(&line), "{options}: {ended:#?}");
    }
}

#[test]
fn verbosity_on_the_command_line_overrides_the_file() {
    let folder = Folder::new();
    std::fs::write(folder.file("tautline.toml"), "quiet = true\n").unwrap();
    let send = "send --input null: --to rtp://127.0.0.1:5004 --duration 50ms";
    let send = |options: &str| {
        taut(words(&format!("{send} {options}"))).in_folder(folder.path()).run().well()
    };
    assert!(send("").out.is_empty());
    assert!(send("-v").messages.concat().contains("sockets"));
    let both = taut(words("send -q -v --input null: --to rtp://127.0.0.1:5004")).run();
    assert_eq!((both.status, both.messages.len()), (Some(2), 1), "{both:#?}");
}

#[test]
fn unknown_clock_is_reported_while_sound_arrives() {
    shared(|| {
        let (folder, port, elsewhere) = (Folder::new(), free_udp_ports(), free_udp_ports());
        let description = format!(
            "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=-\nc=IN IP4 127.0.0.1\nt=0 0\n\
         m=audio {port} RTP/AVP 97\na=rtpmap:97 L24/48000/2\na=rtcp:{elsewhere}\n"
        );
        std::fs::write(folder.file("to.sdp"), description).unwrap();
        let from = format!("recv --output null: --from rtp://127.0.0.1:{port} --report json");
        let recv = taut(words(&from)).and(PATIENT).start().listening();
        let send = taut(words("send --input tone:440 --to to.sdp")).and(PATIENT);
        let send = send.in_folder(folder.path()).start();
        let recv = recv.wait_for(messages::UNKNOWN_CLOCK);
        send.signal("-INT");
        send.end().well();
        recv.signal("-INT");
        let report = recv.end().report();
        assert_eq!(report.stream("/clock"), &serde_json::Value::Null);
        assert!(report.count("packets_received") > 0);
    });
}
