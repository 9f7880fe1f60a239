//! The systemd units: systemd accepts them, and each allows the system calls of its program.

use std::collections::BTreeSet;
use std::fs::read_to_string;
use std::path::Path;
use std::process::Command;

use crate::calls::CalledMachine;
use crate::common::host::alongside;
use crate::common::program::{Call, call, words};
use crate::common::{Folder, Lack, PATIENT, loopback, skipped};

const UNITS: [(&str, &str); 5] = [
    ("taut-node.service", include_str!("../../../../packaging/taut-node.service")),
    ("taut-recv@.service", include_str!("../../../../packaging/taut-recv@.service")),
    ("taut-send@.service", include_str!("../../../../packaging/taut-send@.service")),
    ("taut-serve.service", include_str!("../../../../packaging/taut-serve.service")),
    ("user/taut-serve.service", include_str!("../../../../packaging/user/taut-serve.service")),
];

fn systemd_analyze(arguments: &[&str]) -> Option<(String, String)> {
    let Ok(ended) = Command::new("systemd-analyze").args(arguments).output() else {
        skipped(Lack::Package, "systemd-analyze is not installed (systemd)");
        return None;
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some((text(&ended.stdout), text(&ended.stderr)))
}

#[test]
fn systemd_accepts_units() {
    for (name, text) in UNITS {
        let folder = Folder::new();
        let unit = folder.file(name.rsplit('/').next().unwrap());
        let taut = format!("{}/taut", folder.path().display());
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_taut"), &taut).unwrap();
        std::fs::write(&unit, text.replace("@PREFIX@/bin/taut", &taut)).unwrap();
        let unit = unit.display().to_string();
        let Some((_, messages)) = systemd_analyze(&["--man=no", "verify", &unit]) else { return };
        assert!(!messages.contains("taut-"), "{name}: {messages}");
        assert!(text.contains("\nRestartPreventExitStatus=2\n"), "{name}");
        // Only a node reports its progress.
        assert_eq!(text.contains("\nType=notify\n"), name == "taut-node.service", "{name}");
    }
}

/// The system calls of a set of systemd, such as `@timer`, or the one that is named.
fn expanded(name: &str) -> Option<Vec<String>> {
    if !name.starts_with('@') {
        return Some(vec![name.to_owned()]);
    }
    let (set, messages) = systemd_analyze(&["syscall-filter", name])?;
    assert!(!set.is_empty(), "{name}: {messages}");
    let members = set.lines().skip(1).map(str::trim).filter(|line| !line.starts_with('#'));
    let members: Option<Vec<_>> = members.filter(|line| !line.is_empty()).map(expanded).collect();
    Some(members?.concat())
}

/// The system calls that the unit allows: each line of its filter adds or removes some.
fn allowed(unit: &str) -> Option<BTreeSet<String>> {
    let mut allowed = BTreeSet::new();
    for line in unit.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
        let (removes, names) = line.strip_prefix('~').map_or((false, line), |names| (true, names));
        for call in names.split(' ').map(expanded).collect::<Option<Vec<_>>>()?.concat() {
            if removes {
                allowed.remove(&call)
            } else {
                allowed.insert(call)
            };
        }
    }
    // A filter of its own.
    if unit.contains("\nProtectClock=yes\n") {
        let clock = expanded("@clock")?;
        allowed.retain(|call| !clock.contains(call));
    }
    Some(allowed)
}

/// Runs `taut` with a file of its system calls. strace is a child, so signals reach `taut`.
fn traced(file: &Path, line: &str) -> Call {
    let strace = call("strace", ["-D", "-f", "-qq", "-e", "signal=none", "-o"]).and([file]);
    strace.and([env!("CARGO_BIN_EXE_taut")]).and(words(line))
}

fn assert_allowed(unit: &str, file: &Path) {
    let text = UNITS.iter().find(|(name, _)| *name == unit).unwrap().1;
    let Some(allowed) = allowed(text) else { return };
    let trace = read_to_string(file).unwrap();
    // `1234 read(3, …`, `1234 <... read resumed>`
    let used = trace.lines().filter_map(|line| {
        let call = line.split_once(' ')?.1.trim_start();
        Some(call.split_once('(')?.0.to_owned()).filter(|call| !call.contains(' '))
    });
    let used: BTreeSet<_> = used.collect();
    assert!(used.contains("mlockall") && used.contains("clock_adjtime"), "{used:?}");
    let denied: Vec<_> = used.difference(&allowed).collect();
    assert!(denied.is_empty(), "{unit} denies {denied:?}");
}

#[test]
fn units_allow_the_system_calls_of_taut() {
    match Command::new("strace").args(["-o", "/dev/null", "true"]).output() {
        Err(_) => return skipped(Lack::Package, "strace is not installed"),
        Ok(traced) if !traced.status.success() => {
            return skipped(Lack::Privilege, &String::from_utf8_lossy(&traced.stderr));
        }
        Ok(_) => {}
    }
    let _turn = alongside();
    let folder = Folder::new();
    let [served, received, sent] = ["serve", "recv", "send"].map(|name| folder.file(name));

    let serve = traced(&served, "serve --listen 127.0.0.1:0 --input virtual: --output virtual:");
    let serve = serve.and(PATIENT).with("TAUT_HOME", folder.path());
    let called = CalledMachine::begun(serve.in_folder(folder.path()), Folder::new());
    let line = "--input virtual: --output virtual: --duration 1s";
    called.call(folder.path(), line).run().well();
    called.ends();
    assert_allowed("taut-serve.service", &served);
    assert_allowed("user/taut-serve.service", &served);

    let address = loopback();
    let line = format!("recv --from {address} --output virtual: --exit-on-bye");
    let recv = traced(&received, &line).and(PATIENT).start().listening();
    let line = format!("send --input virtual: --to {address} --latency 400ms --duration 1s");
    traced(&sent, &line).run().well();
    recv.end().well();
    assert_allowed("taut-recv@.service", &received);
    assert_allowed("taut-send@.service", &sent);
}
