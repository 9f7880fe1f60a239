use std::collections::{BTreeMap, HashSet};

use tautline_proto::time::{LocalTime, Span};
use tautline_report::ledger::{LAUNCH, LedgerPacket, ReceivedPacket, STAGES, length};

use super::{StreamOutcome, first_counters};
use crate::report::{
    INTERVAL, PartBySecond, RECEIVER_LATE, SENDER_LATE, SecondCount, StreamBySecond,
};
use crate::statistics::{Interval, Series};

impl StreamOutcome {
    pub(super) fn by_second(
        &self,
        counted: &[(LocalTime, ReceivedPacket)],
    ) -> Option<StreamBySecond> {
        let ((begin, first), (end, _)) = (counted.first()?, counted.last()?);
        let number = |since: i64| u32::try_from(since.max(0) / INTERVAL.as_nanos()).ok();
        // Less than half of a last second does not count.
        let seconds =
            number((*end - *begin).as_nanos().saturating_add(INTERVAL.half().as_nanos()))?;
        let arrived: HashSet<u32> = counted.iter().map(|(_, packet)| packet.timestamp).collect();
        let departures = self.departures_from(first);
        let left = departures.first().map_or(0, |packet| packet.capture);
        let unlogged = departures
            .iter()
            .filter(|packet| !arrived.contains(&packet.timestamp))
            .filter_map(|packet| number(packet.capture.saturating_sub(left)));
        let of = |is: fn(&ReceivedPacket) -> bool| {
            let those = counted.iter().filter(move |(_, packet)| is(packet));
            those.filter_map(|(due, _)| number((*due - *begin).as_nanos()))
        };
        let stages = STAGES.iter().enumerate().map(|(at, name)| {
            let length = |(due, packet): &(LocalTime, ReceivedPacket)| {
                Some((*due, Span::from_nanos(length(&packet.instants(), at)?)))
            };
            let mut series = Series::with_room(counted.len());
            counted.iter().filter_map(length).for_each(|(due, length)| series.push(due, length));
            (*name, series)
        });
        let stages = stages.filter(|(name, series)| *name != LAUNCH || !series.values().is_empty());
        let stages = stages.map(|(name, series)| part(name, &series, seconds, |_| 0));
        let late = [SENDER_LATE, RECEIVER_LATE].into_iter().zip(self.wake_ups());
        // Cards may drift apart over a run.
        let late = late.map(|(name, series)| part(name, &series, seconds, |second| second.min_ns));
        let parts = stages.chain(late);
        let discarded = of(|packet| !packet.late && !packet.is_received());
        // If a run has both kinds, the log does not tell them apart.
        let (lost, underrun_discarded) = match first_counters(&self.received).lost {
            0 => (Vec::new(), counts(unlogged.chain(discarded))),
            _ => (counts(unlogged), counts(discarded)),
        };
        Some(StreamBySecond {
            rate: self.shape.rate,
            period: self.shape.period,
            periods: self.shape.periods,
            ptime_ns: self.shape.ptime.as_nanos(),
            seconds,
            due: departures.len() as u64,
            late: counts(of(|packet| packet.late)),
            lost,
            underrun_discarded,
            never_sent: Some(self.never_sent(counted).by_second()),
            parts: parts.filter(|part| !part.p50_ns.is_empty()).collect(),
        })
    }
}

fn counts(seconds: impl Iterator<Item = u32>) -> Vec<SecondCount> {
    let mut all = BTreeMap::new();
    seconds.for_each(|second| *all.entry(second).or_insert(0) += 1);
    all.into_iter().collect()
}

/// `less` is subtracted per second.
fn part(name: &str, series: &Series, seconds: u32, less: fn(&Interval) -> i64) -> PartBySecond {
    let mut part = PartBySecond { name: name.to_owned(), ..PartBySecond::default() };
    let end = INTERVAL.as_nanos() * i64::from(seconds);
    for second in series.intervals(INTERVAL).iter().filter(|second| second.at_ns < end) {
        let off = |value: i64| value - less(second);
        part.p50_ns.push(off(second.p50_ns));
        part.p99_ns.push(second.p99_ns.map(off));
        part.max_ns.push(off(second.max_ns));
    }
    part
}
