//! Lines of bounded length from a pipe.

use std::io::{BufRead, BufReader, Read};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BoundedLine {
    Whole(String),
    TooLong,
}

/// Strips line ends and replaces invalid UTF-8. Ends at a line of more than `maximum` bytes.
pub(crate) fn lines_within(from: impl Read, maximum: usize) -> impl Iterator<Item = BoundedLine> {
    let mut from = BufReader::new(from);
    let mut over = false;
    core::iter::from_fn(move || {
        if over {
            return None;
        }
        let mut line = Vec::new();
        let read = from.by_ref().take(maximum as u64 + 1).read_until(b'\n', &mut line).ok()?;
        if line.pop_if(|last| *last == b'\n').is_none() && read > maximum {
            over = true;
            return Some(BoundedLine::TooLong);
        }
        (read > 0).then(|| BoundedLine::Whole(String::from_utf8_lossy(&line).into_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_long_line_is_reported_and_ends_reading() {
        let whole = |text: &str| BoundedLine::Whole(text.into());
        let all = |text: &str| lines_within(text.as_bytes(), 4).collect::<Vec<_>>();
        assert_eq!(all("one\n\nfour\nend"), [whole("one"), whole(""), whole("four"), whole("end")]);
        assert_eq!(all("one\ntoo long\nend"), [whole("one"), BoundedLine::TooLong]);
        let endless = lines_within(std::io::repeat(b'x'), 1 << 20).collect::<Vec<_>>();
        assert_eq!(endless, [BoundedLine::TooLong]);
    }
}
