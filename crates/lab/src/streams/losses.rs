//! What a stream lacked, by kind, and how much of that a freeze of the host explains.

use core::fmt;

use serde_json::Value;

use super::{LabStream, StreamOutcome};
use crate::ledger::HeardPacket;

/// What was not heard of the packets that count, and the xruns of the whole run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StreamLosses {
    /// Packets that came after their deadline.
    pub(crate) late: u64,
    /// Packets that never came.
    pub(crate) lost: u64,
    /// Packets that were there in time, and at whose turn the device played silence of its own.
    pub(crate) unheard: u64,
    /// Of the sender's device and of the receiver's.
    pub(crate) xruns: [u64; 2],
    /// Of all that and of the first seconds, what no freeze overlaps that a witness saw.
    pub(crate) besides: u64,
    /// Freezes that the witness saw of the end that saw more.
    pub(crate) freezes: u64,
}

impl StreamLosses {
    /// Whether there are none.
    pub(crate) fn is_none(&self) -> bool {
        self.named().iter().all(|(count, ..)| *count == 0)
    }

    /// Each with its name, of one and of several.
    fn named(&self) -> [(u64, &'static str, &'static str); 5] {
        let [sender, receiver] = self.xruns;
        [
            (self.late, "late", "late"),
            (self.lost, "lost", "lost"),
            (self.unheard, "unheard", "unheard"),
            (sender, "xrun of the sender", "xruns of the sender"),
            (receiver, "xrun of the receiver", "xruns of the receiver"),
        ]
    }
}

impl fmt::Display for StreamLosses {
    /// Those that there are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = self.named().into_iter().filter(|(count, ..)| *count > 0);
        let told: Vec<String> = named
            .map(|(count, one, several)| {
                format!("{count} {}", if count == 1 { one } else { several })
            })
            .collect();
        match told.is_empty() {
            true => f.write_str("nothing"),
            false => f.write_str(&told.join(", ")),
        }
    }
}

impl StreamOutcome {
    /// What the packets that count lacked in this run of `plan`.
    pub(crate) fn losses(&self, plan: &LabStream) -> StreamLosses {
        let counted = self.counted();
        let of = |is: fn(&HeardPacket) -> bool| {
            counted.iter().filter(|(_, packet)| is(packet)).count() as u64
        };
        let late = of(|packet| packet.late);
        let unheard = of(|packet| !packet.late && !packet.is_heard());
        let missed = self.missed(&counted).map_or(0, |missed| missed.missed);
        let both = [&self.sent, &self.heard];
        StreamLosses {
            late,
            lost: missed.saturating_sub(late + unheard),
            unheard,
            xruns: both.map(|report| counter(report, "xruns")),
            besides: both.map(besides).into_iter().sum(),
            freezes: self.stalls(plan).into_iter().flatten().max().unwrap_or(0),
        }
    }
}

fn counter(report: &Value, name: &str) -> u64 {
    report["streams"][0]["counters"][name].as_u64().unwrap_or(0)
}

/// Of the whole run of one end, as when is not told of all of it.
fn besides(report: &Value) -> u64 {
    let all: u64 =
        ["late", "lost", "unheard", "xruns"].iter().map(|name| counter(report, name)).sum();
    all.saturating_sub(counter(report, "host_stalled"))
}
