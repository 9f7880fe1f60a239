//! One sentence for whoever runs the host, on standard error: hosts have no other ear, and their
//! standard output is theirs.

use std::io::Write as _;

/// Says it, in one write, so that threads do not mix theirs.
pub(crate) fn say(sentence: &str) {
    // Nobody listens where standard error is closed.
    let _ = std::io::stderr().write_all(format!("tautline: {sentence}\n").as_bytes());
}
