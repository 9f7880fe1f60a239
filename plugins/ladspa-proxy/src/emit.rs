//! Reports on standard error; standard output belongs to the host.

use std::io::Write as _;

/// One write, so that lines do not mix.
pub(crate) fn emit(sentence: &str) {
    let _ = std::io::stderr().write_all(format!("tautline: {sentence}\n").as_bytes());
}
