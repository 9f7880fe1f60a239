//! Max number of streams between two ends: increases until a miss, then bisects and holds.

use clap::Args;
use tautline_proto::time::Span;
use tautline_ui::failure::Failure;

use crate::cases::Cases;
use crate::hosts::HostError;
use crate::impair::Share;
use crate::loadgen::BusyHost;
use crate::report::ReportRow;
use crate::runner::{ANY_UNCERTAINTY, BusyFlags, StreamFlags, StreamShape, line};
use crate::statistics::Missed;
use crate::streams::{LabStream, StreamEnds, StreamOutcome};

const SHORT_HELP: &str = r#"Examples:
  taut lab load --with ssh:studio --duration 60s --hold 10

All options and details: taut lab load --help"#;

const HELP: &str = r#"Examples:
  # Between two programs of this machine, doubling from 1 stream on:
  taut lab load
  # To another machine, for a minute each, then ten minutes with the maximum:
  taut lab load --with ssh:studio --duration 60s --hold 10
  # Next to two busy threads:
  taut lab load --load spin:2

One sender sends each stream to its own destination, and one receiver plays all
of them mixed. Packets missed while the host stalled are reported separately and
do not count."#;

/// `taut lab load`
#[derive(Debug, Args)]
#[command(after_help = SHORT_HELP, after_long_help = HELP, mut_arg("max_uncertainty", |arg| arg.help(ANY_UNCERTAINTY)))]
pub struct LoadFlags {
    /// Maximum number of streams
    #[arg(long, value_name = "N", default_value_t = 256, help_heading = "Run",
          value_parser = clap::value_parser!(u16).range(1..=2048))]
    max_streams: u16,
    /// Length of the final hold, in multiples of --duration
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Run",
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    hold: u16,
    /// Share of packets that may be missed, such as 0.1%
    ///
    /// Packets missed in host stalls do not count.
    #[arg(long, value_name = "SHARE", default_value = "0%", help_heading = "Run")]
    allow: Share,
    #[command(flatten)]
    busy: BusyFlags,
    #[command(flatten)]
    shape: StreamShape,
    #[command(flatten)]
    streams: StreamFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadSearch {
    good: u16,
    bad: Option<u16>,
    max_streams: u16,
    unknown: u8,
}

/// Maximum tries without a result.
const TRIES: u8 = 2;

impl LoadSearch {
    pub fn new(max_streams: u16) -> Self {
        Self { good: 0, bad: None, max_streams, unknown: 0 }
    }

    /// `None` if the number is known to 1/20, or if the search gave up.
    pub fn next(&self) -> Option<u16> {
        if self.unknown >= TRIES {
            return None;
        }
        match self.bad {
            None if self.good >= self.max_streams => None,
            None => Some(self.good.saturating_mul(2).clamp(1, self.max_streams)),
            Some(bad) if bad - self.good <= (self.good / 20).max(1) => None,
            Some(bad) => Some(self.good + (bad - self.good) / 2),
        }
    }

    pub fn tried(&mut self, streams: u16, went: bool) {
        self.unknown = 0;
        if went {
            self.good = self.good.max(streams);
        } else {
            self.bad = Some(self.bad.map_or(streams, |bad| bad.min(streams)));
        }
    }

    pub fn invalid(&mut self) {
        self.unknown += 1;
    }

    pub fn gave_up(&self) -> bool {
        self.unknown >= TRIES
    }

    pub fn good(&self) -> u16 {
        self.good
    }
}

pub(crate) fn run(flags: &LoadFlags) -> Result<(), Failure> {
    let max_uncertainty = flags.streams.clocks.requested();
    let plan = LabStream { max_uncertainty, ..flags.streams.shaped(&flags.shape)? };
    let words = |row: &ReportRow| {
        Some(match row.missed.filter(|_| row.invalid.is_none()) {
            Some(missed) => format!("{}: {} of {} missed", row.name, missed.missed, missed.due),
            None => line(row),
        })
    };
    flags.streams.run("load", words, |ends, cases, _| search(ends, cases, &plan, flags))
}

fn search(ends: &mut StreamEnds, cases: &mut Cases<'_>, plan: &LabStream, flags: &LoadFlags) {
    let load = flags.busy.load.as_ref();
    let mut search = LoadSearch::new(flags.max_streams);
    let mut run = |cases: &mut Cases<'_>, name: String, plan: &LabStream, streams| {
        let (name, mut went) = (BusyHost::named(load, name), None);
        cases.run(&name, ends, |ends| {
            let (row, all) = BusyHost::around_if(load, ends, plan, |ends| {
                tried(ends, plan, streams, flags.allow.0)
            })?;
            went = all;
            Ok(ReportRow { name: name.clone(), ..row })
        });
        went
    };
    while let Some(streams) = search.next().filter(|_| !cases.is_over()) {
        match run(cases, named(streams), plan, streams) {
            Some(went) => search.tried(streams, went),
            None => search.invalid(),
        }
    }
    if cases.is_over() {
        return;
    }
    let good = search.good();
    if search.gave_up() {
        cases.note(format!(
            "more than {good} streams were invalid {TRIES} times, so the maximum may be higher"
        ));
    } else if good == 0 {
        cases.note("not even one stream ran without a miss");
    }
    if good == 0 {
        return;
    }
    let duration = Span::from_nanos(plan.duration.as_nanos().saturating_mul(i64::from(flags.hold)));
    let held = LabStream { duration, ..plan.clone() };
    if run(cases, named(good) + ", held", &held, good) == Some(false) {
        cases.note(format!("{good} streams passed for {}, but not the hold", plan.duration));
    }
    if good == flags.max_streams {
        cases.note(format!("stopped at {good} streams: the limit set by --max-streams"));
    }
}

fn tried(
    ends: &mut StreamEnds,
    plan: &LabStream,
    streams: u16,
    allowed: f64,
) -> Result<(ReportRow, Option<bool>), HostError> {
    let outcome = ends.run(&LabStream { copies: streams, ..plan.clone() })?;
    if let Some(why) = outcome.refused {
        return Ok((ReportRow::invalid(named(streams), why), None));
    }
    let (row, went) = judged(&outcome, streams, named(streams), allowed);
    match row.invalid {
        Some(why) => Ok((ReportRow::invalid(named(streams), why), went)),
        None => Ok((row, went)),
    }
}

fn named(streams: u16) -> String {
    format!("{streams} stream{}", if streams == 1 { "" } else { "s" })
}

/// `None` if it is unknown whether misses stayed within `allowed`.
fn judged(
    outcome: &StreamOutcome,
    streams: u16,
    name: String,
    allowed: f64,
) -> (ReportRow, Option<bool>) {
    // In a mix, sound does not identify packets.
    let mut row = outcome.row_of_misses(name);
    let counted = |count| outcome.counted_at_receiver(count);
    let (lost, late) = (counted(|all| all.lost), counted(|all| all.late));
    let not_received = counted(|all| all.underrun_discarded);
    // Loss at the sender's device affects all streams.
    let never_sent = outcome.count_never_sent().saturating_mul(u64::from(streams));
    let missed = lost + late + not_received + never_sent;
    let frozen = outcome.frozen() + if outcome.sender_only_froze() { never_sent } else { 0 };
    let arrived = (counted(|all| all.received) + lost).saturating_sub(counted(|all| all.duplicate));
    let due = arrived + never_sent;
    let silent = usize::from(streams).saturating_sub(outcome.streams_received());
    row.missed = Some(Missed::of(missed, due));
    // These counts include all streams and the whole run.
    if missed > 0 {
        row.add("never_sent", "missed: never sent", never_sent);
        row.add("late", "missed: late", late);
        row.add("lost", "missed: lost", lost);
        row.add("underrun_discarded", "missed: discarded by underruns", not_received);
    }
    row.points.clear();
    row.add("streams", "streams", streams);
    let names =
        [("sender_cpu_percent", "sender, % of a core"), ("receiver_cpu_percent", "receiver, %")];
    for (used, (key, words)) in outcome.used.iter().zip(names) {
        if let Some(used) = used {
            row.add(key, words, used.percent(used.cpu));
        }
    }
    let otherwise = missed.saturating_sub(frozen);
    row.add("missed_otherwise", "missed except in stalls", otherwise);
    if silent > 0 {
        row.add("silent_streams", "streams never received", silent as u64);
    }
    let known = row.invalid.is_none();
    if counted(|all| all.received) == 0 {
        row.invalid = Some(outcome.unmeasured());
    }
    let went = silent == 0 && otherwise as f64 <= allowed * due as f64;
    (row, known.then_some(went))
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;
    use crate::streams::tests::{outcome, read};
    use serde_json::json;
    use tautline_report::{Counters, StreamReport};

    fn mixed(received: u64, lost: u64) -> StreamOutcome {
        let mut outcome = outcome(4000, &[]);
        outcome.arrivals.iter_mut().for_each(|packet| packet.measured = None);
        let counters = Counters { received, lost, ..Counters::default() };
        let first = &mut outcome.received.streams[0];
        first.latency.not_measured.no_match = received;
        first.counters = counters;
        outcome.received.streams.push(StreamReport { counters, ..StreamReport::default() });
        outcome
    }

    #[test]
    fn mixed_streams_are_judged_by_their_misses() {
        let judge = |lost, allowed| {
            let (row, went) = judged(&mixed(4000 - lost, lost), 2, named(2), allowed);
            let missed = row.missed.unwrap();
            (row.invalid, missed.missed, missed.due, went)
        };
        assert_eq!(judge(0, 0.0), (None, 0, 8000, Some(true)));
        assert_eq!(judge(4, 0.0), (None, 8, 8000, Some(false)));
        assert_eq!(judge(4, 0.001), (None, 8, 8000, Some(true)));
    }

    #[test]
    fn no_packets_fail_and_too_uncertain_clocks_are_unknown() {
        let (row, went) = judged(&mixed(0, 0), 2, named(2), 0.0);
        snapshot!("nothing", row.invalid.unwrap());
        assert_eq!(went, Some(false));
        let mut unsure = mixed(4000, 0);
        unsure.received.streams[0].clock = read(json!({"source": "rtcp"}));
        unsure.received.streams[0].latency.uncertainty_ns = None;
        assert_eq!(judged(&unsure, 2, named(2), 0.0).1, Some(true), "no certainty was requested");
        unsure.max_uncertainty = Some(Span::from_micros(250));
        let (row, went) = judged(&unsure, 2, named(2), 0.0);
        snapshot!("unsure", row.invalid.unwrap());
        assert_eq!(went, None);
    }

    fn steps(capacity: u16, max_streams: u16) -> (Vec<u16>, u16) {
        let (mut search, mut all) = (LoadSearch::new(max_streams), Vec::new());
        while let Some(streams) = search.next() {
            all.push(streams);
            assert!(all.len() < 40, "{all:?}");
            search.tried(streams, streams <= capacity);
        }
        (all, search.good())
    }

    #[test]
    fn max_load_is_found_to_a_twentieth_within_the_limit() {
        for capacity in 1..300 {
            let (tried, good) = steps(capacity, 1000);
            assert!(good <= capacity && capacity - good <= (good / 20).max(1), "{tried:?}");
        }
        assert_eq!(steps(500, 100), (vec![1, 2, 4, 8, 16, 32, 64, 100], 100));
        assert_eq!(steps(0, 100), (vec![1], 0));
    }

    #[test]
    fn untried_load_is_retried_then_ends_at_the_last_pass() {
        let mut search = LoadSearch::new(100);
        for streams in [1, 2] {
            search.tried(streams, true);
        }
        search.invalid();
        assert_eq!((search.next(), search.gave_up()), (Some(4), false));
        search.tried(4, true);
        search.invalid();
        search.invalid();
        assert_eq!((search.next(), search.gave_up(), search.good()), (None, true, 4));
    }
}
