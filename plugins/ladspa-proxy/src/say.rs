//! Reports to the host's user on standard error: standard output is the host's.

use std::io::Write as _;

/// Says it, in one write, so that threads do not mix theirs.
pub(crate) fn say(sentence: &str) {
    // Nobody listens where standard error is closed.
    let _ = std::io::stderr().write_all(format!("tautline: {sentence}\n").as_bytes());
}
