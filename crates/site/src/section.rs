//! Typed values of one table of the file.

use core::ops::RangeInclusive;

use tautline_proto::text::printable;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::mistake::{MistakeKind, shown};
use crate::names::near;

/// Maximum characters of a line of a parser's message.
const MAX_LINE: usize = 300;

/// Mistakes with their byte offsets.
#[derive(Debug, Default)]
pub(crate) struct Mistakes(pub(crate) Vec<(usize, MistakeKind)>);

impl Mistakes {
    /// Whether further mistakes are dropped.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() > crate::MAX_MISTAKES
    }

    pub(crate) fn add(&mut self, at: usize, kind: MistakeKind) {
        // One more mistake shows that there are more mistakes.
        if !self.is_full() {
            self.0.push((at, kind));
        }
    }
}

/// A value and its byte offset.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At<T> {
    pub(crate) at: usize,
    pub(crate) value: T,
}

/// A table of the file.
#[derive(Debug, Clone)]
pub(crate) struct Section<'a> {
    /// Title for messages, such as `zone 'gym'`.
    pub(crate) title: String,
    pub(crate) at: usize,
    table: &'a DeTable<'a>,
}

impl<'a> Section<'a> {
    /// Reports keys that are not in `known`.
    pub(crate) fn new(
        title: String,
        at: usize,
        table: &'a DeTable<'a>,
        known: &[&str],
        mistakes: &mut Mistakes,
    ) -> Self {
        for key in table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
            if mistakes.is_full() {
                break;
            }
            let name = key.get_ref().as_ref();
            let kind = match name {
                "exec" => MistakeKind::Exec,
                _ => MistakeKind::UnknownKey {
                    key: name.to_owned(),
                    table: title.clone(),
                    near: near(name, known.iter().copied()),
                    known: known.join(", "),
                },
            };
            mistakes.add(key.span().start, kind);
        }
        Self { title, at, table }
    }

    /// Tables in `key`, in the order of the file.
    pub(crate) fn tables(
        &self,
        key: &'static str,
        known: &[&str],
        mistakes: &mut Mistakes,
    ) -> Vec<(&'a str, Section<'a>)> {
        let mut found = Vec::new();
        for (name, value) in self.entries(key, mistakes) {
            let Some(table) = value.value.as_table() else {
                let value = shown_value(value.value);
                let kind = MistakeKind::Value { key: key.into(), value, write: "a table" };
                mistakes.add(name.at, kind);
                continue;
            };
            let title = format!("{key} {}", shown(name.value));
            found.push((name.value, Self::new(title, name.at, table, known, mistakes)));
        }
        found
    }

    /// Tables in all keys that are in `names`, in the order of the file.
    pub(crate) fn inner(
        &self,
        names: &[&str],
        known: &[&str],
        mistakes: &mut Mistakes,
    ) -> Vec<(&'a str, Section<'a>)> {
        let mut found = Vec::new();
        for (name, value) in self.table.iter() {
            let (at, text) = (name.span().start, name.get_ref().as_ref());
            if !names.contains(&text) {
                continue;
            }
            match value.get_ref().as_table() {
                Some(table) => {
                    let title = format!("{} of {}", shown(text), self.title);
                    found.push((text, Self::new(title, at, table, known, mistakes)));
                }
                None => {
                    let value = shown_value(value.get_ref());
                    let kind = MistakeKind::Value { key: text.into(), value, write: "a table" };
                    mistakes.add(at, kind);
                }
            }
        }
        found.sort_by_key(|(_, section)| section.at);
        found
    }

    /// Keys and values of the table `key`, in the order of the file. Reports invalid names.
    pub(crate) fn entries(
        &self,
        key: &'static str,
        mistakes: &mut Mistakes,
    ) -> Vec<(At<&'a str>, At<&'a DeValue<'a>>)> {
        let Some(given) = self.table.get(key) else { return Vec::new() };
        let Some(table) = given.get_ref().as_table() else {
            self.wrong(key, given, "a table for each, such as [zone.gym]", mistakes);
            return Vec::new();
        };
        let placed = table.iter().map(|(name, value)| {
            let name = At { at: name.span().start, value: name.get_ref().as_ref() };
            (name, At { at: value.span().start, value: value.get_ref() })
        });
        let mut placed: Vec<_> = placed.collect();
        placed.sort_by_key(|(name, _)| name.at);
        for (name, _) in &placed {
            let text = name.value;
            let fits = (1..=64).contains(&text.chars().count())
                && text.trim() == text
                && !text.contains(',')
                && printable(text, 64) == text;
            if !fits {
                mistakes.add(name.at, MistakeKind::Name(text.to_owned()));
            }
        }
        placed
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.get(key).is_some()
    }

    /// Reports an absent key; `false` then.
    pub(crate) fn require(
        &self,
        key: &'static str,
        example: impl Into<String>,
        mistakes: &mut Mistakes,
    ) -> bool {
        let has = self.has(key);
        if !has {
            let (table, example) = (self.title.clone(), example.into());
            mistakes.add(self.at, MistakeKind::Missing { table, key, example });
        }
        has
    }

    pub(crate) fn text(
        &self,
        key: &'static str,
        write: &'static str,
        mistakes: &mut Mistakes,
    ) -> Option<At<&'a str>> {
        let given = self.table.get(key)?;
        self.text_of(key, given, write, mistakes)
    }

    fn text_of(
        &self,
        key: &'static str,
        given: &'a Spanned<DeValue<'a>>,
        write: &'static str,
        mistakes: &mut Mistakes,
    ) -> Option<At<&'a str>> {
        match given.get_ref().as_str() {
            Some(text) if text.trim_start().starts_with("exec:") => {
                mistakes.add(given.span().start, MistakeKind::Exec);
                None
            }
            Some(text) if !text.is_empty() => Some(At { at: given.span().start, value: text }),
            _ => {
                self.wrong(key, given, write, mistakes);
                None
            }
        }
    }

    /// A text that `read` accepts.
    pub(crate) fn read<T>(
        &self,
        key: &'static str,
        write: &'static str,
        mistakes: &mut Mistakes,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Option<At<T>> {
        let At { at, value: text } = self.text(key, write, mistakes)?;
        let value = read(text);
        if value.is_none() {
            let kind = MistakeKind::Value { key: key.into(), value: shown(text), write };
            mistakes.add(at, kind);
        }
        value.map(|value| At { at, value })
    }

    /// A text whose parser has its own messages.
    pub(crate) fn parse<T, E: ToString>(
        &self,
        key: &'static str,
        write: &'static str,
        mistakes: &mut Mistakes,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let At { at, value: text } = self.text(key, write, mistakes)?;
        let reject = |why: E| {
            // It repeats the value.
            let why = why.to_string();
            let lines: Vec<_> = why.split('\n').map(|line| printable(line, MAX_LINE)).collect();
            mistakes.add(at, MistakeKind::Rejected { key, why: lines.join("\n") });
        };
        parse(text).map_err(reject).ok()
    }

    /// A list of texts; never empty.
    pub(crate) fn list(
        &self,
        key: &'static str,
        write: &'static str,
        mistakes: &mut Mistakes,
    ) -> Option<Vec<At<&'a str>>> {
        let given = self.array(key, write, mistakes)?;
        let texts = given.iter().filter_map(|each| self.text_of(key, each, write, mistakes));
        Some(texts.collect())
    }

    /// A text, or a list of texts; never empty.
    pub(crate) fn texts(
        &self,
        key: &'static str,
        write: &'static str,
        mistakes: &mut Mistakes,
    ) -> Option<Vec<At<&'a str>>> {
        match self.table.get(key)?.get_ref() {
            DeValue::Array(_) => self.list(key, write, mistakes),
            _ => self.text(key, write, mistakes).map(|text| vec![text]),
        }
    }

    fn array(
        &self,
        key: &'static str,
        write: &'static str,
        mistakes: &mut Mistakes,
    ) -> Option<&'a [Spanned<DeValue<'a>>]> {
        let given = self.table.get(key)?;
        let array = given.get_ref().as_array().filter(|array| !array.is_empty());
        if array.is_none() {
            self.wrong(key, given, write, mistakes);
        }
        array.map(|array| array.as_ref())
    }

    pub(crate) fn integer(
        &self,
        key: &'static str,
        range: RangeInclusive<i64>,
        write: &'static str,
        mistakes: &mut Mistakes,
    ) -> Option<At<i64>> {
        let given = self.table.get(key)?;
        self.integer_of(key, given, &range, write, mistakes)
    }

    /// A list of integers; never empty.
    pub(crate) fn integers(
        &self,
        key: &'static str,
        range: RangeInclusive<i64>,
        write: &'static str,
        mistakes: &mut Mistakes,
    ) -> Option<Vec<At<i64>>> {
        let given = self.array(key, write, mistakes)?;
        let all = given.iter().filter_map(|it| self.integer_of(key, it, &range, write, mistakes));
        Some(all.collect())
    }

    fn integer_of(
        &self,
        key: &'static str,
        given: &Spanned<DeValue<'a>>,
        range: &RangeInclusive<i64>,
        write: &'static str,
        mistakes: &mut Mistakes,
    ) -> Option<At<i64>> {
        let value = integer(given.get_ref()).filter(|value| range.contains(value));
        if value.is_none() {
            self.wrong(key, given, write, mistakes);
        }
        value.map(|value| At { at: given.span().start, value })
    }

    /// Tables in the list `key`; never empty. `title` names each.
    pub(crate) fn items(
        &self,
        key: &'static str,
        (title, known): (&str, &[&str]),
        write: &'static str,
        mistakes: &mut Mistakes,
    ) -> Option<Vec<Section<'a>>> {
        let mut found = Vec::new();
        for item in self.array(key, write, mistakes)? {
            match item.get_ref().as_table() {
                Some(table) => {
                    let at = item.span().start;
                    found.push(Self::new(title.to_owned(), at, table, known, mistakes));
                }
                None => self.wrong(key, item, write, mistakes),
            }
        }
        Some(found)
    }

    /// An integer or a fraction that `read` accepts.
    pub(crate) fn number<T>(
        &self,
        key: &'static str,
        write: &'static str,
        mistakes: &mut Mistakes,
        read: impl FnOnce(f64) -> Option<T>,
    ) -> Option<At<T>> {
        let given = self.table.get(key)?;
        let number = match given.get_ref() {
            DeValue::Float(number) => number.as_str().parse().ok(),
            value => integer(value).map(|number| number as f64),
        };
        let value = number.and_then(read);
        if value.is_none() {
            self.wrong(key, given, write, mistakes);
        }
        value.map(|value| At { at: given.span().start, value })
    }

    pub(crate) fn boolean(&self, key: &'static str, mistakes: &mut Mistakes) -> Option<bool> {
        let given = self.table.get(key)?;
        let value = given.get_ref().as_bool();
        if value.is_none() {
            self.wrong(key, given, "true or false", mistakes);
        }
        value
    }

    fn wrong(
        &self,
        key: &'static str,
        given: &Spanned<DeValue<'_>>,
        write: &'static str,
        mistakes: &mut Mistakes,
    ) {
        let value = shown_value(given.get_ref());
        mistakes.add(given.span().start, MistakeKind::Value { key: key.into(), value, write });
    }
}

pub(crate) fn integer(value: &DeValue<'_>) -> Option<i64> {
    let digits = value.as_integer()?;
    i64::from_str_radix(digits.as_str(), digits.radix()).ok()
}

pub(crate) fn shown_value(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => shown(text),
        DeValue::Integer(number) => printable(&number.to_string(), 60),
        DeValue::Float(number) => printable(number.as_str(), 60),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(values) if values.is_empty() => "[]".to_owned(),
        DeValue::Array(_) => "[…]".to_owned(),
        DeValue::Table(_) => "{…}".to_owned(),
    }
}
