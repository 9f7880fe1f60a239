//! Wake-up lateness of each core, and stalls of all cores.
//!
//! A thread per core, on one schedule, records its wake-ups. Simultaneous misses on all cores are
//! the host's ([`StallLog`]).

#[cfg(test)]
mod tests;

use std::thread::JoinHandle;

use clap::Args;
use tautline_io::clock::{now, sleep_until, thread_time};
use tautline_io::thread::Scheduler;
use tautline_io::thread::affinity::usable_cores;
use tautline_io::thread::stall::{LATE, Stall, StallLog, WentOn};
use tautline_proto::device::Stop;
use tautline_proto::time::{LocalTime, Span};
use tautline_ui::failure::Failure;
use tautline_ui::readers::span;

use crate::answer::{Answer, Reporting, check_room};
use crate::kept::{lock_memory, spawn_on};
use crate::report::{HostDescription, LabReport, ReportRow};
use crate::schedule::OpenSchedule;
use crate::statistics::Series;

const SHORT_HELP: &str = r#"Examples:
  taut lab stalls --cpus 1 --scheduler other --duration 3600s

Details: taut lab stalls --help"#;

const HELP: &str = r#"Is this machine fit for audio?
  taut lab stalls
  # One core for an hour, as a program without privileges:
  taut lab stalls --cpus 1 --scheduler other --duration 3600s --period 5ms

Lateness is from the requested time to the wake-up; every wake-up due while a
core stalled counts. A period is missed if its wake-up came when the next was
due. A stall of the host is an interval in which no core ran, and each woke at
least 1ms late."#;

/// `taut lab stalls`
#[derive(Debug, Args)]
#[command(after_help = SHORT_HELP, after_long_help = HELP)]
pub struct StallFlags {
    /// Wake-up period of each core
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = span)]
    period: Span,
    /// Duration
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span)]
    duration: Span,
    /// Cores, from 0, such as 0,2 [default: all that this program may use]
    #[arg(long, value_name = "CORES", value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Priority of the waking threads
    #[arg(long, value_name = "CLASS", default_value = "fifo:99")]
    scheduler: Scheduler,
    #[command(flatten)]
    reporting: Reporting,
}

pub(crate) fn run(flags: &StallFlags) -> Result<(), Failure> {
    check_room(flags.values())?;
    let answer = Answer::open(&flags.reporting)?;
    answer.notify(&format!(
        "watching {} cores every {} for {}; use the machine as usual",
        flags.cores().len(),
        flags.period,
        flags.duration
    ));
    let report = measure(flags, &answer.stop);
    answer.give(report)
}

impl StallFlags {
    fn cores(&self) -> Vec<usize> {
        if self.cpus.is_empty() { usable_cores() } else { self.cpus.clone() }
    }

    fn values(&self) -> usize {
        let period = self.period.as_nanos().max(1);
        let each = (self.duration.as_nanos() / period).max(0) as usize + 1;
        each.saturating_mul(self.cores().len())
    }
}

#[derive(Debug)]
struct CoreLog {
    core: usize,
    late: Series,
    cost: Span,
}

const AHEAD: Span = Span::from_millis(20);

fn measure(options: &StallFlags, stop: &Stop) -> LabReport {
    let mut report = LabReport::asking("stalls");
    report.notes.extend(lock_memory());
    let went_on = WentOn::listen();
    // Allocation for one core must not disturb another.
    let each = options.values() / options.cores().len().max(1);
    let rooms: Vec<_> = options.cores().iter().map(|_| Series::with_room(each)).collect();
    let begins = now() + AHEAD;
    let schedule = OpenSchedule::new(begins, options.period, begins + options.duration);
    let watches = options.cores().into_iter().zip(rooms).map(|(core, late)| {
        let watch = Watch { core, schedule, late, stop: stop.clone() };
        let name = format!("taut-wake-{core}");
        (core, spawn_on(core, &name, options.scheduler, move || watch.look()))
    });
    let (mut logs, mut invalid) = (Vec::new(), Vec::new());
    for (core, thread) in watches.collect::<Vec<_>>() {
        match thread.map(JoinHandle::join) {
            Ok(Ok(log)) => logs.extend(log),
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(why) => invalid.push(ReportRow::invalid(name(core), why)),
        }
    }
    notify(&mut report, &logs, |stall| went_on.ended(stall));
    report.rows.extend(invalid);
    if options.scheduler == Scheduler::Other {
        report.notes.push(
            "without real-time priority, other programs look like a late host; use --scheduler \
             fifo:99"
                .to_owned(),
        );
    }
    report
}

fn name(core: usize) -> String {
    format!("core {core}")
}

struct Watch {
    core: usize,
    schedule: OpenSchedule,
    late: Series,
    stop: Stop,
}

impl Watch {
    /// Neither allocates nor writes to new memory.
    fn look(self) -> CoreLog {
        let Self { core, mut schedule, mut late, stop } = self;
        let before = thread_time();
        while let Some(due) = schedule.next().filter(|_| !stop.is_requested()) {
            sleep_until(due);
            let woke = now();
            schedule.pass(woke, |due| late.push(due, woke - due));
        }
        CoreLog { core, late, cost: thread_time() - before }
    }
}

fn notify(report: &mut LabReport, logs: &[CoreLog], own: impl Fn(&Stall) -> bool) {
    let mut stalls: Vec<(usize, Stall)> = Vec::new();
    for (index, log) in logs.iter().enumerate() {
        stalls.extend(stalls_of(&log.late).map(|stall| (index, stall)));
    }
    let stopped = stalls.iter().find(|(_, stall)| own(stall)).map(|(_, stall)| stall.length());
    report.notes.extend(stopped.map(|length| {
        format!("the program itself was stopped for {length}; wake-ups due then are invalid")
    }));
    stalls.retain(|(_, stall)| !own(stall));
    // The log drops the oldest.
    stalls.sort_by_key(|(_, stall)| stall.from);
    let mut common = StallLog::new(logs.len());
    stalls.into_iter().for_each(|(core, stall)| common.record(core, stall));
    let row = |log: &CoreLog| {
        let late = &log.late;
        let period = period(late);
        let mut row = ReportRow::named(name(log.core)).with(late);
        row.count_missed(late, |late| late >= period);
        row.add("cost_percent", "cost, % of the core", share(log.cost, late));
        for worst in &mut row.worst {
            let due = late.begin().unwrap_or(LocalTime::ZERO) + Span::from_nanos(worst.at_ns);
            if common.overlaps(due, due + Span::from_nanos(worst.value_ns)) {
                worst.cause = Some("all cores stalled".to_owned());
            }
        }
        row
    };
    report.rows.extend(logs.iter().map(row));
    let mut host = HostDescription::here("here");
    if !logs.is_empty() {
        let begin = logs.iter().filter_map(|log| log.late.begin()).min();
        report.rows.push(freezes(&common, begin));
        host.stalls = Some(common.total());
    }
    report.notes.extend(verdict(&report.rows, &common));
    report.hosts.push(host);
}

fn verdict(cores: &[ReportRow], freezes: &StallLog) -> Option<String> {
    let reported = |row: &ReportRow| {
        let late = row.measured.as_ref()?;
        let tail = late.p999_ns.map(|nanos| (nanos, "999 of 1000"));
        Some((tail.or_else(|| Some((late.p99_ns?, "99 of 100")))?, row.name.clone()))
    };
    let ((nanos, share), core) = cores.iter().filter_map(reported).max()?;
    let longest = freezes.seen_by_all().map(|stall| stall.length()).max();
    let frozen = match longest {
        None => "the host never stalled".to_owned(),
        Some(longest) => {
            let often = match freezes.total() {
                1 => "once".to_owned(),
                times => format!("{times} times"),
            };
            format!(
                "the host stalled {often}, for up to {longest}: a receiver with a shorter device \
                 buffer has an xrun then"
            )
        }
    };
    let late = Span::from_nanos(nanos);
    Some(format!("{share} wake-ups were at most {late} late, on {core} as the worst; {frozen}"))
}

fn freezes(log: &StallLog, begin: Option<LocalTime>) -> ReportRow {
    let mut lengths = Series::with_room(log.seen_by_all().count());
    let mut seen: Vec<Stall> = log.seen_by_all().collect();
    seen.sort_by_key(|stall| stall.from);
    seen.iter().for_each(|stall| lengths.push(stall.from, stall.length()));
    let mut row = ReportRow::named("stalls of every core").with(&lengths);
    let ahead = lengths.begin().zip(begin).map_or(0, |(first, begin)| (first - begin).as_nanos());
    row.worst.iter_mut().for_each(|worst| worst.at_ns += ahead);
    row.intervals.iter_mut().for_each(|interval| interval.at_ns += ahead);
    let total = seen.iter().map(|stall| stall.length().as_nanos()).sum::<i64>();
    row.add("stalls", "stalls", log.total());
    row.add("stalled_ns", "stalled in total", total);
    row
}

/// Stalls of a core. Values that were due within the same stall share a wake-up.
fn stalls_of(late: &Series) -> impl Iterator<Item = Stall> + '_ {
    let wakes = late.values().chunk_by(|(a, late_a), (b, late_b)| *a + *late_a == *b + *late_b);
    wakes
        .map(|wake| Stall { from: wake[0].0, to: wake[0].0 + wake[0].1 })
        .filter(|stall| stall.length() >= LATE)
}

fn period(late: &Series) -> Span {
    match late.values() {
        [(first, _), (second, _), ..] => *second - *first,
        _ => Span::MAX,
    }
}

fn share(cost: Span, late: &Series) -> f64 {
    let watched = match (late.values().first(), late.values().last()) {
        (Some((first, _)), Some((last, lateness))) => *last + *lateness - *first,
        _ => return 0.0,
    };
    100.0 * cost.as_nanos() as f64 / watched.as_nanos().max(1) as f64
}
