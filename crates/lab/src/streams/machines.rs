//! What the machines of a stream did meanwhile, once a second, joined to its packets by time.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use tautline_proto::time::{LocalTime, Span};

use super::{StreamEnds, StreamOutcome};
use crate::hosts::{ChildState, LabHost};
use crate::ledger::HeardPacket;
use crate::report::{INTERVAL, Meanwhile};

/// A quantity of a machine, as `taut lab sample` has it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SampledQuantity {
    /// Its name, with its unit.
    pub key: String,
    /// Instants of that machine's monotonic clock in nanoseconds, each with what was read.
    pub values: Vec<(i64, f64)>,
}

/// It writes what it has read within.
const WRITING: Duration = Duration::from_secs(5);
/// After the stream it ends by itself, should nobody end it.
const BEYOND: Span = Span::from_secs(30);

/// What reads at the sender's machine and at the receiver's.
pub(super) struct MachineSamplers([Option<u32>; 2]);

impl MachineSamplers {
    /// Starts reading; of one machine one is enough. Without it a stream runs as well.
    pub(super) fn start(ends: &mut StreamEnds, lasts: Span) -> Self {
        let most = (lasts + BEYOND).to_string();
        let words = ["lab", "sample", "--duration", &most].map(str::to_owned);
        let two = !ends.share_clock().unwrap_or(false);
        let sender = two.then(|| ends.sender.start(&words, &[]).ok()).flatten();
        Self([sender, ends.receiver.start(&words, &[]).ok()])
    }

    /// Ends them, with what they read.
    pub(super) fn end(self, ends: &mut StreamEnds) -> [Vec<SampledQuantity>; 2] {
        let Self([sender, receiver]) = self;
        let end = |host: &mut LabHost, child: Option<u32>| {
            let child = child?;
            host.interrupt(child).ok()?;
            match host.wait(child, WRITING).ok()? {
                ChildState::Ended(ended) => serde_json::from_str(&ended.printed).ok(),
                ChildState::Running => None,
            }
        };
        let both = [end(&mut ends.sender, sender), end(&mut ends.receiver, receiver)];
        both.map(Option::unwrap_or_default)
    }
}

/// Of all cores: what programs and the kernel took of them.
const BUSY: [&str; 4] = ["user_percent", "system_percent", "irq_percent", "softirq_percent"];
/// Of two machines, and of one that both ends share.
const NAMES: [[(&str, &str); 2]; 3] = [
    [
        ("sender_busy_percent", "sender's machine busy, % of all cores"),
        ("sender_runnable", "sender's run queue, threads"),
    ],
    [
        ("receiver_busy_percent", "receiver's machine busy, % of all cores"),
        ("receiver_runnable", "receiver's run queue, threads"),
    ],
    [("busy_percent", "machine busy, % of all cores"), ("runnable", "run queue, threads")],
];

impl StreamOutcome {
    /// How many packets each second missed, where any did, and how loaded the machines were, since the
    /// first packet that counts.
    pub(super) fn meanwhile(&self, counted: &[(LocalTime, HeardPacket)]) -> Vec<Meanwhile> {
        let Some((begin, first)) = counted.first() else { return Vec::new() };
        let left = self.departures.iter().position(|packet| packet.timestamp == first.timestamp);
        let departures = left.map_or(&[][..], |at| &self.departures[at..]);
        // The same instant on the clock of each.
        let begins = [departures.first().map(|packet| packet.capture), Some(begin.as_nanos())];
        let [sender, receiver] = &self.machines;
        let names = if sender.is_empty() { [NAMES[0], NAMES[2]] } else { [NAMES[0], NAMES[1]] };
        let end = counted.last().map_or(0, |(last, _)| (*last - *begin).as_nanos());
        let missed =
            missed(departures.iter().map(|packet| (packet.timestamp, packet.capture)), counted);
        let machines = [sender, receiver].into_iter().zip(begins).zip(names);
        let machines = machines.flat_map(|((machine, begin), names)| {
            let series = [busy(machine), read(machine, "runnable")];
            series.into_iter().zip(names).map(move |(values, (key, words))| {
                let since = |(at, value): (i64, f64)| {
                    let at = at.checked_sub(begin?)?;
                    (0..=end + INTERVAL.as_nanos()).contains(&at).then_some((at, value))
                };
                Meanwhile { key, words, values: values.into_iter().filter_map(since).collect() }
            })
        });
        let mut all: Vec<Meanwhile> = missed.into_iter().chain(machines).collect();
        all.retain(|series| !series.values.is_empty());
        all
    }
}

fn read(machine: &[SampledQuantity], key: &str) -> Vec<(i64, f64)> {
    let found = machine.iter().find(|quantity| quantity.key == key);
    found.map(|quantity| quantity.values.clone()).unwrap_or_default()
}

/// The sum of what was read at the same instants.
fn busy(machine: &[SampledQuantity]) -> Vec<(i64, f64)> {
    let [first, rest @ ..] = BUSY.map(|key| read(machine, key));
    let rest = rest.map(BTreeMap::from_iter);
    let sum = |(at, value): &(i64, f64)| {
        let more: f64 = rest.iter().filter_map(|series| series.get(at)).sum();
        (*at, value + more)
    };
    first.iter().map(sum).collect()
}

/// In the middle of each second, how many of the packets that left in it were not heard; nothing where all
/// were.
fn missed(
    departures: impl Iterator<Item = (u32, i64)>,
    counted: &[(LocalTime, HeardPacket)],
) -> Option<Meanwhile> {
    let heard = counted.iter().filter(|(_, packet)| packet.is_heard());
    let heard: std::collections::HashSet<u32> = heard.map(|(_, packet)| packet.timestamp).collect();
    // A ledger is what another machine wrote: a second that it names takes no room but its own.
    let (mut begin, mut seconds) = (None, BTreeMap::new());
    for (timestamp, capture) in departures {
        let since = capture.saturating_sub(*begin.get_or_insert(capture)).max(0);
        *seconds.entry(since / INTERVAL.as_nanos()).or_insert(0_u32) +=
            u32::from(!heard.contains(&timestamp));
    }
    let middle = |second: i64| second * INTERVAL.as_nanos() + INTERVAL.half().as_nanos();
    let values = seconds.iter().map(|(second, missed)| (middle(*second), f64::from(*missed)));
    seconds.values().any(|missed| *missed > 0).then(|| Meanwhile {
        key: "missed",
        words: "packets missed",
        values: values.collect(),
    })
}
