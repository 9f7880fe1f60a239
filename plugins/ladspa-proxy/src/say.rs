//! Reports to the host's user on standard error; standard output belongs to the host.

use std::io::Write as _;

/// Reports a sentence in one write, so that threads do not mix their lines.
pub(crate) fn say(sentence: &str) {
    let _ = std::io::stderr().write_all(format!("tautline: {sentence}\n").as_bytes());
}
