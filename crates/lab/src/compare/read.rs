//! Reads reports with the types that write them; older and newer reports may differ in fields.
//! Identifies other files.

mod run;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use tautline_report::distribution::Summary;

use super::counts::ReadCounts;
use crate::report::bounded::{MAX_PARTS, MAX_ROWS};
use crate::report::{HostDescription, LabReport, PartBySecond, ReportRow};
use crate::statistics::{MIN, median};

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot read {}: {error}\nhint: check the path", path.display())]
    System { path: PathBuf, error: std::io::Error },
    #[error("{} {what}\nhint: {hint}", path.display())]
    Other { path: PathBuf, what: String, hint: &'static str },
}

/// Maximum report size. The report of an hour of any experiment is smaller.
const LONGEST: u64 = 256 << 20;
/// Maximum size of a stream report. It is read in full, which takes up to a hundred times as much
/// memory.
const LONGEST_RUN: usize = 32 << 20;

/// Maximum seconds: 11.5 days. This limits memory and time.
const MAX_SECONDS: usize = 1_000_000;
/// Maximum packets: a run of the maximum length with the shortest packets.
const MAX_DUE: u64 = 10_000_000_000;

/// A hundredth of a core.
const MIN_CORES: f64 = 0.01;

/// Key of missed packets in the events of a run, and among the counts per second of an experiment.
pub(super) const MISSED: &str = "missed";

const WRITE: &str = "write a report with --report-file X.json";
const AGAIN: &str = "run the experiment again, and let it end";

#[derive(Debug, Clone)]
pub struct ReadReport {
    pub(super) experiment: String,
    command: String,
    hosts: Vec<HostDescription>,
    pub(super) rows: Vec<ReadRow>,
    schema: u32,
    /// CPU time per time of a run: 1 is a core.
    cores: Option<f64>,
}

impl From<LabReport> for ReadReport {
    fn from(report: LabReport) -> Self {
        let LabReport { schema, experiment, command, hosts, rows, .. } = report;
        let rows = rows.into_iter().map(ReadRow::from).collect();
        Self { experiment: experiment.into_owned(), command, hosts, rows, schema, cores: None }
    }
}

/// The rest of the file is skipped: arbitrary JSON takes a hundred times its length in memory.
#[derive(Deserialize)]
struct ReadHead<'a> {
    #[serde(borrow, default)]
    role: Option<&'a RawValue>,
    #[serde(borrow, default)]
    streams: Option<&'a RawValue>,
    #[serde(borrow, default)]
    directions: Option<&'a RawValue>,
    #[serde(borrow, default)]
    experiment: Option<&'a RawValue>,
    #[serde(borrow, default)]
    rows: Option<&'a RawValue>,
    #[serde(borrow, default)]
    schema: Option<&'a RawValue>,
}

fn begins(field: Option<&RawValue>, with: char) -> bool {
    field.is_some_and(|field| field.get().starts_with(with))
}

#[derive(Debug, Clone)]
pub(super) struct ReadRow {
    pub(super) row: ReportRow,
    pub(super) whole_run: bool,
    /// Whole seconds of a run.
    pub(super) run_seconds: u32,
    /// Figure of the xruns of the reporting device, if the other device has another report.
    pub(super) own_xruns: Option<&'static str>,
    pub(super) counters: BTreeMap<String, u64>,
}

impl From<ReportRow> for ReadRow {
    fn from(row: ReportRow) -> Self {
        Self { row, whole_run: false, run_seconds: 0, own_xruns: None, counters: BTreeMap::new() }
    }
}

fn middle(summary: &Summary) -> Option<i64> {
    summary.p50_ns.or(summary.mean_ns)
}

#[derive(Debug, Clone, Default)]
pub(super) struct ReadPart {
    pub(super) p50: Vec<f64>,
    pub(super) p99: Vec<f64>,
    pub(super) max: Vec<f64>,
}

impl ReadPart {
    pub(super) fn of(part: &PartBySecond) -> Self {
        let all = |values: &[i64]| values.iter().map(|value| *value as f64).collect();
        let p99 = part.p99_ns.iter().flatten().map(|value| *value as f64);
        Self { p50: all(&part.p50_ns), p99: p99.collect(), max: all(&part.max_ns) }
    }
}

impl ReadRow {
    pub(super) fn is_comparable(&self) -> bool {
        let row = &self.row;
        row.invalid.is_none() && (!row.intervals.is_empty() || row.missed.is_some())
    }

    /// Whether the row is of a stream. Older reports of streams have no seconds.
    pub(super) fn is_stream(&self) -> bool {
        self.whole_run
            || self.row.stream.is_some()
            || self.row.stages.iter().any(|stage| stage.name == "wire")
    }

    pub(super) fn median(&self) -> Option<i64> {
        self.row.measured.as_ref().and_then(middle)
    }

    pub(super) fn stage_names(&self) -> impl Iterator<Item = &str> {
        self.row.stages.iter().map(|stage| &*stage.name)
    }

    pub(super) fn stage_median(&self, name: &str) -> Option<i64> {
        middle(&self.row.stages.iter().find(|stage| stage.name == name)?.summary)
    }

    pub(super) fn uncertainty_of(&self, stage: &str) -> Option<i64> {
        self.row.stages.iter().find(|one| one.name == stage)?.uncertainty_ns
    }

    pub(super) fn missed_by_second(&self) -> Option<ReadCounts> {
        let missed = self.row.missed?;
        if self.whole_run {
            let known = missed.missed == 0
                || self.row.events.iter().any(|it| it.key == MISSED && !it.values.is_empty());
            return (known && self.run_seconds >= MIN as u32)
                .then(|| self.events(MISSED, self.run_seconds));
        }
        let seconds =
            u32::try_from(self.row.intervals.len()).ok().filter(|seconds| *seconds > 0)?;
        let reported = self.row.meanwhile.iter().find(|read| read.key == MISSED);
        let reported = reported.map(|read| by_second(&read.values)).unwrap_or_default();
        let sum = reported.iter().map(|(_, count)| u64::from(*count)).sum::<u64>();
        (sum == missed.missed).then(|| ReadCounts::of(&reported, seconds))
    }

    pub(super) fn frozen(&self, seconds: u32) -> Option<ReadCounts> {
        self.row.stalls?;
        // Only seconds with stalls matter here.
        let counts =
            self.row.intervals.iter().map(|second| u32::try_from(second.count).unwrap_or(u32::MAX));
        let counts: Vec<(u32, u32)> = (0..).zip(counts).collect();
        Some(ReadCounts::of(&counts, seconds.max(counts.len() as u32)))
    }

    /// Unlisted events are later, so only seconds until then are known.
    pub(super) fn events(&self, key: &str, seconds: u32) -> ReadCounts {
        let Some(events) = self.row.events.iter().find(|events| events.key == key) else {
            return ReadCounts::of(&[], seconds);
        };
        let second = |at: i64| u32::try_from(at.div_euclid(1_000_000_000)).ok();
        let reported = events.values.iter().filter_map(|(at, count)| Some((second(*at)?, *count)));
        let reported: Vec<(u32, u32)> = reported.collect();
        let known = match events.without_time {
            0 => seconds,
            _ => {
                reported.iter().map(|(at, _)| at.saturating_add(1)).max().unwrap_or(0).min(seconds)
            }
        };
        ReadCounts::of(&reported, known)
    }
}

impl ReadRow {
    fn beyond(&self) -> Option<String> {
        let stream = self.row.stream.as_ref();
        let parts = stream.iter().flat_map(|stream| &stream.parts);
        let lists =
            parts.flat_map(|part| [part.p50_ns.len(), part.p99_ns.len(), part.max_ns.len()]);
        let reported = stream.map_or(0, |stream| stream.seconds as usize);
        let run = self.run_seconds as usize;
        let seconds = lists.chain([self.row.intervals.len(), reported, run]).max().unwrap_or(0);
        let parts = stream.map_or(0, |stream| stream.parts.len());
        let figures = self.row.words.len().max(self.counters.len());
        let due = self.due();
        let what = match (seconds > MAX_SECONDS, due > MAX_DUE) {
            (true, _) => format!("{seconds} seconds"),
            (false, true) => format!("{due} packets"),
            (false, false) if parts > MAX_PARTS => format!("{parts} parts"),
            (false, false) if figures > MAX_PARTS => {
                format!("more than {MAX_PARTS} figures")
            }
            (false, false) if self.has_a_part_twice() => "parts of one name".to_owned(),
            (false, false) => return None,
        };
        Some(format!("JSON with a row of {what}"))
    }

    fn has_a_part_twice(&self) -> bool {
        let (mut parts, mut stages) = (BTreeSet::new(), BTreeSet::new());
        let mut of_stream = self.row.stream.iter().flat_map(|stream| &stream.parts);
        of_stream.any(|part| !parts.insert(&part.name))
            || self.row.stages.iter().any(|stage| !stages.insert(&stage.name))
    }

    fn due(&self) -> u64 {
        let missed = self.row.missed.map_or(0, |missed| missed.due.max(missed.missed));
        self.row.stream.as_ref().map_or(0, |stream| stream.due).max(missed)
    }
}

fn by_second(values: &[(i64, f64)]) -> Vec<(u32, u32)> {
    let second = |at: i64| u32::try_from(at.div_euclid(1_000_000_000)).ok();
    values.iter().filter_map(|(at, count)| Some((second(*at)?, *count as u32))).collect()
}

const BUSY: [(&str, &str); 3] = [
    ("busy_percent", "the machine"),
    ("sender_busy_percent", "the sender's machine"),
    ("receiver_busy_percent", "the receiver's machine"),
];
/// Minimum difference in CPU load (percent of all cores) to report. Smaller differences hardly
/// affect latency.
const BUSIER: f64 = 10.0;

impl ReadRow {
    pub(super) fn busier(&self, other: &Self) -> Option<String> {
        let reported = BUSY.iter().find_map(|(key, whose)| {
            let [a, b] = [self, other].map(|row| {
                let read = row.row.meanwhile.iter().find(|read| read.key == *key)?;
                let values: Vec<f64> = read.values.iter().map(|(_, value)| *value).collect();
                (!values.is_empty()).then(|| median(&values))
            });
            let (a, b) = a.zip(b)?;
            let far = (b - a).abs() >= BUSIER;
            far.then(|| {
                format!("{whose} was {a:.0} % busy in the first and {b:.0} % in the second")
            })
        });
        reported.map(|reported| {
            format!("{}: {reported}: other programs delay threads and stages", self.row.name)
        })
    }
}

impl ReadReport {
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let system = |error| ReadError::System { path: path.to_owned(), error };
        let other = |(what, hint): (String, &'static str)| ReadError::Other {
            path: path.to_owned(),
            what,
            hint,
        };
        if path.is_dir() {
            return Err(other(("is a folder".to_owned(), "name a report in it")));
        }
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(system)?;
        file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(system)?;
        if bytes.len() as u64 > LONGEST {
            let what = format!("is not a report: it is longer than {} MiB", LONGEST >> 20);
            return Err(other((what, WRITE)));
        }
        Self::of(&bytes).map_err(other)
    }

    /// On error returns the kind of the text, and the fix.
    pub fn of(bytes: &[u8]) -> Result<Self, (String, &'static str)> {
        let begin = bytes.trim_ascii_start();
        let none = |what: &str| Err((format!("is not a report: it is {what}"), WRITE));
        let other_json = || Err(("is JSON, but not a taut report".to_owned(), WRITE));
        match begin {
            [] => return Err(("is empty".to_owned(), AGAIN)),
            [b'{', ..] => {}
            [b'R', b'I', b'F', b'F', ..] | [b'f', b'L', b'a', b'C', ..] => {
                return none("a recording, which taut compare is for");
            }
            [b'<', ..] => return none("a page"),
            _ if serde_json::from_slice::<IgnoredAny>(begin).is_ok() => return other_json(),
            _ => return none("not JSON"),
        }
        let head: ReadHead<'_> = match serde_json::from_slice(begin) {
            Ok(head) => head,
            Err(error) if error.is_eof() => {
                return Err(("is an incomplete report".to_owned(), AGAIN));
            }
            Err(error) => return none(&format!("JSON with an error: {error}")),
        };
        let is_run =
            begins(head.role, '"') && (begins(head.streams, '[') || begins(head.directions, '['));
        if !is_run && (!begins(head.experiment, '"') || !begins(head.rows, '[')) {
            return other_json();
        }
        if head.schema.and_then(|schema| schema.get().parse::<u64>().ok()).is_none() {
            return none("JSON without a schema");
        }
        if is_run && begin.len() > LONGEST_RUN {
            return none(&format!("longer than {} MiB", LONGEST_RUN >> 20));
        }
        let report = match is_run {
            true => run::read(begin),
            false => serde_json::from_slice::<LabReport>(begin).map(Self::from),
        };
        let report = match report {
            Ok(report) => report,
            Err(error) => return none(&format!("JSON with other fields ({error})")),
        };
        if report.rows.is_empty() {
            return Err(("is a report without rows".to_owned(), AGAIN));
        }
        if report.rows.len() > MAX_ROWS {
            return none(&format!("JSON with more than {MAX_ROWS} rows"));
        }
        let due = report.rows.iter().map(ReadRow::due).fold(0, u64::saturating_add);
        let together = || (due > MAX_DUE).then(|| format!("JSON with rows of {due} packets"));
        match report.rows.iter().find_map(ReadRow::beyond).or_else(together) {
            Some(beyond) => none(&beyond),
            None => Ok(report),
        }
    }

    pub(super) fn seconds(&self) -> u32 {
        self.rows.iter().map(|row| row.row.intervals.len() as u32).max().unwrap_or(0)
    }

    /// Commands of two reports that have nothing to compare: a sender counts other things than a
    /// receiver, and an experiment measures under other conditions than a run.
    pub fn commands_that_differ(&self, other: &Self) -> Option<[String; 2]> {
        let is_run = |report: &Self| report.rows.iter().all(|row| row.whole_run);
        let differ = self.experiment != other.experiment && (is_run(self) || is_run(other));
        differ.then(|| {
            [self, other].map(|report| match is_run(report) {
                true => format!("taut {}", report.experiment),
                false => format!("taut lab {}", report.experiment),
            })
        })
    }

    /// Difference in CPU time that is worth a note.
    fn cpu_beside(&self, other: &Self) -> Option<String> {
        let (a, b) = self.cores.zip(other.cores)?;
        let apart = (b - a).abs();
        (apart >= MIN_CORES && apart >= a.max(b) / 10.0).then(|| {
            let [a, b] = [a, b].map(|cores| cores * 100.0);
            format!("taut used {a:.1} % of a core in the first run and {b:.1} % in the second")
        })
    }

    pub(super) fn notes_beside(&self, other: &Self) -> Vec<String> {
        let mut notes: Vec<String> = self.cpu_beside(other).into_iter().collect();
        if self.experiment != other.experiment {
            notes.push(format!(
                "the first is a report of {}, the second of {}: only shared items are compared",
                self.experiment, other.experiment
            ));
        }
        if self.schema != other.schema {
            notes.push(format!(
                "the first report has schema {}, the second {}: fields of the same name are compared",
                self.schema, other.schema
            ));
        }
        if self.rows.iter().chain(&other.rows).any(|row| row.whole_run) {
            notes.push(
                "a report of one run has no times per second: its median latency is compared without \
                 ruling out chance, and its stages are only listed"
                    .to_owned(),
            );
        }
        let machine = |host: &HostDescription| {
            format!("{} cores, {}, Linux {}", host.cpus, host.processor, host.kernel)
        };
        let machines = |report: &Self| report.hosts.iter().map(machine).collect::<Vec<_>>();
        let known = !self.hosts.is_empty() && !other.hosts.is_empty();
        if known && machines(self) != machines(other) {
            let reported = |report: &Self| {
                let mut all = machines(report);
                all.dedup();
                all.join(" and ")
            };
            notes.push(format!(
                "measured on other machines: {} against {}",
                reported(self),
                reported(other)
            ));
        }
        let froze = |report: &Self| report.hosts.iter().filter_map(|host| host.stalls).max();
        if let Some((a, b)) = froze(self).zip(froze(other)).filter(|(a, b)| a != b) {
            notes.push(format!(
                "stalls of all cores: {a} in the first and {b} in the second, caused by the machine"
            ));
        }
        let known = !self.command.is_empty() && !other.command.is_empty();
        if known && requested(&self.command) != requested(&other.command) {
            notes.push(format!("measured with `{}` and with `{}`", self.command, other.command));
        }
        notes
    }
}

fn requested(command: &str) -> Vec<&str> {
    let mut words = command.split_whitespace().skip(1);
    let mut requested = Vec::new();
    while let Some(word) = words.next() {
        match word {
            "--report" | "--report-file" => _ = words.next(),
            word if word.starts_with("--report=") || word.starts_with("--report-file=") => {}
            word => requested.push(word),
        }
    }
    requested
}
