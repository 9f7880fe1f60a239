//! One end is missing or disappears: messages and exit of the other one.

use std::net::UdpSocket;
use std::process::Command;
use tautline_proto::text::on_one_line;
use tautline_trial::snapshot;

use crate::common::jack::Server;
use crate::common::messages;
use crate::common::network::Cable;
use crate::common::numberless;
use crate::common::program::{Ended, Running, call, taut, words};
use crate::common::report::Report;
use crate::common::sound::Sound;
use crate::common::{Folder, Lack, Onlooker, PATIENT, free_udp_ports, loopback, shared, skipped};

fn last(ended: &Ended) -> &str {
    ended.messages.last().unwrap_or_else(|| panic!("nothing: {ended:#?}"))
}

fn fails(recv: Running, send: Running) -> Ended {
    recv.signal("-INT");
    let ended = recv.end();
    send.signal("-INT");
    send.end().well();
    assert_eq!(ended.status, Some(1), "{ended:#?}");
    ended
}

/// 80 columns. `None`, with a message, without a terminal.
fn on_a_terminal(line: &str) -> Option<crate::common::program::Call> {
    if Command::new("script").arg("--version").output().is_err() {
        skipped(Lack::Package, "there is no `script` (bsdutils)");
        return None;
    }
    let taut = env!("CARGO_BIN_EXE_taut");
    let line = format!("stty cols 80; exec {taut} {line}");
    Some(call("script", ["-qefc", &line, "/dev/null"]).listened_to())
}

fn killed_sender(address: &str) {
    let onlooker = Onlooker::new();
    let line = format!("send --input tone:997 --to {address} --to {}", onlooker.address());
    let send = taut(words(&line)).start();
    onlooker.handle(500);
    send.signal("-KILL");
    send.end();
}

#[test]
fn killed_senders_silence_is_shown_live_in_whole_seconds() {
    shared(|| {
        let address = loopback();
        let recv = format!("recv --from {address} --output null: --exit-on-bye");
        let Some(recv) = on_a_terminal(&recv) else { return };
        let recv = recv.start().listening();
        killed_sender(&address);
        let ended = recv.end();
        for silent in ["silent for 1 s: recv ", "silent for 2 s: recv "] {
            assert!(ended.out.contains(silent), "no {silent:?} in {:?}", ended.out);
        }
        // `script` passes on the status of a missing goodbye.
        assert_eq!(ended.status, Some(4), "{ended:#?}");
    });
}

#[test]
fn vanished_sender_ends_the_run_with_note_and_own_status() {
    shared(|| {
        let (folder, address, other) = (Folder::new(), loopback(), loopback());
        let line = format!(
            "recv --from {address} --from {other} --output file:heard.wav --exit-on-bye --report json"
        );
        let recv = taut(words(&line)).in_folder(folder.path()).start().listening();
        let send = format!("send --input tone:440 --to {other} --duration 1s");
        let goodbye = taut(words(&send)).start();
        killed_sender(&address);
        goodbye.end().well();
        let ended = recv.end();
        assert_eq!(ended.status, Some(4), "{ended:#?}");
        let note = format!("ended without goodbye: no more packets at {address}\n");
        assert!(last(&ended).contains(&note), "{ended:#?}");
        assert_eq!(
            ended.messages.iter().filter(|line| line.contains(&note)).count(),
            1,
            "{ended:#?}"
        );
        let report = ended.json();
        let notes = report["notes"].as_array().unwrap();
        assert!(
            notes.iter().any(|reported| reported.as_str().unwrap().contains(&note)),
            "{report:#}"
        );
        let ends = [0, 1].map(|stream| report["streams"][stream]["ended"].clone());
        assert_eq!(ends, ["silence", "goodbye"], "{report:#}");
        assert!(folder.file("heard.wav").metadata().unwrap().len() > 100_000);
    });
}

#[test]
fn run_without_packets_fails_and_reports() {
    let folder = Folder::new();
    for shape in ["", "--rate 48000 --channels 2"] {
        for (ends, output) in
            [("--duration 50ms", "file:heard.wav"), ("-INT", "virtual:?record=heard.wav")]
        {
            let from = loopback();
            let options = if ends == "-INT" { "" } else { ends };
            let line = format!("recv --from {from} --output {output} {shape} {options}");
            let recv = taut(words(&line)).and(["--report", "json"]).in_folder(folder.path());
            let recv = recv.start().listening();
            if ends == "-INT" {
                recv.signal(ends);
            }
            let ended = recv.end();
            assert_eq!(ended.status, Some(1), "{line}: {ended:#?}");
            let reported =
                format!("error: nothing was received at {from}\nhint: check that the sender");
            assert!(last(&ended).starts_with(&reported), "{ended:#?}");
            let all =
                ended.messages.iter().filter(|line| line.contains(messages::NOTHING_RECEIVED));
            assert_eq!(all.count(), 1, "{ended:#?}");
            assert_eq!(ended.json()["streams"][0]["counters"]["packets_received"], 0);
            assert!(ended.out.contains(messages::NOT_KEPT), "{ended:#?}");
            assert!(!folder.file("heard.wav").exists(), "{line}");
        }
    }
}

#[test]
fn invalid_datagrams_are_reported_if_nothing_else_arrives() {
    let port = free_udp_ports();
    let line = format!(
        "recv --from rtp://127.0.0.1:{port} --output null: --channels 2 --rate 48000 --duration 1s \
         --report json"
    );
    let recv = taut(words(&line)).start().listening();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for port in [port, port, port, port + 1, port + 1] {
        socket.send_to(b"GET / HTTP/1.1", ("127.0.0.1", port)).unwrap();
    }
    let ended = recv.end();
    assert_eq!(ended.status, Some(1), "{ended:#?}");
    snapshot!(last(&ended));
    let report = Report(ended.json());
    let reasons = report.stream("/invalid").as_array().unwrap().len();
    let counts = (reasons, report.refused("report"), report.count("invalid"));
    assert_eq!(counts, (2, 2, 5), "{:#}", report.0);
}

#[test]
fn recording_on_a_full_disk_is_reported_and_fails() {
    shared(|| {
        let (folder, address) = (Folder::new(), loopback());
        // Above 100 KiB, the kernel sends SIGXFSZ.
        let limited = "ulimit -f 200; exec \"$@\"";
        let recv = format!("recv --from {address} --output file:heard.wav --report json");
        let recv = call("sh", ["-c", limited, "sh", env!("CARGO_BIN_EXE_taut")]).and(words(&recv));
        let recv = recv.in_folder(folder.path()).start().listening();
        let send = taut(words(&format!("send --input tone:440 --to {address}"))).start();
        let recv = recv.wait_for(messages::FILE_TOO_LARGE);
        let ended = fails(recv, send);
        let reported = last(&ended);
        snapshot!(numberless(reported));
        let unwritten = ended.json()["incomplete_files"].clone();
        let reported = on_one_line(reported);
        assert!(unwritten[0].as_str().is_some_and(|one| reported.ends_with(one)), "{unwritten}");
    });
}

#[test]
fn full_disk_fails_ledgers_and_files_but_prints_the_report() {
    shared(|| {
        let address = loopback();
        for option in ["--packet-log", "--report-file"] {
            let more = format!("--report json {option} /dev/full");
            let recv = format!("recv --from {address} --output null: --exit-on-bye {more}");
            let recv = taut(words(&recv)).start().listening();
            let send = format!("send --input tone:440 --to {address} --duration 1s {more}");
            let send = taut(words(&send)).start();
            for ended in [send.end(), recv.end()] {
                assert_eq!(ended.status, Some(1), "{ended:#?}");
                snapshot!(option, last(&ended));
                assert_eq!(ended.json()["schema"], 2);
            }
        }
        let full =
            format!("recv --from {address} --output file:/dev/full --rate 48000 --channels 2");
        crate::errors::is_refused(&taut(words(&full)), 3);
    });
}

#[test]
fn packet_log_on_a_full_disk_is_reported_while_playing() {
    shared(|| {
        let line = format!("send --input tone:440 --to {} --packet-log /dev/full", loopback());
        let send = taut(words(&line)).start().wait_for(messages::LEDGER_BROKEN);
        send.signal("-INT");
        assert_eq!(send.end().status, Some(1));
    });
}

#[test]
fn mismatched_coding_is_refused_with_a_fix_and_never_played() {
    shared(|| {
        for (ours, theirs) in [("l16", "l24"), ("f32", "l24"), ("l24", "l16"), ("l16", "f32")] {
            let (folder, address) = (Folder::new(), loopback());
            std::fs::write(folder.file("kept.wav"), "").unwrap();
            std::os::unix::fs::symlink("kept.wav", folder.file("heard.wav")).unwrap();
            let recv = format!(
                "recv --from {address} --output file:heard.wav --exit-on-bye --report json --format {ours}"
            );
            let recv = taut(words(&recv)).and(PATIENT).in_folder(folder.path()).start().listening();
            let send =
                format!("send --input tone:440 --to {address} --format {theirs} --duration 1s");
            taut(words(&send)).and(PATIENT).run().well();
            let ended = recv.end();
            assert_eq!(ended.status, Some(1), "{ours} of {theirs}: {ended:#?}");
            snapshot!(format!("{ours} of {theirs}"), last(&ended));
            let report = ended.json();
            assert!(report["streams"][0]["refused"].is_string(), "{report:#}");
            let received = Sound::read(&folder.file("kept.wav"));
            assert!(received.frames() > 0, "{ours} of {theirs}: nothing was recorded");
            received.is_silent();
        }
    });
}

const WALL: &str =
    "table inet wall {\n chain input {\n type filter hook input priority 0; policy drop;\n }\n}\n";

#[test]
fn firewall_that_drops_all_is_named_during_and_after_the_run() {
    shared(|| {
        let Some(cable) = Cable::lay() else { return };
        if !cable.right.rules(WALL) {
            return;
        }
        for shape in ["", "--rate 48000 --channels 2"] {
            let recv =
                format!("recv --from rtp://10.77.0.2:6004 --output null: --report json {shape}");
            let recv = taut(words(&recv)).within(&cable.right).start().listening();
            let send = "send --input tone:440 --to rtp://10.77.0.2:6004";
            let send = taut(words(send)).within(&cable.left).start();
            let recv = recv.wait_for(messages::FIREWALL_DROPS);
            let ended = fails(recv, send);
            snapshot!(shape, last(&ended));
        }
    });
}

#[test]
fn user_without_firewall_access_is_sent_to_doctor() {
    shared(|| {
        let Some(cable) = Cable::lay() else { return };
        let may = Command::new("runuser").args(["-u", "nobody", "true"]).status();
        if !may.is_ok_and(|done| done.success()) {
            return skipped(Lack::Privilege, "being another user needs root");
        }
        let taut = env!("CARGO_BIN_EXE_taut");
        let line = "recv --from rtp://10.77.0.2:6004 --output null: --duration 50ms --report none";
        let recv = call("runuser", ["-u", "nobody", "--", taut]).and(words(line));
        let ended = recv.within(&cable.right).run();
        if ended.status.is_none_or(|status| status > 100) {
            return skipped(Lack::Privilege, "another user cannot run taut here");
        }
        assert_eq!(ended.status, Some(1), "{ended:#?}");
        snapshot!(last(&ended));
    });
}

#[test]
fn device_that_needs_more_latency_is_reported_in_advance() {
    shared(|| {
        // 1 ms in packets, 10 ms in the device buffer, and 1 ms for the network.
        for latency in [" --latency 11ms", ""] {
            let (address, onlooker) = (loopback(), Onlooker::new());
            let card = "virtual:?period=240&periods=2";
            let recv = format!("recv --from {address} --output {card} --report json{latency}");
            let recv = taut(words(&recv)).start().listening();
            let send = format!("send --input tone:440 --to {address} --to {}", onlooker.address());
            let send = taut(words(&send)).start();
            let recv = recv.wait_for(messages::TOO_SHORT);
            snapshot!(format!("latency: {latency}"), recv.messages().last().unwrap());
            onlooker.handle(300);
            for running in [recv, send] {
                running.signal("-INT");
                running.end().well();
            }
        }
    });
}

#[test]
fn jack_server_that_needs_more_latency_is_reported_in_advance() {
    shared(|| {
        let Some(server) = Server::start(64) else { return };
        let (address, onlooker) = (loopback(), Onlooker::new());
        let recv = words(&format!("recv --from {address} --report json --output"));
        let recv = taut(recv).and([server.device("hears", "system")]).start().listening();
        let to = format!("--to {address} --to {}", onlooker.address());
        // By default it would include the card of such a graph.
        let send = words(&format!("send {to} --latency 6ms --report json --input"));
        let send = taut(send).and([server.device("sends", "system")]).start();
        let recv = recv.wait_for(messages::TOO_SHORT);
        snapshot!(recv.messages().last().unwrap());
        onlooker.handle(300);
        for running in [recv, send] {
            running.signal("-INT");
            running.end().well();
        }
    });
}
