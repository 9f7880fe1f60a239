//! Replays `fuzz/seeds` with the targets of this crate.

use std::fs;
use std::path::Path;

/// Fewer for slow targets.
fn mutants(name: &str) -> usize {
    match name {
        "lab_report" | "site" => 100,
        "capture" | "codec" | "file" | "receiver" | "session" => 200,
        _ => 1000,
    }
}

/// Replayed in `tautline_cli::fuzzing`.
const IN_CLI: [&str; 2] = ["control", "toml"];

macro_rules! tests {
    ($($name:ident)*) => {
        const TARGETS: &[&str] = &[$(stringify!($name)),*];

        $(#[test]
        fn $name() {
            let name = stringify!($name);
            tautline_trial::replay(name, mutants(name), tautline_fuzzed::$name);
        })*
    };
}
tautline_fuzzed::targets!(tests);

#[test]
fn each_target_has_seeds_and_a_binary() {
    let mut targets: Vec<String> =
        TARGETS.iter().chain(&IN_CLI).map(|name| (*name).into()).collect();
    targets.sort();
    assert_eq!(stems("seeds"), targets);
    assert_eq!(stems("fuzz_targets"), targets);
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).expect("the manifest is there");
    let binaries = manifest.lines().filter_map(|line| line.strip_prefix("path = \"fuzz_targets/"));
    let mut binaries: Vec<_> = binaries.filter_map(|line| line.strip_suffix(".rs\"")).collect();
    binaries.sort();
    assert_eq!(binaries, targets);
}

fn stems(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(fuzz().join(folder)).expect("the folder is there");
    let names = entries.map(|entry| entry.expect("an entry").path().with_extension(""));
    let mut names: Vec<_> = names
        .map(|path| path.file_name().unwrap_or_default().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn fuzz() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz"))
}
