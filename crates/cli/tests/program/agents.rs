//! Agents of experiments, through an `ssh` script of the test.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tautline_trial::snapshot;

use serde_json::{Value, json};

use crate::common::program::{Call, taut, words};
use crate::common::{Folder, executable, free_udp_ports, shared};

const TAUT: &str = env!("CARGO_BIN_EXE_taut");

fn with_ssh(folder: &Folder, script: &str) -> Call {
    executable(&folder.file("ssh"), &format!("#!/bin/sh\n{script}\n"));
    let line = "lab latency-sweep --with ssh:x --duration 1s --report json --only";
    taut(words(line)).and(["2 ms"]).finding(folder.path())
}

#[test]
fn a_ladder_is_climbed_to_a_host_by_ssh() {
    shared(|| {
        let folder = Folder::new();
        let script = format!(
            "case \"$*\" in '-T -o BatchMode=yes '*' -- x taut lab agent') exec {TAUT} lab agent;; esac\nexit 9"
        );
        let ended = with_ssh(&folder, &script).run().well();
        let report = ended.json();
        assert_eq!(report["hosts"][1]["name"], "receiver (ssh:x)", "{report:#}");
        let row = &report["rows"][0];
        assert_eq!(row["invalid"], Value::Null, "{row:#}");
        assert_eq!(row["configured_ns"], 10_000_000, "{row:#}");
        assert!(row["measured"]["count"].as_u64() > Some(0), "{row:#}");
    });
}

#[test]
fn one_way_rows_are_invalid_if_clocks_are_too_uncertain() {
    shared(|| {
        let folder = Folder::new();
        // Packets received here have another host's clock.
        let source = r#"s/\(source\\": *\\"\)host/\1rtcp/"#;
        executable(
            &folder.file("ssh"),
            &format!("#!/bin/sh\n{TAUT} lab agent | sed -u '{source}'\n"),
        );
        for line in [
            "latency-sweep --only test@10",
            "min-latency --period 240 --periods 16",
            "load --max-streams 1 --latency 400ms",
            "network --only silent",
            "schedulers --only other,@loaded --latency 400ms --load spin:1",
            "stages --latency 400ms",
        ] {
            let line: Vec<_> = line.split(' ').map(|word| word.replace('@', " ")).collect();
            let far =
                words("--with ssh:x --settle 1s --duration 1s --max-uncertainty 1ns --report json");
            let call = taut(words("lab")).and(line.iter().map(String::as_str));
            let call = call.and(far.iter().map(String::as_str));
            let ended = call.finding(folder.path()).run();
            let report = ended.json();
            let invalid =
                report["rows"][0]["invalid"].as_str().unwrap_or_else(|| panic!("{report:#}"));
            assert!(invalid.contains("1ns"), "{line:?}: {invalid}");
        }
        for name in [
            "latency-sweep",
            "limits",
            "load",
            "min-latency",
            "network",
            "overhead",
            "schedulers",
            "stages",
        ] {
            let help = taut(words(&format!("lab {name} --help"))).run().well().out;
            let (_, hosts) = help.split_once("\nHosts:").unwrap_or_else(|| panic!("{help}"));
            let hosts = hosts.split("\n\n").take_while(|part| part.starts_with(['\n', ' ']));
            let hosts: String = hosts.collect::<Vec<_>>().join("\n");
            assert!(hosts.contains("--max-uncertainty <TIME>"), "{name}: {help}");
            let words: Vec<&str> = hosts.split_whitespace().collect();
            let default = match name {
                "min-latency" | "load" => "[default: any, as",
                _ => "[default: 250us]",
            };
            assert!(words.join(" ").contains(default), "{name}: {help}");
        }
    });
}

#[test]
fn taken_udp_ports_are_chosen_again() {
    shared(|| {
        let folder = Folder::new();
        let taken = free_udp_ports();
        let _taken = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, taken)).unwrap();
        // Another program took the first port that the agent reported as free.
        let script =
            format!("{TAUT} lab agent | sed -u '0,/\"ports\":[0-9]*/s//\"ports\":{taken}/'");
        let report = with_ssh(&folder, &script).run().well().json();
        let row = &report["rows"][0];
        assert_eq!(row["invalid"], Value::Null, "{report:#}");
        assert!(row["measured"]["count"].as_u64() > Some(0), "{row:#}");
    });
}

/// One message contains all `parts`, and the row is invalid.
#[track_caller]
fn could_not_begin(script: &str, parts: &[&str]) {
    let folder = Folder::new();
    let ended = with_ssh(&folder, script).run();
    assert_eq!(ended.status, Some(3), "{ended:#?}");
    assert_eq!(ended.messages.len(), 1, "{ended:#?}");
    assert!(parts.iter().all(|part| ended.messages[0].contains(part)), "{ended:#?}");
    let report = ended.json();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["name"]), (1, &"ssh:x".into()), "{report:#}");
    let invalid = rows[0]["invalid"].as_str().unwrap();
    assert!(parts.iter().all(|part| invalid.contains(part)), "{invalid}");
}

#[test]
fn refused_ssh_is_reported_with_its_message_and_a_hint() {
    could_not_begin(
        "echo 'ssh: connect to host x port 22: Connection refused' >&2; exit 255",
        &[
            "at ssh:x: ssh: connect to host x port 22: Connection refused",
            "taut --version` must work",
        ],
    );
}

#[test]
fn host_without_taut_is_an_error_with_a_hint() {
    could_not_begin(
        "echo 'sh: 1: taut: not found' >&2; exit 127",
        &["taut: not found", "must work"],
    );
    could_not_begin(
        "echo 'Welcome to x'; cat > /dev/null",
        &["'Welcome to x'", "is installed there"],
    );
}

#[test]
fn rows_measured_before_an_agent_left_are_kept() {
    shared(|| {
        let folder = Folder::new();
        // The connection breaks when the second receiver is requested.
        let script = format!(
            "begun=0\nwhile IFS= read -r line; do\n case \"$line\" in *'\"recv\"'*) begun=$((begun + 1));; \
         esac\n [ $begun -lt 2 ] || break\n printf '%s\\n' \"$line\"\ndone | {TAUT} lab agent"
        );
        let ended =
            with_ssh(&folder, &script).and(["--only", "1 ms", "--only", "1 ms, tight"]).run();
        let report = ended.well().json();
        let rows = report["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 2, "{report:#}");
        assert_eq!(rows[0]["invalid"], Value::Null, "{report:#}");
        let invalid = rows[1]["invalid"].as_str().unwrap();
        assert!(invalid.contains("(ssh:x)"), "{invalid}");
        snapshot!(report["notes"][0].as_str().unwrap());
    });
}

const SLEEPS: &str = "echo begun >&9\nexec sleep 600";

/// The load keeps the pipe `held` open; its script gets the agent's folder as `$3`. Also returns
/// the folder.
fn loading(folder: &Folder, goes_on: &str) -> (Child, BufReader<fs::File>) {
    let held = folder.file("held");
    assert!(Command::new("mkfifo").arg(&held).status().unwrap().success());
    let script = format!("#!/bin/sh\nexec 9> {}\n{goes_on}\n", held.display());
    executable(&folder.file("stress-ng"), &script);
    fs::create_dir(folder.file("tmp")).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut agent = Command::new(TAUT)
        .args(["lab", "agent"])
        .env("PATH", format!("{}:{path}", folder.path().display()))
        .env("TMPDIR", folder.file("tmp"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let words = ["lab", "loadgen", "--longest", "600s", "stress-ng", "--temp-path", "{dir}"];
    let request =
        json!({"id": 1, "request": {"start": {"words": words, "cpus": [], "limits": null}}});
    writeln!(agent.stdin.as_mut().unwrap(), "{request}").unwrap();
    let mut held = BufReader::new(fs::File::open(&held).unwrap());
    let mut begun = String::new();
    held.read_line(&mut begun).unwrap();
    assert_eq!(begun, "begun\n");
    (agent, held)
}

#[test]
fn load_ends_with_its_agent_even_if_that_is_killed() {
    let folder = Folder::new();
    let (mut agent, mut held) = loading(&folder, SLEEPS);
    let killed = Instant::now();
    agent.kill().unwrap();
    agent.wait().unwrap();
    held.read_to_end(&mut Vec::new()).unwrap();
    assert!(killed.elapsed() < Duration::from_secs(60), "by itself it would have gone on");
}

#[test]
fn ended_agent_stops_its_children_and_leaves_nothing() {
    let writes = "trap 'mkdir -p $3 && echo so >$3/last; exit' INT\necho begun >&9\nwhile :; do sleep 0.01; done";
    for (signal, goes_on) in [("TERM", SLEEPS), ("INT", SLEEPS), ("HUP", SLEEPS), ("TERM", writes)]
    {
        let folder = Folder::new();
        let (mut agent, mut held) = loading(&folder, goes_on);
        let reported = ["-s", signal, &agent.id().to_string()].map(str::to_owned);
        assert!(Command::new("kill").args(reported).status().unwrap().success());
        assert!(agent.wait().unwrap().success(), "{signal}");
        held.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(fs::read_dir(folder.file("tmp")).unwrap().count(), 0, "{signal}");
    }
}
