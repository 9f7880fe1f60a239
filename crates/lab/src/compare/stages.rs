use std::collections::BTreeMap;

use serde::Serialize;

use super::ComparedRow;
use super::read::ReadRow;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ComparedStage {
    pub name: String,
    pub first_ns: Option<i64>,
    pub second_ns: Option<i64>,
    pub difference_ns: Option<i64>,
    pub differs: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ComparedCount {
    pub name: String,
    pub first: u64,
    pub second: u64,
}

pub(super) fn add(row: &mut ComparedRow, first: &ReadRow, second: &ReadRow, minimum: f64) {
    row.stages = stages(first, second, minimum);
    let both = first.counters.iter().filter_map(|(name, count)| {
        let (first, second) = (*count, *second.counters.get(name)?);
        (first != second).then(|| ComparedCount { name: name.clone(), first, second })
    });
    row.counters = both.collect();
    row.only_first = only(first, second);
    row.only_second = only(second, first);
}

/// A stage that only the second report has follows its predecessor in that report.
fn stages(first: &ReadRow, second: &ReadRow, minimum: f64) -> Vec<ComparedStage> {
    let mut names: Vec<&str> = first.stage_names().collect();
    let mut at = 0;
    for name in second.stage_names() {
        at = match names.iter().position(|known| *known == name) {
            Some(known) => known + 1,
            None => {
                names.insert(at, name);
                at + 1
            }
        };
    }
    let stage = |name: &str| {
        let [first_ns, second_ns] = [first, second].map(|row| row.stage_median(name));
        let difference_ns = first_ns.zip(second_ns).map(|(a, b)| b.saturating_sub(a));
        let unsure = [first, second].map(|row| row.uncertainty_of(name).unwrap_or(0) as f64);
        let limit = minimum.max(unsure.iter().sum());
        let differs = difference_ns.is_some_and(|difference| (difference as f64).abs() > limit);
        ComparedStage { name: name.to_owned(), first_ns, second_ns, difference_ns, differs }
    };
    let known = |stage: &ComparedStage| stage.first_ns.is_some() || stage.second_ns.is_some();
    names.into_iter().map(stage).filter(known).collect()
}

fn only(row: &ReadRow, other: &ReadRow) -> Vec<String> {
    fn keys<V>(of: &BTreeMap<String, V>, there: &BTreeMap<String, V>) -> Vec<String> {
        of.keys().filter(|key| !there.contains_key(*key)).cloned().collect()
    }
    let stages = row.stage_names().filter(|name| !other.stage_names().any(|there| there == *name));
    let stages = stages.map(|name| format!("stage {name}"));
    let figures = keys(&row.row.words, &other.row.words).into_iter();
    // Lab rows have no counters.
    let counts = match other.counters.is_empty() {
        true => Vec::new(),
        false => keys(&row.counters, &other.counters),
    };
    stages.chain(figures).chain(counts).collect()
}

pub(crate) fn signed_ms(nanos: i64) -> String {
    format!("{:+.3} ms", nanos as f64 / 1e6)
}

impl ComparedStage {
    pub(super) fn reported(&self) -> Option<String> {
        self.difference_ns.map(|difference| format!("{} {}", self.name, signed_ms(difference)))
    }
}
