//! What the scripts beside the tests say on machines that lack something.

use std::path::Path;

use crate::common::program::{Call, Ended, call};
use crate::common::{Folder, Lack, executable, skipped};

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts");

fn script(name: &str, arguments: &[&str]) -> Call {
    call(&format!("{SCRIPTS}/{name}"), arguments)
}

/// A folder of programs that stand before those of the machine.
struct Programs(Folder);

impl Programs {
    fn new(programs: &[(&str, &str)]) -> Self {
        let folder = Folder::new();
        for (name, text) in programs {
            executable(&folder.file(name), &format!("#!/bin/sh\n{text}\n"));
        }
        Self(folder)
    }

    /// The script with these and, of the machine's own programs, Debian's alone.
    fn run(&self, name: &str, arguments: &[&str]) -> Ended {
        let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", self.0.path().display());
        script(name, arguments)
            .with("PATH", path)
            .with("CARGO_HOME", "/nonexistent")
            .with("XDG_CACHE_HOME", self.0.path())
            .run()
    }
}

/// The summary of a command that says these lines and ends so.
fn summary(lines: &str, status: i32, ci: &str) -> Ended {
    let says = format!("printf '{lines}'; exit {status}");
    script("test-summary", &["sh", "-c", &says]).with("CI", ci).run()
}

#[test]
fn what_was_skipped_is_counted_by_what_is_lacking_and_for_which_reason() {
    let lines = "SKIPPED (host): some::one: 5 runs proved nothing\\n\
                 test two ... SKIPPED (host): two: 5 runs proved nothing\\n\
                 SKIPPED (package): three: there is no sox\\nok\\n";
    let said = summary(lines, 0, "").well().out;
    for line in
        ["skipped: 3 (2 host, 1 package)", "2 host: 5 runs proved", "1 package: there is no sox"]
    {
        assert!(said.contains(line), "{said}");
    }
    assert!(summary("ok\\n", 0, "true").well().out.ends_with("skipped: none\n"));
}

#[test]
fn what_fails_is_not_hidden_by_the_count_of_what_was_skipped() {
    for lines in ["ok\\n", "SKIPPED (host): one: 5 runs proved nothing\\n"] {
        assert_eq!(summary(lines, 7, "").status, Some(7));
        assert_eq!(summary(lines, 7, "true").status, Some(7));
    }
}

#[test]
fn a_package_or_privilege_that_the_list_does_not_name_fails_in_continuous_integration() {
    for kind in [" (package)", " (privilege)", ""] {
        let lines = format!("SKIPPED{kind}: one: there is no such thing\\n");
        assert_eq!(summary(&lines, 0, "").status, Some(0), "{kind}");
        let ended = summary(&lines, 0, "true");
        assert_eq!(ended.status, Some(1), "{ended:#?}");
        assert!(ended.out.contains("skips-allowed does not name it"), "{ended:#?}");
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

#[test]
fn a_rust_that_is_too_old_is_told_before_another_is_fetched() {
    let programs = Programs::new(&[
        ("rustc", "echo 'rustc 1.85.0 (4d91de4e4 2025-02-17)'"),
        ("cargo", "exit 0"),
        ("curl", "echo fetching >&2; exit 7"),
        ("rustup", "echo fetching >&2; exit 7"),
        ("apt-get", "echo fetching >&2; exit 7"),
    ]);
    let ended = programs.run("setup", &["build"]);
    assert_eq!(ended.status, Some(1), "{ended:#?}");
    let told = "setup: the Rust that is here, 1.85.0, is older than 1.89, the least that will do";
    assert_eq!(ended.said.first().map(String::as_str), Some(told), "{ended:#?}");
}

/// Builds a guest of a package that unpacks so, in `$2`; `None` where what it takes is not there.
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
        let last = ended.said.last().unwrap();
        assert!(last.contains("9.9-rt is ready in "), "{modules}: {ended:#?}");
    }
}

#[test]
fn a_guest_that_cannot_be_built_is_skipped_and_says_why() {
    let no_modules = "mkdir -p $3/boot";
    let no_kernel = "mkdir -p $3/lib/modules/9.9-rt";
    for unpacks in [no_modules, no_kernel, "exit 1"] {
        let Some(ended) = guest(unpacks) else { return };
        assert_eq!(ended.status, Some(77), "{unpacks}: {ended:#?}");
        let last = ended.said.last().unwrap();
        assert!(last.starts_with("SKIPPED (package): the lab guest: "), "{unpacks}: {ended:#?}");
    }
}
