//! Bytes as the standard input of `taut send --control` and `taut recv --control`: each line is
//! answered in one line, and what is understood can be said again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tautline_cli::fuzzing::{Canonical, recv_lines, send_lines};

fuzz_target!(|input: &[u8]| {
    let lines = 1 + input.iter().filter(|byte| **byte == b'\n').count();
    for read in [send_lines, recv_lines] as [fn(&[u8]) -> Vec<Canonical>; 2] {
        let answers = read(input);
        assert!(answers.len() <= lines, "one line, one answer");
        for answer in answers {
            match answer {
                Ok(words) => assert_eq!(read(words.as_bytes()), [Ok(words)]),
                Err(why) => assert!(!why.is_empty() && !why.contains('\n'), "{why}"),
            }
        }
    }
});
