//! The file as TOML, and the places of mistakes in it.

use toml::de::{DeTable, Error};

use crate::mistake::{Mistake, MistakeKind};
use crate::section::Mistakes;
use crate::{MAX_BYTES, MAX_MISTAKES, Site};

/// A file with its TOML errors; its other parts are usable.
pub(super) struct Document<'a> {
    pub(super) table: DeTable<'a>,
    errors: Mistakes,
    places: Places<'a>,
}

impl<'a> Document<'a> {
    /// Reads a file of any bytes.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, Vec<Mistake>> {
        if bytes.len() > MAX_BYTES {
            return Err(vec![Mistake { line: 1, column: 1, kind: MistakeKind::TooLarge }]);
        }
        let text = core::str::from_utf8(bytes).map_err(|error| {
            let (valid, rest) = bytes.split_at(error.valid_up_to());
            let places = Places::of(core::str::from_utf8(valid).unwrap_or_default());
            let kind = MistakeKind::NotUtf8(rest.first().copied().unwrap_or_default());
            vec![places.mistake(valid.len(), kind)]
        })?;
        let (table, errors) = DeTable::parse_recoverable(text);
        let places = Places::of(text);
        let errors = toml_mistakes(&errors, &places);
        Ok(Self { table: table.into_inner(), errors, places })
    }

    /// The site if there are no mistakes. A TOML error hides the other mistakes of its line, and
    /// keys that its table seems to lack; an invalid table name hides unknown names.
    pub(super) fn finish(&self, site: Site, found: Mistakes) -> Result<Site, Vec<Mistake>> {
        let errors: Vec<usize> = self.errors.0.iter().map(|(at, _)| *at).collect();
        let has_error = |from: usize, until: usize| {
            errors[errors.partition_point(|at| *at < from)..].first().is_some_and(|at| *at < until)
        };
        let is_syntax = |kind: &MistakeKind| matches!(kind, MistakeKind::Syntax(_));
        let mut syntax = self.errors.0.iter().filter(|(_, kind)| is_syntax(kind));
        let lost_name = syntax.any(|(at, _)| self.places.is_header(*at));
        let is_caused = |(at, kind): &(usize, MistakeKind)| {
            if matches!(kind, MistakeKind::Unknown { .. }) && lost_name {
                return true;
            }
            let lacks =
                matches!(kind, MistakeKind::Missing { .. } | MistakeKind::ExactlyOne { .. });
            let [begin, end] = self.places.bounds(self.places.line(*at));
            has_error(begin, if lacks { self.places.next_header(*at) } else { end })
        };
        let found = found.0.into_iter().filter(|mistake| !is_caused(mistake));
        let mut all: Vec<_> = self.errors.0.iter().cloned().chain(found).collect();
        if all.is_empty() {
            return Ok(site);
        }
        all.sort_by_key(|(at, _)| *at);
        let is_cut = all.len() > MAX_MISTAKES;
        all.truncate(MAX_MISTAKES);
        let end = all.last().map_or(0, |(at, _)| *at);
        all.extend(is_cut.then_some((end, MistakeKind::TooMany)));
        Err(all.into_iter().map(|(at, kind)| self.places.mistake(at, kind)).collect())
    }
}

/// Mistakes in the order of their places. A table defined twice causes one mistake, not one mistake
/// per key.
fn toml_mistakes(errors: &[Error], places: &Places<'_>) -> Mistakes {
    let span = |error: &Error| error.span().unwrap_or(0..0);
    let mut sorted: Vec<&Error> = errors.iter().collect();
    sorted.sort_by_key(|error| span(error).start);
    let (mut mistakes, mut repeated_until) = (Mistakes::default(), 0);
    for error in sorted {
        let (at, duplicate) = (span(error).start, error.message() == "duplicate key");
        if duplicate && at < repeated_until {
            continue;
        }
        if duplicate && places.is_header(at) {
            repeated_until = places.next_header(at);
        }
        let text = places.text.get(span(error)).unwrap_or_default();
        mistakes.add(
            at,
            match duplicate {
                true => MistakeKind::Duplicate(text.to_owned()),
                false => MistakeKind::Syntax(error.message().replace('\n', ", ")),
            },
        );
    }
    mistakes
}

/// Lines and columns of byte offsets.
struct Places<'a> {
    text: &'a str,
    /// Offsets at which lines begin.
    lines: Vec<usize>,
}

impl<'a> Places<'a> {
    fn of(text: &'a str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self { text, lines: core::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect() }
    }

    /// From 1.
    fn line(&self, at: usize) -> usize {
        self.lines.partition_point(|begin| *begin <= at)
    }

    fn mistake(&self, at: usize, kind: MistakeKind) -> Mistake {
        let line = self.line(at);
        let begin = self.lines[line - 1];
        let column = 1 + self.text.get(begin..at).map_or(0, |before| before.chars().count());
        Mistake { line, column, kind }
    }

    /// Begin and end of a line.
    fn bounds(&self, line: usize) -> [usize; 2] {
        [self.lines[line - 1], self.lines.get(line).copied().unwrap_or(self.text.len() + 1)]
    }

    fn text_of(&self, line: usize) -> &'a str {
        let [begin, end] = self.bounds(line);
        &self.text[begin..end.min(self.text.len())]
    }

    fn is_header(&self, at: usize) -> bool {
        self.text_of(self.line(at)).trim_start().starts_with('[')
    }

    /// Begin of the next table, or the end of the file.
    fn next_header(&self, at: usize) -> usize {
        let mut later = self.line(at) + 1..=self.lines.len();
        let next = later.find(|line| self.text_of(*line).trim_start().starts_with('['));
        next.map_or(self.text.len() + 1, |line| self.lines[line - 1])
    }
}
