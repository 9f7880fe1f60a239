//! Messages of scripts on machines that lack something.

use std::path::Path;

use crate::common::program::{Call, Ended, call};
use crate::common::{Folder, Lack, executable, skipped};

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts");

fn script(name: &str, arguments: &[&str]) -> Call {
    call(&format!("{SCRIPTS}/{name}"), arguments)
}

struct Programs(Folder);

impl Programs {
    fn new(programs: &[(&str, &str)]) -> Self {
        let folder = Folder::new();
        for (name, text) in programs {
            executable(&folder.file(name), &format!("#!/bin/sh\n{text}\n"));
        }
        Self(folder)
    }

    fn run(&self, name: &str, arguments: &[&str]) -> Ended {
        let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", self.0.path().display());
        script(name, arguments)
            .with("PATH", path)
            .with("CARGO_HOME", "/nonexistent")
            .with("XDG_CACHE_HOME", self.0.path())
            .run()
    }
}

fn summary(lines: &str, status: i32, ci: &str) -> Ended {
    let says = format!("printf '{lines}'; exit {status}");
    script("test-summary", &["sh", "-c", &says]).with("CI", ci).run()
}

#[test]
fn skipped_tests_are_counted_by_requirement_and_reason() {
    let lines = "SKIPPED (host): some::one: 5 runs proved nothing\\n\
                 test two ... SKIPPED (host): two: 5 runs proved nothing\\n\
                 SKIPPED (package): three: there is no sox\\nok\\n";
    let messages = summary(lines, 0, "").well().out;
    for line in
        ["skipped: 3 (2 host, 1 package)", "2 host: 5 runs proved", "1 package: there is no sox"]
    {
        assert!(messages.contains(line), "{messages}");
    }
    assert!(summary("ok\\n", 0, "true").well().out.ends_with("skipped: none\n"));
}

#[test]
fn skipped_tests_do_not_hide_failures() {
    for lines in ["ok\\n", "SKIPPED (host): one: 5 runs proved nothing\\n"] {
        assert_eq!(summary(lines, 7, "").status, Some(7));
        assert_eq!(summary(lines, 7, "true").status, Some(7));
    }
}

#[test]
fn unlisted_package_or_privilege_fails_in_ci() {
    for kind in [" (package)", " (privilege)", ""] {
        let lines = format!("SKIPPED{kind}: one: there is no such thing\\n");
        assert_eq!(summary(&lines, 0, "").status, Some(0), "{kind}");
        let ended = summary(&lines, 0, "true");
        assert_eq!(ended.status, Some(1), "{ended:#?}");
        assert!(ended.out.contains("skips-allowed does not list it"), "{ended:#?}");
    }
    for kind in ["device", "host"] {
        summary(&format!("SKIPPED ({kind}): one: there is none\\n"), 0, "true").well();
    }
    let named = std::fs::read_to_string(Path::new(SCRIPTS).join("skips-allowed")).unwrap();
    for line in named.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (reason, why) = line.split_once('#').expect("a reason, and why it is allowed");
        let lines = format!("SKIPPED (package): one: {} so\\n", reason.trim_end());
        summary(&lines, 0, "true").well();
        assert!(!why.trim().is_empty(), "{line}");
    }
}

const TOOLS: [&str; 14] = [
    "bash", "cat", "chmod", "cut", "dirname", "echo", "env", "head", "sed", "sh", "sort", "tail",
    "tee", "xargs",
];
/// Root, a linker, and an `apt-get` that installs this Rust and logs its arguments.
const DEBIAN: [(&str, &str); 4] = [
    ("id", "echo 0"),
    ("cc", "exit 0"),
    ("pkg-config", "exit 0"),
    (
        "apt-get",
        "cd ${0%/*}; echo $* >>log; case $* in *rustc-web*)
            printf '#!/bin/sh\\necho rustc 1.96.0\\n' | tee rustc >cargo; chmod +x rustc cargo ;; esac",
    ),
];
const FETCHES: &str = "echo fetching >&2; exit 7";

/// Runs `scripts/setup build`, with this machine's Rust hidden. Also returns the log of `apt-get`.
fn set_up(programs: &[(&str, &str)]) -> (Ended, String) {
    let programs = Programs::new(&[&DEBIAN, programs].concat());
    let folder = programs.0.path();
    for tool in TOOLS {
        std::os::unix::fs::symlink(Path::new("/usr/bin").join(tool), folder.join(tool)).unwrap();
    }
    let setup = script("setup", &["build"]).with("PATH", folder).with("CARGO_HOME", "/nonexistent");
    let ended = setup.run();
    let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
    (ended, log)
}

#[test]
fn setup_installs_rust_from_debian_if_there_is_none() {
    let version = ("apt-cache", "echo Version: 1.96.0+dfsg1-1~deb12u2");
    let (ended, log) = set_up(&[version, ("curl", FETCHES)]);
    let ended = ended.well();
    let reported = "setup: installing Debian packages: rustc-web cargo-web";
    assert!(ended.messages.iter().any(|line| line == reported), "{ended:#?}");
    let installed = "--no-remove rustc-web cargo-web";
    assert!(log.lines().any(|line| line.contains(installed)), "{log}");
}

#[test]
fn setup_uses_rustup_if_debians_rust_is_too_old() {
    let version = ("apt-cache", "echo Version: 1.85.0+dfsg3-1~deb12u3");
    let (ended, log) = set_up(&[version, ("curl", FETCHES)]);
    assert_eq!(ended.status, Some(1), "{ended:#?}");
    assert!(ended.messages.iter().any(|line| line == "fetching"), "{ended:#?}");
    assert!(!log.contains("rustc-web"), "{log}");
}

#[test]
fn setup_reports_an_old_rust_before_any_download() {
    let old = ("rustc", "echo 'rustc 1.85.0 (4d91de4e4 2025-02-17)'");
    let version = ("apt-cache", "echo Version: 1.96.0+dfsg1-1~deb12u2");
    let reported = "setup: Rust 1.85.0 is too old: version 1.89 is required";
    let (ended, log) = set_up(&[old, version, ("cargo", "exit 0"), ("curl", FETCHES)]);
    assert_eq!(ended.status, Some(1), "{ended:#?}");
    assert_eq!(ended.messages[0], reported, "{ended:#?}");
    let hint =
        "setup: hint: apt-get install rustc-web cargo-web (replaces Debian's rustc and cargo), or ";
    assert!(ended.messages[1].starts_with(hint) && ended.messages.len() == 2, "{ended:#?}");
    assert_eq!(log, "");
    let (ended, _) = set_up(&[old, ("cargo", "exit 0"), ("rustup", FETCHES)]);
    assert_eq!(ended.status, Some(1), "{ended:#?}");
    assert_eq!(ended.messages[0], reported, "{ended:#?}");
    assert!(ended.messages.iter().any(|line| line == "fetching"), "{ended:#?}");
}

/// Builds a guest from a package that unpacks so into `$2`. `None` without the requirements.
fn guest(unpacks: &str) -> Option<Ended> {
    if !Path::new("/usr/sbin/depmod").exists() && !Path::new("/sbin/depmod").exists() {
        skipped(Lack::Package, "there is no depmod; install kmod");
        return None;
    }
    let programs = Programs::new(&[
        ("uname", "echo x86_64"),
        ("apt-cache", "echo '  Depends: linux-image-9.9-rt'"),
        ("apt-get", "case $* in *download*) touch linux-image-9.9-rt.deb ;; esac"),
        ("dpkg", unpacks),
        ("qemu-system-x86_64", "exit 0"),
        ("busybox", "exit 0"),
        ("cpio", "cat >/dev/null; echo archive"),
    ]);
    Some(programs.run("lab-vm", &["--prepare"]))
}

#[test]
fn a_guest_is_made_of_the_kernel_of_debian_12_and_of_debian_13() {
    for modules in ["lib", "usr/lib"] {
        let unpacks =
            format!("mkdir -p $3/{modules}/modules/9.9-rt $3/boot; echo >$3/boot/vmlinuz-9.9-rt");
        let Some(ended) = guest(&unpacks) else { return };
        let ended = ended.well();
        let last = ended.messages.last().unwrap();
        assert!(last.contains("9.9-rt is ready in "), "{modules}: {ended:#?}");
    }
}

#[test]
fn guest_that_cannot_be_built_is_skipped_with_a_reason() {
    let no_modules = "mkdir -p $3/boot";
    let no_kernel = "mkdir -p $3/lib/modules/9.9-rt";
    for unpacks in [no_modules, no_kernel, "exit 1"] {
        let Some(ended) = guest(unpacks) else { return };
        assert_eq!(ended.status, Some(77), "{unpacks}: {ended:#?}");
        let last = ended.messages.last().unwrap();
        assert!(last.starts_with("SKIPPED (package): the lab guest: "), "{unpacks}: {ended:#?}");
    }
}
