use tautline_proto::time::{LocalTime, Span};

use super::counters::{MachineCounters, ProcessCounters};
use super::rates;
use super::rates::Quantity;
use crate::report::{Meanwhile, ReportRow};

#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) at: LocalTime,
    pub(super) machine: MachineCounters,
    /// In PID order; `None` if ended.
    pub(super) processes: Box<[Option<ProcessCounters>]>,
}

#[derive(Debug)]
pub struct Record {
    pub(super) samples: Vec<Sample>,
    pub(super) names: Vec<String>,
    pub(super) pids: Vec<u32>,
    pub(super) cost: Span,
}

impl Record {
    /// `begin` is the measurement's first value.
    pub fn machine(&self, begin: LocalTime) -> Vec<Meanwhile> {
        self.series(begin, &rates::MACHINE, |before, after| {
            let passed = after.at - before.at;
            rates::machine(&before.machine, &after.machine, passed).to_vec()
        })
    }

    pub fn process(&self, index: usize, begin: LocalTime) -> Vec<Meanwhile> {
        self.series(begin, &rates::PROCESS, |before, after| {
            let of = |sample: &Sample| sample.processes.get(index).copied().flatten();
            let all = |sample: &Sample| sample.machine.ticks.map_or(0, |ticks| ticks.all);
            let machine = rates::RatesMeanwhile {
                ticks: all(after).saturating_sub(all(before)),
                cores: after.machine.cores,
                passed: after.at - before.at,
            };
            match (of(before), of(after)) {
                (Some(before), Some(after)) => rates::process(&before, &after, machine).to_vec(),
                _ => Vec::new(),
            }
        })
    }

    fn series(
        &self,
        begin: LocalTime,
        quantities: &[Quantity],
        between: impl Fn(&Sample, &Sample) -> Vec<Option<f64>>,
    ) -> Vec<Meanwhile> {
        let mut all: Vec<Meanwhile> = quantities
            .iter()
            .map(|Quantity { key, words, .. }| Meanwhile::drawn(*key, *words, Vec::new()))
            .collect();
        for pair in self.samples.windows(2) {
            let at = (pair[1].at - begin).as_nanos();
            for (series, value) in all.iter_mut().zip(between(&pair[0], &pair[1])) {
                series.values.extend(value.map(|value| (at, value)));
            }
        }
        all.retain(|series| !series.values.is_empty());
        all
    }

    fn begin(&self) -> LocalTime {
        self.samples.first().map_or(LocalTime::ZERO, |sample| sample.at)
    }

    pub fn machine_row(&self) -> ReportRow {
        let mut row = row("machine".to_owned(), &rates::MACHINE, self.machine(self.begin()));
        let watched = self.samples.last().map_or(Span::ZERO, |last| last.at - self.begin());
        let cost = 100.0 * self.cost.as_nanos() as f64 / watched.as_nanos().max(1) as f64;
        row.add("cost_percent", "cost of reading, % of a core", cost);
        row
    }

    pub fn process_row(&self, index: usize) -> Option<ReportRow> {
        let meanwhile = self.process(index, self.begin());
        let (pid, name) = (self.pids.get(index)?, self.names.get(index)?);
        (!meanwhile.is_empty())
            .then(|| row(format!("process {pid} ({name})"), &rates::PROCESS, meanwhile))
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let gone = self.pids.iter().enumerate().filter(|(index, _)| {
            let was = |sample: &Sample| sample.processes.get(*index).is_some_and(Option::is_some);
            self.samples.first().is_some_and(was) && !self.samples.last().is_some_and(was)
        });
        gone.map(|(_, pid)| format!("process {pid} ended while it was watched")).collect()
    }
}

fn row(name: String, quantities: &[Quantity], meanwhile: Vec<Meanwhile>) -> ReportRow {
    let mut row = ReportRow::named(name);
    for series in &meanwhile {
        let count = series.values.len().max(1) as f64;
        let mean = series.values.iter().map(|(_, value)| value).sum::<f64>() / count;
        let found = quantities.iter().find(|quantity| quantity.key == series.key);
        if let Some(quantity) = found.filter(|quantity| quantity.shown) {
            row.add(quantity.key, quantity.words, mean);
        }
    }
    row.meanwhile = meanwhile;
    row
}
