//! Text as `tautline.toml` beside a few command lines: what it adds it adds once, before nothing that
//! the command line says, and what is refused is answered in one sentence.
#![no_main]

use std::ffi::OsString;

use libfuzzer_sys::fuzz_target;
use tautline_cli::fuzzing::{refusal, with_file};

const LINES: [&[&str]; 3] = [
    &["taut", "send", "--latency", "8ms"],
    &["taut", "recv", "--from", "rtp://0.0.0.0:5004", "--output", "null:"],
    &["taut", "doctor"],
];

fuzz_target!(|text: &str| {
    // One at a time: each takes milliseconds.
    let line = LINES[text.len() % LINES.len()];
    let words: Vec<OsString> = line.iter().map(OsString::from).collect();
    let more = match with_file(&words, text) {
        Ok(more) => more,
        Err(why) => return assert!(!why.is_empty()),
    };
    let added = &more[words.len()..];
    if added.is_empty() {
        return;
    }
    assert_eq!(more.get(..words.len()), Some(&words[..]));
    assert!(added.iter().all(|word| word.as_encoded_bytes().starts_with(b"--")), "{added:?}");
    let bytes = added.iter().map(|word| word.len()).sum::<usize>();
    assert!(bytes <= 40 * (text.len() + 1), "{bytes} bytes of {}", text.len());
    // What the command line says, the file does not say again.
    assert_eq!(with_file(&more, text).as_ref(), Ok(&more));
    let why = refusal(&words, text);
    assert!(why.is_none_or(|why| !why.is_empty()));
});
