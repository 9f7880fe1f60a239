//! Changes during a run: each line of standard input gets one answer on standard error.

use std::io::{BufRead, Read};

use tautline_engine::control::{Answer, ChangeSender};
use tautline_proto::device::Stop;

use crate::failure::{Failure, on_one_line};
use crate::messages::{cannot_change, changed};
use crate::screen::Answers;

/// Maximum bytes of a line: a few times sixteen addresses.
const LONGEST: u64 = 8192;

/// Reads standard input on a detached thread, which may wait forever. `read` parses each line;
/// `quit` requests a stop. The end of the input does not end the run.
pub(crate) fn listen<C: Send + 'static>(
    asker: ChangeSender<C>,
    answers: Answers,
    stop: Stop,
    mut read: impl FnMut(&str, &str) -> Result<C, String> + Send + 'static,
) -> Result<(), Failure> {
    let answer = move || {
        let mut input = std::io::stdin().lock();
        while let Some(line) = next_line(&mut input) {
            let Some((verb, rest)) = requested(&line) else { continue };
            let answer = match (verb, rest) {
                ("quit", "") => {
                    stop.request();
                    Ok("quit".into())
                }
                _ => read(verb, rest).and_then(|change| in_words(&asker.request(change))),
            };
            answers.emit(&words_of(line.trim(), answer));
        }
    };
    let thread = std::thread::Builder::new().name("taut-control".into()).spawn(answer);
    thread.map(drop).map_err(|error| Failure::running(format!("reading standard input: {error}")))
}

/// Splits off the verb. `None` for an empty line or a comment.
pub(crate) fn requested(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let (verb, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    (!line.is_empty() && !line.starts_with('#')).then_some((verb, rest.trim()))
}

fn in_words(answer: &Answer) -> Result<String, String> {
    answer.as_ref().map(changed).map_err(cannot_change)
}

fn words_of(line: &str, answer: Result<String, String>) -> String {
    match answer {
        Ok(state) => format!("ok {state}"),
        Err(why) => format!("error {line}: {}", on_one_line(&why)),
    }
}

/// Cut at the maximum length. `None` at the end of the input.
pub(crate) fn next_line(input: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    let read = input.by_ref().take(LONGEST).read_until(b'\n', &mut line).ok()?;
    if read as u64 == LONGEST && line.last() != Some(&b'\n') {
        input.skip_until(b'\n').ok()?;
    }
    (read > 0).then(|| String::from_utf8_lossy(&line).into_owned())
}

pub(crate) fn nothing<C>(verb: &str, rest: &str, change: C) -> Result<C, String> {
    match rest {
        "" => Ok(change),
        _ => Err(format!("{verb} takes nothing after it\nhint: write {verb} alone")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_one_by_one_and_long_ones_are_cut() {
        let long = "x".repeat(20_000);
        let text = format!("first\r\n{long}\n\nlast");
        let mut input = std::io::BufReader::new(text.as_bytes());
        let lines: Vec<_> = core::iter::from_fn(|| next_line(&mut input)).collect();
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert_eq!((lines[0].trim(), lines[2].trim(), lines[3].as_str()), ("first", "", "last"));
        assert_eq!(lines[1].len() as u64, LONGEST);
    }

    #[test]
    fn an_answer_begins_with_ok_or_error() {
        assert_eq!(words_of("ptime 2ms", Ok("ptime 2ms".into())), "ok ptime 2ms");
        assert_eq!(words_of("x", Err("no\nhint: write y".into())), "error x: no; write y");
    }
}
