//! An experiment's report for text, JSON and page.

pub(crate) mod bounded;
mod by_second;
#[cfg(test)]
mod tests;
pub(crate) mod text;

use serde::de::IgnoredAny;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use tautline_proto::time::{LocalTime, Span};
use tautline_report::StageSummary;
use tautline_report::distribution::Summary;
use tautline_report::ledger::{LAUNCH, LedgerInstants, STAGES, length, longest};

use crate::statistics::{Bin, Interval, Missed, Series};

pub use by_second::{PartBySecond, RECEIVER_LATE, SENDER_LATE, SecondCount, StreamBySecond};

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LabReport {
    pub schema: u32,
    pub experiment: Cow<'static, str>,
    pub question: Cow<'static, str>,
    /// Result of a search, or why the search has no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    pub command: String,
    pub duration_ns: i64,
    pub hosts: Vec<HostDescription>,
    #[serde(deserialize_with = "bounded::rows")]
    pub rows: Vec<ReportRow>,
    pub notes: Vec<String>,
}

impl LabReport {
    pub fn of(experiment: &'static str, question: &'static str) -> Self {
        let (experiment, question) = (experiment.into(), question.into());
        Self { schema: 2, experiment, question, ..Self::default() }
    }

    /// Conditions, once for all rows that have the same.
    pub(crate) fn conditions(&self) -> Vec<String> {
        let known = || self.rows.iter().filter_map(|row| Some((row, row.conditions.as_deref()?)));
        match known().next() {
            None => Vec::new(),
            Some((_, first)) if known().all(|(_, other)| other == first) => {
                vec![format!("conditions: {first}")]
            }
            Some(_) => {
                let line = |(row, text): (&ReportRow, &str)| format!("{}: {text}", row.name);
                known().map(line).collect()
            }
        }
    }

    pub fn says_something(&self) -> bool {
        self.rows.iter().any(|row| row.invalid.is_none())
    }

    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostDescription {
    /// `here`, `netns:NAME` or `ssh:HOST`, for streams with the role.
    pub name: String,
    pub kernel: String,
    pub processor: String,
    pub cpus: usize,
    /// Stalls of all cores; absent if not monitored.
    pub stalls: Option<u64>,
}

impl HostDescription {
    pub fn here(name: impl Into<String>) -> Self {
        let line = |path| fs::read_to_string(path).ok().map(|text: String| text.trim().to_owned());
        Self {
            name: name.into(),
            kernel: line("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into()),
            processor: processor().unwrap_or_else(|| "unknown processor".into()),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            stalls: None,
        }
    }
}

/// First core's model in proc_cpuinfo(5); absent on some architectures.
fn processor() -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Only compared fields are deserialized.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ReportRow {
    pub name: String,
    pub invalid: Option<String>,
    /// Devices, periods, format and clocks.
    #[serde(default)]
    pub conditions: Option<String>,
    #[serde(rename = "configured_ns", default, with = "nanos")]
    pub configured: Option<Span>,
    pub measured: Option<Summary>,
    /// ± bound of the median.
    #[serde(rename = "uncertainty_ns", default, with = "nanos")]
    pub uncertainty: Option<Span>,
    /// Whether each value is one run's figure: too few for a tail.
    #[serde(skip)]
    pub of_rounds: bool,
    pub missed: Option<Missed>,
    #[serde(flatten, serialize_with = "by_key", skip_deserializing)]
    pub figures: Vec<Figure>,
    /// When deserialized: the keys of its figures.
    #[serde(default, skip_serializing)]
    pub words: BTreeMap<String, IgnoredAny>,
    /// When deserialized: this figure.
    #[serde(skip_serializing)]
    pub stalls: Option<u64>,
    #[serde(skip_deserializing)]
    pub published: Vec<Published>,
    #[serde(default, deserialize_with = "bounded::stages")]
    pub stages: Vec<StageSummary>,
    pub stream: Option<StreamBySecond>,
    #[serde(default)]
    pub intervals: Vec<Interval>,
    #[serde(skip_deserializing)]
    pub histogram: Vec<Bin>,
    #[serde(skip_deserializing)]
    pub worst: Vec<Worst>,
    #[serde(default)]
    pub meanwhile: Vec<Meanwhile>,
    #[serde(default)]
    pub events: Vec<Events>,
    /// Every value, for the page only; lines share a time axis.
    #[serde(skip)]
    pub points: Vec<Points>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// JSON key, with unit.
    pub key: &'static str,
    /// Label, unit after a comma.
    pub words: &'static str,
    pub value: Value,
    /// In the same unit; the text shows only significant digits.
    pub error: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Published {
    pub source: &'static str,
    /// With the statistic if it differs from the row's.
    pub name: &'static str,
    pub statistic: Statistic,
    pub value_ns: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Statistic {
    Single,
    Mean,
    Stdev,
    Max,
}

impl Statistic {
    /// Whether the figure is comparable with a median, unlike a spread or maximum.
    pub const fn is_typical(self) -> bool {
        matches!(self, Self::Single | Self::Mean)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Worst {
    /// Since the run's first value.
    pub at_ns: i64,
    pub value_ns: i64,
    pub cause: Option<String>,
    pub stages: Vec<WorstPart>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorstPart {
    pub name: Cow<'static, str>,
    pub length_ns: i64,
}

impl Worst {
    pub(crate) fn made_of<N: Into<Cow<'static, str>>>(
        &mut self,
        stages: impl Iterator<Item = (N, i64)>,
    ) {
        let part = |(name, length_ns): (N, i64)| WorstPart { name: name.into(), length_ns };
        self.stages = stages.map(part).collect();
        self.cause = longest(self.stages.iter().map(|stage| (&*stage.name, stage.length_ns)));
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Meanwhile {
    pub key: Cow<'static, str>,
    #[serde(default)]
    pub words: Cow<'static, str>,
    /// Time since the run's first value, and sample.
    pub values: Vec<(i64, f64)>,
    #[serde(skip)]
    pub drawn: bool,
}

impl Meanwhile {
    pub fn drawn(
        key: impl Into<Cow<'static, str>>,
        words: impl Into<Cow<'static, str>>,
        values: Vec<(i64, f64)>,
    ) -> Self {
        Self { key: key.into(), words: words.into(), values, drawn: true }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Events {
    pub key: Cow<'static, str>,
    #[serde(default)]
    pub words: Cow<'static, str>,
    /// Time since the run's first value (may be negative), and number of events.
    pub values: Vec<(i64, u32)>,
    pub without_time: u64,
}

impl Events {
    /// `all` includes events without a time.
    pub(crate) fn since(
        begin: i64,
        (key, words): (&'static str, &'static str),
        reported: impl Iterator<Item = (i64, u32)>,
        all: u64,
    ) -> Option<Self> {
        let values: Vec<_> =
            reported.filter_map(|(at, count)| Some((at.checked_sub(begin)?, count))).collect();
        let reported = values.iter().map(|(_, count)| u64::from(*count)).sum();
        let unreported = all.saturating_sub(reported);
        let (key, words) = (key.into(), words.into());
        (!values.is_empty() || unreported > 0).then_some(Self {
            key,
            words,
            values,
            without_time: unreported,
        })
    }

    pub(crate) fn within(&self, range: core::ops::RangeInclusive<i64>) -> Vec<(i64, u32)> {
        self.values.iter().filter(|(at, _)| range.contains(at)).copied().collect()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Points {
    pub name: String,
    pub values: Vec<(i64, i64)>,
}

impl Points {
    pub(crate) fn of(name: &str, series: &Series) -> Self {
        Self::since(series.begin().unwrap_or(LocalTime::ZERO), name, series)
    }

    pub(crate) fn since(begins: LocalTime, name: &str, series: &Series) -> Self {
        let values = series.values().iter();
        let at = |(due, value): &(LocalTime, Span)| ((*due - begins).as_nanos(), value.as_nanos());
        Self { name: name.to_owned(), values: values.map(at).collect() }
    }

    /// Since capture, one line per stage.
    pub(crate) fn of_stages(
        packets: impl Iterator<Item = (i64, LedgerInstants)> + Clone,
    ) -> Vec<Self> {
        let line = |(at, name): (usize, &&str)| {
            let value = |(since, instants): (i64, LedgerInstants)| {
                Some((since, instants[at + 1]?.checked_sub(instants[0]?)?))
            };
            let values = packets.clone().filter_map(value).collect();
            Self { name: (*name).to_owned(), values }
        };
        let launched = |at| packets.clone().any(|(_, instants)| length(&instants, at).is_some());
        let reported = |(at, name): &(usize, &&str)| **name != LAUNCH || launched(*at);
        STAGES.iter().enumerate().filter(reported).map(line).collect()
    }
}

pub const INTERVAL: Span = Span::from_secs(1);
const WORST: usize = 10;

impl ReportRow {
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    pub fn invalid(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self { invalid: Some(why.into()), ..Self::named(name) }
    }

    #[must_use]
    pub fn with(mut self, series: &Series) -> Self {
        self.measured = Some(series.summary());
        self.intervals = series.intervals(INTERVAL);
        self.histogram = series.histogram();
        let begin = series.begin();
        let worst = |(due, value): (LocalTime, Span)| Worst {
            at_ns: begin.map_or(0, |begin| (due - begin).as_nanos()),
            value_ns: value.as_nanos(),
            ..Worst::default()
        };
        self.worst = series.worst(WORST).into_iter().map(worst).collect();
        self
    }

    pub fn count_missed(&mut self, series: &Series, is_missed: impl Fn(Span) -> bool) {
        let mut seconds: BTreeMap<i64, u32> = BTreeMap::new();
        let (begin, second) = (series.begin().unwrap_or(LocalTime::ZERO), INTERVAL.as_nanos());
        for (due, value) in series.values() {
            let number = (*due - begin).as_nanos().div_euclid(second);
            *seconds.entry(number).or_insert(0) += u32::from(is_missed(*value));
        }
        let missed = seconds.values().map(|missed| u64::from(*missed)).sum();
        self.missed = Some(Missed::of(missed, series.values().len() as u64));
        if missed > 0 {
            let middle = |number: i64| number * second + second / 2;
            let reported =
                seconds.iter().map(|(number, missed)| (middle(*number), f64::from(*missed)));
            let (key, words) = ("missed".into(), "missed".into());
            self.meanwhile.push(Meanwhile { key, words, values: reported.collect(), drawn: false });
        }
    }

    pub fn add(&mut self, key: &'static str, words: &'static str, value: impl Into<Value>) {
        self.figures.retain(|figure| figure.key != key);
        self.figures.push(Figure { key, words, value: value.into(), error: None });
    }

    pub fn add_within(
        &mut self,
        key: &'static str,
        words: &'static str,
        value: impl Into<Value>,
        error: f64,
    ) {
        self.figures.push(Figure { key, words, value: value.into(), error: Some(error) });
    }
}

mod nanos {
    use super::{Deserialize, Deserializer, Serialize, Serializer, Span};

    #[expect(clippy::ref_option, reason = "serde calls it so")]
    pub(super) fn serialize<S: Serializer>(span: &Option<Span>, to: S) -> Result<S::Ok, S::Error> {
        span.map(Span::as_nanos).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Span>, D::Error> {
        Ok(Option::<i64>::deserialize(from)?.map(Span::from_nanos))
    }
}

fn by_key<S: Serializer>(figures: &[Figure], to: S) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(None)?;
    for Figure { key, value, .. } in figures {
        map.serialize_entry(key, value)?;
    }
    let words = figures.iter().map(|figure| (figure.key, figure.words));
    map.serialize_entry("words", &words.collect::<BTreeMap<_, _>>())?;
    map.end()
}
