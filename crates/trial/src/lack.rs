//! Reports inconclusive tests in a uniform line format.

use core::fmt;
use core::panic::Location;
use std::io::Write as _;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    Package,
    Privilege,
    Device,
    Host,
}

impl Lack {
    /// Classifies an error message: missing program, or missing privilege.
    pub fn reported_by(why: &str) -> Self {
        // Messages of the system and of a shell.
        let absent = ["No such file", "not found"].iter().any(|words| why.contains(words));
        if absent { Self::Package } else { Self::Privilege }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Package => "package",
            Self::Privilege => "privilege",
            Self::Device => "device",
            Self::Host => "host",
        })
    }
}

/// Reports an inconclusive test. Not a macro: the test runner hides macro output of passed tests.
#[track_caller]
pub fn skipped(lack: Lack, why: &str) {
    // A single write, so that lines do not mix.
    let _ = std::io::stderr().write_all(line(lack, &current_test(), why).as_bytes());
}

/// Test's path; on other threads, the caller's location.
#[track_caller]
pub(crate) fn current_test() -> String {
    let caller = Location::caller();
    match std::thread::current().name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => format!("{}:{}", caller.file(), caller.line()),
    }
}

/// Counted by `make test`.
fn line(lack: Lack, test: &str, why: &str) -> String {
    let why: Vec<_> = why.lines().map(str::trim).filter(|part| !part.is_empty()).collect();
    format!("SKIPPED ({lack}): {test}: {}\n", why.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inconclusive_test_is_one_line_with_its_reason() {
        for (lack, kind) in [
            (Lack::Package, "package"),
            (Lack::Privilege, "privilege"),
            (Lack::Device, "device"),
            (Lack::Host, "host"),
        ] {
            let said = line(lack, "a_test", "two\n  lines\n");
            assert_eq!(said, format!("SKIPPED ({kind}): a_test: two; lines\n"));
        }
    }

    #[test]
    fn the_current_test_is_known_by_its_thread() {
        let path = "lack::tests::the_current_test_is_known_by_its_thread";
        let elsewhere = std::thread::spawn(current_test).join().unwrap();
        assert!(
            elsewhere.contains("ops/function.rs") || elsewhere.contains("lack.rs:"),
            "{elsewhere}"
        );
        assert!([path, "crates/trial/src/lack.rs"].iter().any(|it| current_test().starts_with(it)));
    }

    #[test]
    fn missing_program_is_a_package_forbidden_a_privilege() {
        for (why, lack) in [
            ("No such file or directory (os error 2)", Lack::Package),
            ("exec of \"nft\" failed: No such file or directory", Lack::Package),
            ("sh: 1: iptables: not found", Lack::Package),
            ("RTNETLINK answers: Operation not permitted", Lack::Privilege),
        ] {
            assert_eq!(Lack::reported_by(why), lack, "{why}");
        }
    }
}
