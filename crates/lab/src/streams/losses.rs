//! Losses of a stream by kind, and those explained by host stalls.

use core::fmt;

use tautline_proto::time::LocalTime;
use tautline_report::ledger::ReceivedPacket;

use super::machines::XRUNS;
use super::{LabStream, StreamOutcome, first_counters};
use crate::report::ReportRow;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StreamLosses {
    pub(crate) never_sent: u64,
    pub(crate) late: u64,
    pub(crate) lost: u64,
    /// In time, but the device played silence instead.
    pub(crate) underrun_discarded: u64,
    /// Xruns of sender and receiver, including xruns at an unknown time.
    pub(crate) xruns: [u64; 2],
    /// Not explained by stalls at the same end.
    pub(crate) besides: u64,
    pub(crate) freezes: u64,
}

impl StreamLosses {
    pub(crate) fn is_none(&self) -> bool {
        self.named().iter().all(|(count, ..)| *count == 0)
    }

    /// Whether xruns caused all: the sender's leave packets unsent, the receiver's discard some.
    pub(crate) fn are_of_xruns(&self) -> bool {
        let [sender, receiver] = self.xruns;
        let others = [(sender, self.never_sent), (receiver, self.underrun_discarded)];
        let others = others.into_iter().filter(|(xruns, _)| *xruns == 0).map(|(_, count)| count);
        sender + receiver > 0 && self.late + self.lost + others.sum::<u64>() == 0
    }

    fn named(&self) -> [(u64, &'static str, &'static str); 6] {
        let [sender, receiver] = self.xruns;
        [
            (self.never_sent, "never sent", "never sent"),
            (self.late, "late", "late"),
            (self.lost, "lost", "lost"),
            (self.underrun_discarded, "discarded by underruns", "discarded by an underrun"),
            (sender, "xrun of the sender", "xruns of the sender"),
            (receiver, "xrun of the receiver", "xruns of the receiver"),
        ]
    }
}

impl fmt::Display for StreamLosses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = self.named().into_iter().filter(|(count, ..)| *count > 0);
        let reported: Vec<String> = named
            .map(|(count, one, several)| {
                format!("{count} {}", if count == 1 { one } else { several })
            })
            .collect();
        match reported.is_empty() {
            true => f.write_str("nothing"),
            false => f.write_str(&reported.join(", ")),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MissedBy {
    never_sent: u64,
    late: u64,
    lost: u64,
    underrun_discarded: u64,
}

impl MissedBy {
    pub(super) fn notify(self, row: &mut ReportRow) {
        for (key, words, count) in [
            ("never_sent", "missed: never sent", self.never_sent),
            ("late", "missed: late", self.late),
            ("lost", "missed: lost", self.lost),
            ("underrun_discarded", "missed: discarded by underruns", self.underrun_discarded),
        ] {
            row.add(key, words, count);
        }
    }
}

impl StreamOutcome {
    pub(super) fn missed_by(&self, counted: &[(LocalTime, ReceivedPacket)]) -> MissedBy {
        let of = |is: fn(&ReceivedPacket) -> bool| {
            counted.iter().filter(|(_, packet)| is(packet)).count() as u64
        };
        let late = of(|packet| packet.late);
        let logged = of(|packet| !packet.late && !packet.is_received());
        let missed = self.missed(counted).map_or(0, |missed| missed.missed);
        let never_sent = self.never_sent(counted).count();
        let unlogged = missed.saturating_sub(late + logged + never_sent);
        // The receiver does not log packets that it discards while its device stands still.
        let lost = unlogged.min(first_counters(&self.received).lost);
        let underrun_discarded = logged + unlogged - lost;
        MissedBy { never_sent, late, lost, underrun_discarded }
    }

    pub(crate) fn losses(&self, plan: &LabStream) -> StreamLosses {
        let counted = self.counted();
        let MissedBy { never_sent, late, lost, underrun_discarded } = self.missed_by(&counted);
        let xruns = self.xruns_counted(&counted);
        // These losses are explained with the xrun.
        let unexplained = if xruns[0] == 0 { never_sent } else { 0 };
        // A minimum: stall losses include those before packets counted.
        let of_host =
            [&self.sent, &self.received].map(|report| first_counters(report).host_stalled);
        let besides = xruns[0].saturating_sub(of_host[0])
            + unexplained
            + (late + lost + underrun_discarded + xruns[1]).saturating_sub(of_host[1]);
        StreamLosses {
            never_sent,
            late,
            lost,
            underrun_discarded,
            xruns,
            besides,
            freezes: self.stalls(plan).into_iter().flatten().max().unwrap_or(0),
        }
    }

    /// Without those before the first counted packet: a card may have one at start.
    fn xruns_counted(&self, counted: &[(LocalTime, ReceivedPacket)]) -> [u64; 2] {
        let reported = self.xruns(counted);
        [(&self.sent, XRUNS[0]), (&self.received, XRUNS[1])].map(|(report, (key, _))| {
            let of_end = reported.iter().find(|events| events.key == key);
            let values = of_end.map_or(&[][..], |events| &events.values);
            let before = values.iter().filter(|(at, _)| *at < 0);
            let before: u64 = before.map(|(_, count)| u64::from(*count)).sum();
            first_counters(report).xruns.saturating_sub(before)
        })
    }
}
