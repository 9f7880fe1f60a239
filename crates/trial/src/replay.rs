use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a fuzz target with each file in `fuzz/seeds/NAME`, and with `mutants` reproducibly mutated
/// copies of each.
///
/// # Panics
///
/// If `target` panics, with the file name and a mutated copy's bytes. If there is no file.
pub fn replay(name: &str, mutants: usize, target: fn(&[u8])) {
    let folder = format!("{}/../../fuzz/seeds/{name}", env!("CARGO_MANIFEST_DIR"));
    let entries = fs::read_dir(&folder).map(|entries| entries.flatten().map(|entry| entry.path()));
    let mut files: Vec<_> = entries.into_iter().flatten().filter(|path| path.is_file()).collect();
    assert!(!files.is_empty(), "no seed in fuzz/seeds/{name}");
    files.sort();
    for path in files {
        let seed = path.file_name().unwrap_or_default().display();
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if !passes(target, &bytes) {
            panic!("fuzz/seeds/{name}/{seed} fails");
        }
        let mut random = fastrand::Rng::with_seed(1);
        for number in 0..mutants {
            let mut mutant = bytes.clone();
            for _ in 0..random.usize(1..=4) {
                mutate(&mut mutant, &mut random);
            }
            if !passes(target, &mutant) {
                let mutant = mutant.escape_ascii();
                panic!("fuzz/seeds/{name}/{seed} fails as mutant {number}: b\"{mutant}\"");
            }
        }
    }
}

fn passes(target: fn(&[u8]), bytes: &[u8]) -> bool {
    catch_unwind(AssertUnwindSafe(|| target(bytes))).is_ok()
}

fn mutate(bytes: &mut Vec<u8>, random: &mut fastrand::Rng) {
    if bytes.is_empty() {
        return bytes.push(random.u8(..));
    }
    let (at, from) = (random.usize(..bytes.len()), random.usize(..bytes.len()));
    match random.u8(..8) {
        0..=3 => bytes[at] ^= 1 << random.u8(..8),
        4 | 5 => bytes[at] = bytes[from],
        6 => {
            let part = bytes[from..bytes.len().min(from + 16)].to_vec();
            bytes.splice(at..at, part);
        }
        _ => bytes.truncate(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(name: &str, target: fn(&[u8])) -> String {
        let panic = catch_unwind(|| replay(name, 50, target)).unwrap_err();
        *panic.downcast::<String>().unwrap()
    }

    #[test]
    fn replay_names_the_failing_file() {
        let failing = message("receiver", |_| panic!("planted"));
        assert_eq!(failing, "fuzz/seeds/receiver/an-arrival-292-years-ago fails");
    }

    #[test]
    fn replay_shows_the_failing_mutant() {
        const SEED: &[u8] = include_bytes!("../../../fuzz/seeds/receiver/an-arrival-292-years-ago");
        let failing = message("receiver", |bytes| assert_eq!(bytes, SEED));
        let begins = "fuzz/seeds/receiver/an-arrival-292-years-ago fails as mutant ";
        assert!(failing.starts_with(begins), "{failing}");
    }

    #[test]
    fn replay_needs_a_seed() {
        assert_eq!(message("no-such-target", |_| ()), "no seed in fuzz/seeds/no-such-target");
    }
}
