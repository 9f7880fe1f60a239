//! Hosts via `ssh` and an `sshd` of the test, connected by a pipe: no open port, no other user.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::apart::{delay, is_measured_by_one_clock};
use crate::calls::CalledMachine;
use crate::common::host::alongside;
use crate::common::messages;
use crate::common::program::{Call, taut, words};
use crate::common::sound::Sound;
use crate::common::{Folder, Lack, executable, shared, skipped};

/// sshd requires its absolute path.
const SSHD: &str = "/usr/sbin/sshd";
/// Folder for root's sshd before the first login.
const EMPTY: &str = "/run/sshd";

pub(crate) struct ThereBySsh {
    folder: Folder,
    path: String,
}

impl ThereBySsh {
    /// `None`, with a message, if login is impossible.
    pub(crate) fn new() -> Option<Self> {
        let folder = Folder::new();
        let path = std::env::var("PATH").unwrap_or_default();
        let there = Self { path: format!("{}:{path}", folder.path().display()), folder };
        let why = there.set_up(&path).and_then(|()| there.can_log_in());
        if let Err(why) = why {
            skipped(Lack::reported_by(&why), &format!("logging in by an sshd of its own: {why}"));
            return None;
        }
        Some(there)
    }

    fn set_up(&self, path: &str) -> Result<(), String> {
        if !Path::new(SSHD).exists() {
            return Err(format!("{SSHD}: No such file"));
        }
        // Only root's sshd needs it, and only root can create it.
        let _ = fs::create_dir(EMPTY);
        for key in ["host", "user"] {
            done(
                Command::new("ssh-keygen")
                    .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                    .arg(self.file(key)),
            )?;
        }
        fs::rename(self.file("user.pub"), self.file("authorized")).unwrap();
        fs::create_dir(self.file("there")).unwrap();
        symlink(env!("CARGO_BIN_EXE_taut"), self.file("there/taut")).unwrap();
        let at = self.folder.path().display();
        // Shell startup files may only append to PATH.
        self.write("login", &format!("PATH={at}/there:$PATH\neval \"$SSH_ORIGINAL_COMMAND\"\n"));
        self.write(
            "sshd_config",
            &format!(
                "HostKey {at}/host\nAuthorizedKeysFile {at}/authorized\nStrictModes no\nUsePAM no\n\
                 PasswordAuthentication no\nPidFile none\nForceCommand /bin/sh {at}/login\n"
            ),
        );
        self.write(
            "config",
            &format!(
                "Host there\n ProxyCommand {SSHD} -i -f {at}/sshd_config\n IdentityFile {at}/user\n \
                 IdentitiesOnly yes\n UserKnownHostsFile {at}/known\n GlobalKnownHostsFile /dev/null\n \
                 StrictHostKeyChecking accept-new\n"
            ),
        );
        let ssh = format!("#!/bin/sh\nPATH='{path}'\nexec ssh -F {at}/config \"$@\"\n");
        executable(&self.file("ssh"), &ssh);
        Ok(())
    }

    pub(crate) fn uses_home(&self, home: &Path) {
        let (at, home) = (self.folder.path().display(), home.display());
        let login = format!(
            "export TAUT_HOME={home} PATH={at}/there:$PATH\neval \"$SSH_ORIGINAL_COMMAND\"\n"
        );
        self.write("login", &login);
    }

    fn can_log_in(&self) -> Result<(), String> {
        done(Command::new(self.file("ssh")).args(["-T", "-o", "BatchMode=yes", "there", "true"]))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.file(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.file(name), text).unwrap();
    }

    pub(crate) fn seen_by(&self, call: Call) -> Call {
        call.with("PATH", &self.path)
    }
}

fn done(command: &mut Command) -> Result<(), String> {
    let done = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let messages = || String::from_utf8_lossy(&done.stderr).trim().to_owned();
    done.status.success().then_some(()).ok_or_else(messages)
}

#[test]
fn two_machines_are_paired_by_ssh_in_one_command() {
    let Some(there) = ThereBySsh::new() else { return };
    there.uses_home(&there.file("home"));
    let here = Folder::new();
    let at = |home: &Path, line: &str| {
        there.seen_by(taut(words(line))).with("TAUT_HOME", home).run().well()
    };
    at(here.path(), "pair studio=ssh:there");
    let listed = |home: &Path| at(home, "trust --list --report json").json()["trusted"][0].clone();
    let key = |home: &Path| at(home, "id --report json").json()["key"].clone();
    let home = there.file("home");
    assert_eq!(
        (&listed(here.path())["name"], &listed(here.path())["key"]),
        (&"studio".into(), &key(&home))
    );
    assert_eq!(listed(&home)["key"], key(here.path()));
    let pairs = |home: &Path| {
        there.seen_by(taut(words("pair studio=ssh:there"))).with("TAUT_HOME", home).run().status
    };
    // There, this host's name belongs to another key.
    assert_eq!(pairs(Folder::new().path()), Some(1));
    // Here, `studio` belongs to another key.
    there.uses_home(&there.file("other"));
    assert_eq!(pairs(here.path()), Some(2));
    let ended =
        there.seen_by(taut(words("pair ssh:nowhere.invalid"))).with("TAUT_HOME", here.path()).run();
    assert_eq!(ended.status, Some(3), "{ended:?}");
}

#[test]
fn call_through_ssh_is_heard_at_both_ends_and_ends() {
    let _turn = alongside();
    let Some(there) = ThereBySsh::new() else { return };
    let home = Folder::new();
    let called = CalledMachine::at_home(home.path(), "");
    let port = called.address.rsplit_once(':').unwrap().1;
    let line = format!(
        "call ssh:there:{port} --input tone:440 --output file:heard.wav --duration 2s --report none"
    );
    let call = there.seen_by(taut(words(&line))).with("TAUT_HOME", home.path());
    call.in_folder(called.folder.path()).run().well();
    let (ended, folder) = called.ends();
    assert!(ended.messages.iter().any(|line| line.contains(messages::CALL_OVER)), "{ended:#?}");
    for file in ["heard.wav", "caller.wav"] {
        assert!(Sound::read(&folder.file(file)).begins().is_some(), "{file}");
    }
}

#[test]
fn delay_over_ssh_is_within_its_uncertainty() {
    shared(|| {
        let Some(there) = ThereBySsh::new() else { return };
        for (run, hosts) in [
            ("--with ssh:there", ["local", "ssh:there"]),
            ("--played-at ssh:there", ["ssh:there", "local"]),
        ] {
            let report = there.seen_by(delay("ssh", run)).run().well().json();
            is_measured_by_one_clock(&report, hosts);
        }
    });
}

#[test]
fn call_between_two_clocks_is_measured_within_uncertainty() {
    shared(|| {
        let Some(there) = ThereBySsh::new() else { return };
        // Its monotonic clock is an hour ahead.
        let ahead = ["--time", "--monotonic", "3600", "--fork", "--kill-child"];
        if let Err(why) = done(Command::new("unshare").args(ahead).arg("true")) {
            return skipped(Lack::reported_by(&why), &format!("a clock of its own: {why}"));
        }
        let (taut_here, at) = (env!("CARGO_BIN_EXE_taut"), there.folder.path().display());
        fs::remove_file(there.file("there/taut")).unwrap();
        let words_ahead = ahead.join(" ");
        let taut_there = format!("#!/bin/sh\nexec unshare {words_ahead} {taut_here} \"$@\"\n");
        executable(&there.file("there/taut"), &taut_there);
        there.write(
            "login",
            &format!(
                "export TAUT_HOME={at}/home PATH={at}/there:$PATH\neval \"$SSH_ORIGINAL_COMMAND\"\n"
            ),
        );
        let line = "lab mouth-to-ear ssh:there --at 127.0.0.1 --duration 1s --settle 500ms \
                    --max-uncertainty 5ms --report json";
        let call = taut(words(line)).and(["--only", "kept at 15 ms, UDP"]);
        let call = there.seen_by(call).with("TAUT_HOME", there.file("home"));
        let report = call.run().well().json();
        let row = &report["rows"][0];
        assert_eq!(row["invalid"], Value::Null, "{report:#}");
        let nanos = |value: &Value| value.as_i64().unwrap_or_else(|| panic!("{report:#}"));
        let (off, bound) = (nanos(&row["off_ns"]), nanos(&row["bound_ns"]));
        assert!(off.abs() <= bound, "{report:#}");
        // The uncertainty includes the error of the exchanges, and no more.
        assert!((25_000..5_100_000).contains(&bound), "{report:#}");
    });
}
