use tautline_proto::time::{LocalTime, Span};

use super::grid::CapacityPoint;
use super::judge::{BothDetectors, PointFound, TOO_MUCH, TrySeen};
use super::machines::Machines;
use super::master::MasterLog;
use super::{CapacityFlags, published};
use crate::report::text::share as share_of;
use crate::report::{Meanwhile, Points, ReportRow};
use crate::resources::Record;
use crate::statistics::{Missed, Series};

pub(super) fn row(
    (name, point): (String, &CapacityPoint),
    found: &PointFound,
    bare: Option<&(MasterLog, u64)>,
    options: &CapacityFlags,
) -> ReportRow {
    let PointFound { idle, held, search, .. } = found;
    let (period, usable) = (point.period_span(), held.cost);
    let mut one = Series::with_room(1);
    one.push(LocalTime::ZERO, usable);
    let mut row = ReportRow::named(name).with(&one);
    row.of_rounds = true;
    (row.intervals, row.histogram, row.worst) = (Vec::new(), Vec::new(), Vec::new());
    (row.configured, row.uncertainty) = (Some(period), Some(options.fine));
    row.published = published::of(point);
    let misses = held.misses;
    row.missed =
        Some(Missed::of(misses.otherwise(), misses.due - misses.in_freeze - misses.after_freeze));
    row.add("usable_share", "usable, of the period", share(usable, period));
    row.add("result", "held", if search.held().is_some() { "whole" } else { "missed" });
    row.add("too_much_ns", "too much", search.bad().map(Span::as_nanos));
    row.add("missed_in_stall", "missed in stalls", misses.in_freeze);
    row.add("missed_after_stall", "missed after stalls", misses.after_freeze);
    row.add("missed_of_a_core", "missed in a stall of one core", misses.of_a_core);
    row.add("overrun", "calls past their period", held.log.overrun);
    write_detectors(&mut row, BothDetectors::of(held), found.beyond);
    if let Some(bare) = bare {
        write_exchange(&mut row, point, found);
        write_cost(&mut row, (&idle.log, bare), point.workers);
    }
    write_processors(&mut row, held);
    row.meanwhile = held.record.machine(held.log.called.begin().unwrap_or(LocalTime::ZERO));
    row.meanwhile.iter_mut().for_each(|series: &mut Meanwhile| series.drawn = false);
    row.points = lines(&held.log, bare.is_some());
    row
}

fn write_detectors(row: &mut ReportRow, held: BothDetectors, beyond: Option<BothDetectors>) {
    if let Some(xruns) = held.jack_xruns {
        row.add("jack_xruns", "xruns by JACK", xruns);
        row.add("too_much_missed", "missed at too much", beyond.map(|beyond| beyond.missed));
        let reported = beyond.and_then(|beyond| beyond.jack_xruns);
        row.add("too_much_jack_xruns", "xruns by JACK there", reported);
    }
}

fn write_exchange(row: &mut ReportRow, point: &CapacityPoint, found: &PointFound) {
    let PointFound { idle, held, .. } = found;
    let left = negated(&held.log.slack).summary();
    let of = |value: Option<i64>| value.map(|nanos| -nanos);
    row.add("slack_p50_ns", "left, p50", of(left.p50_ns));
    row.add("slack_p99_ns", "99 of 100 have more", of(left.p99_ns));
    row.add("slack_p999_ns", "999 of 1000", of(left.p999_ns));
    let exchange = idle.log.exchanges.summary();
    row.add("idle_p50_ns", "idle exchange, p50", exchange.p50_ns);
    row.add("idle_p99_ns", "p99 of it", exchange.p99_ns);
    row.add("idle_p999_ns", "p99.9 of it", exchange.p999_ns);
    let called = held.log.called.summary();
    row.add("held_call_p50_ns", "call while held, p50", called.p50_ns);
    row.add("held_call_p99_ns", "p99 while held", called.p99_ns);
    // Slack if only exchange and wait counted.
    let budget = point.period_span().times(i64::from(point.window)) + point.wait_at_max();
    let floor = exchange.p999_ns.map(|nanos| {
        let left = budget.as_nanos() - nanos * 12 / 10;
        left.clamp(0, point.period_span().as_nanos())
    });
    row.add("usable_by_idle_ns", "less 1.2 × p99.9", floor);
}

/// `answered`: bare datagrams that were returned.
fn write_cost(
    row: &mut ReportRow,
    (ours, (bare, answered)): (&MasterLog, &(MasterLog, u64)),
    workers: usize,
) {
    let called = ours.called.summary();
    row.add("call_p50_ns", "idle call, p50", called.p50_ns);
    row.add("call_p99_ns", "p99 of the call", called.p99_ns);
    let there = bare.called.summary();
    row.add("bare_call_p50_ns", "bare call, p50", there.p50_ns);
    let ratio = |ours: i64, bare: i64| (bare > 0).then(|| ours as f64 / bare as f64);
    let calls = called.p50_ns.zip(there.p50_ns).and_then(|(ours, bare)| ratio(ours, bare));
    row.add("call_ratio", "call / bare call", calls);
    let each = |log: &MasterLog| {
        let blocks = log.called.values().len() * workers;
        (blocks > 0).then(|| log.cpu.as_nanos() / blocks as i64)
    };
    row.add("cpu_per_block_ns", "processor time a block", each(ours));
    row.add("bare_cpu_per_block_ns", "of the bare exchange", each(bare));
    let cpu = each(ours).zip(each(bare)).and_then(|(ours, bare)| ratio(ours, bare));
    row.add("cpu_ratio", "its ratio", cpu);
    let lost = bare.due.saturating_sub(*answered);
    if lost > workers as u64 {
        row.add("bare_unanswered", "bare datagrams not back in a period", lost);
    }
}

fn write_processors(row: &mut ReportRow, held: &TrySeen) {
    let TrySeen { log, record, .. } = held;
    let lasted = log.lasted.as_nanos().max(1) as f64;
    row.add("master_percent", "master, % of a core", 100.0 * log.cpu.as_nanos() as f64 / lasted);
    let [user, system] = log.halves.map(|half| half.as_nanos() as f64);
    if user + system > 0.0 {
        // Thread time is in ns, user and system time in ticks.
        let all = 100.0 * log.cpu.as_nanos() as f64 / lasted;
        let user = all * user / (user + system);
        row.add("master_user_percent", "of it user", user);
        row.add("master_system_percent", "of it system", all - user);
    }
    for (key, words, of) in [
        ("workers_user_percent", "workers, user, % of a core", "user_core_percent"),
        ("workers_system_percent", "workers, system, % of a core", "system_core_percent"),
    ] {
        row.add(key, words, of_programs(record, of));
    }
    let machine = record.machine_row();
    for wanted in ["irq_percent", "softirq_percent"].into_iter().chain(PACKETS) {
        let found = machine.figures.iter().find(|figure| figure.key == wanted);
        if let Some(figure) = found {
            row.add(figure.key, figure.words, figure.value.clone());
        }
    }
}

const PACKETS: [&str; 2] = ["packets_out_per_s", "bytes_out_per_s"];

pub(super) fn leave_out_packets(row: &mut ReportRow) {
    let packets = row.figures.iter_mut().filter(|figure| PACKETS.contains(&figure.key));
    packets.for_each(|figure| figure.value = serde_json::Value::Null);
}

/// Sum in percent of a core; `None` if no program runs.
fn of_programs(record: &Record, key: &str) -> Option<f64> {
    let rows = (0..).map_while(|index| record.process_row(index));
    let values = rows.filter_map(|row| {
        let figure = row.figures.into_iter().find(|figure| figure.key == key)?;
        figure.value.as_f64()
    });
    values.reduce(|sum, value| sum + value)
}

fn share(of: Span, all: Span) -> f64 {
    of.as_nanos() as f64 / all.as_nanos().max(1) as f64
}

fn negated(series: &Series) -> Series {
    let mut negated = Series::with_room(series.values().len());
    series.values().iter().for_each(|(due, value)| negated.push(*due, value.times(-1)));
    negated
}

fn lines(log: &MasterLog, offloaded: bool) -> Vec<Points> {
    let begin = log.called.begin().unwrap_or(LocalTime::ZERO);
    let mut lines = vec![Points::since(begin, "call", &log.called)];
    if offloaded {
        lines.push(Points::since(begin, "left", &log.slack));
    }
    lines
}

pub(super) fn notes(
    (options, points): (&CapacityFlags, &[CapacityPoint]),
    machines: &Machines,
) -> Vec<String> {
    let anything = match options.allow.0 > 0.0 {
        true => format!("more than {}", share_of(options.allow.0)),
        false => "anything".to_owned(),
    };
    let mut notes = vec![format!(
        "a run time is too much if {} tries of {} each missed more than {}; the rest was held for \
         {}, and lowered if that missed {anything}: rarer misses are not seen",
        options.tries,
        options.attempt,
        share_of(options.allow.0.max(TOO_MUCH)),
        options.hold
    )];
    if points.iter().any(|point| !point.real) {
        notes.push(
            "virtual work: a timer simulates the plugin's run time, so a few cores replace many \
             machines; effects of caches and CPU temperature are excluded"
                .to_owned(),
        );
    }
    notes.push(published::MASTER.to_owned());
    notes.extend(machines.notes());
    notes
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use serde_json::{Value, json};

    use super::*;
    use crate::page::page;
    use crate::report::LabReport;

    fn row_of(held: BothDetectors, beyond: Option<BothDetectors>) -> ReportRow {
        let mut row = ReportRow::named("a point".to_owned());
        write_detectors(&mut row, held, beyond);
        row
    }

    #[test]
    fn packets_over_loopback_are_no_figure_instead_of_zero() {
        let mut row = ReportRow::named("a point".to_owned());
        row.add("irq_percent", "interrupts", 0.5);
        row.add("packets_out_per_s", "packets out, 1/s", 0.0);
        leave_out_packets(&mut row);
        let row = serde_json::to_value(row).unwrap();
        assert_eq!((&row["irq_percent"], &row["packets_out_per_s"]), (&json!(0.5), &Value::Null));
    }

    const UNDER_JACK: BothDetectors = BothDetectors { missed: 2, jack_xruns: Some(3) };

    #[test]
    fn row_shows_both_miss_counts_only_under_jack() {
        let reported = |row: &ReportRow| {
            let row = serde_json::to_value(row).unwrap();
            ["jack_xruns", "too_much_missed", "too_much_jack_xruns"]
                .map(|key| row.get(key).cloned())
        };
        let beyond = BothDetectors { missed: 20, jack_xruns: Some(19) };
        let both = row_of(UNDER_JACK, Some(beyond));
        assert_eq!(reported(&both), [3, 20, 19].map(|count| Some(json!(count))));
        let whole = row_of(UNDER_JACK, None);
        assert_eq!(reported(&whole), [Some(json!(3)), Some(Value::Null), Some(Value::Null)]);
        let by_a_timer = BothDetectors { jack_xruns: None, ..UNDER_JACK };
        assert_eq!(reported(&row_of(by_a_timer, Some(by_a_timer))), [None, None, None]);
        let mut report = LabReport::asking("capacity");
        report.rows.push(both);
        for shown in [report.to_string(), page(&report)] {
            snapshot!(shown);
        }
    }
}
