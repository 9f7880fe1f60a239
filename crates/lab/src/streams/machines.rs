//! Machine load during a stream, sampled once a second.

use std::collections::BTreeMap;
use std::iter::once;
use std::time::Duration;

use serde::Deserialize;
use tautline_proto::time::{LocalTime, Span};
use tautline_report::ledger::{ReceivedPacket, SentPacket};
use tautline_ui::failure::on_one_line;

use super::{StreamEnds, StreamOutcome};
use crate::hosts::{HostError, LabHost};
use crate::report::{Events, INTERVAL, Meanwhile, ReportRow, SecondCount};
use crate::resources::machine_quantities;

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SampledQuantity {
    pub key: String,
    pub values: Vec<(i64, f64)>,
}

type Sampled = Result<Vec<SampledQuantity>, HostError>;

#[derive(Debug, Clone, Default)]
pub enum SampledMachines {
    #[default]
    Unasked,
    One(Sampled),
    Two([Sampled; 2]),
}

const WRITING: Duration = Duration::from_secs(5);
/// Time after the stream at which samplers end by themselves.
const BEYOND: Span = Span::from_secs(30);

pub(super) enum MachineSamplers {
    One(Result<u32, HostError>),
    Two([Result<u32, HostError>; 2]),
}

const SAMPLE: &str = "lab sample";

impl MachineSamplers {
    /// One per machine. The stream runs even if this fails.
    pub(super) fn start(ends: &mut StreamEnds, lasts: Span) -> Self {
        let maximum = (lasts + BEYOND).to_string();
        let words: Vec<String> =
            SAMPLE.split(' ').chain(["--duration", &maximum]).map(str::to_owned).collect();
        match ends.share_clock().unwrap_or(false) {
            true => Self::One(ends.receiver.start(&words, &[])),
            false => Self::Two(
                [&mut ends.sender, &mut ends.receiver].map(|host| host.start(&words, &[])),
            ),
        }
    }

    pub(super) fn end(self, ends: &mut StreamEnds) -> SampledMachines {
        let end = |host: &mut LabHost, child: Result<u32, HostError>| {
            host.said_by(child?, SAMPLE, WRITING)
        };
        match self {
            Self::One(child) => SampledMachines::One(end(&mut ends.receiver, child)),
            Self::Two([sender, receiver]) => SampledMachines::Two([
                end(&mut ends.sender, sender),
                end(&mut ends.receiver, receiver),
            ]),
        }
    }
}

pub(crate) const XRUNS: [(&str, &str); 2] = [
    ("sender_xruns", "xruns of the sender's device"),
    ("receiver_xruns", "xruns of the receiver's device"),
];
const BUSY: [&str; 4] = ["user_percent", "system_percent", "irq_percent", "softirq_percent"];
const QUEUE: &str = "runnable";

struct MachineNames {
    key: &'static str,
    words: &'static str,
    busy: &'static str,
    unread: (&'static str, &'static str),
}

const NAMES: [MachineNames; 3] = [
    MachineNames {
        key: "sender_",
        words: "sender's machine: ",
        busy: "sender's machine busy, % of all cores",
        unread: ("sender_machine_unread", "sender's machine not read"),
    },
    MachineNames {
        key: "receiver_",
        words: "receiver's machine: ",
        busy: "receiver's machine busy, % of all cores",
        unread: ("receiver_machine_unread", "receiver's machine not read"),
    },
    MachineNames {
        key: "",
        words: "",
        busy: "machine busy, % of all cores",
        unread: ("machine_unread", "machine not read"),
    },
];

impl MachineNames {
    fn reported(&self, read: &[SampledQuantity]) -> Vec<Meanwhile> {
        let busy = Meanwhile::drawn(format!("{}busy_percent", self.key), self.busy, busy(read));
        // Drops quantities unknown to this version.
        let all = machine_quantities().map(|(key, words)| Meanwhile {
            key: format!("{}{key}", self.key).into(),
            words: format!("{}{words}", self.words).into(),
            values: read_of(read, key),
            drawn: key == QUEUE,
        });
        once(busy).chain(all).collect()
    }
}

impl SampledMachines {
    fn each(&self) -> Vec<(usize, &'static MachineNames, &Sampled)> {
        let [sender, receiver, shared] = &NAMES;
        match self {
            Self::Unasked => Vec::new(),
            Self::One(read) => vec![(1, shared, read)],
            Self::Two([there, here]) => vec![(0, sender, there), (1, receiver, here)],
        }
    }
}

impl StreamOutcome {
    pub(super) fn write_unread(&self, row: &mut ReportRow) {
        for (_, names, read) in self.machines.each() {
            if let Err(error) = read {
                let (key, words) = names.unread;
                row.add(key, words, on_one_line(&error.to_string()));
            }
        }
    }

    pub(super) fn departures_from(&self, first: &ReceivedPacket) -> &[SentPacket] {
        let left = self.departures.iter().position(|packet| packet.timestamp == first.timestamp);
        left.map_or(&[][..], |at| &self.departures[at..])
    }

    fn begins(&self, counted: &[(LocalTime, ReceivedPacket)]) -> [Option<i64>; 2] {
        let Some((begin, first)) = counted.first() else { return [None; 2] };
        [self.departures_from(first).first().map(|packet| packet.capture), Some(begin.as_nanos())]
    }

    pub(super) fn xruns(&self, counted: &[(LocalTime, ReceivedPacket)]) -> Vec<Events> {
        let reports = [&self.sent, &self.received].map(|report| report.streams.first());
        let ends = reports.into_iter().zip(self.begins(counted)).zip(XRUNS);
        let events = ends.filter_map(|((stream, begin), names)| {
            let stream = stream?;
            let reported = stream.xruns.iter().map(|xrun| (xrun.at_ns, xrun.count));
            Events::since(begin?, names, reported, stream.counters.xruns)
        });
        events.collect()
    }

    pub(super) fn meanwhile(&self, counted: &[(LocalTime, ReceivedPacket)]) -> Vec<Meanwhile> {
        let Some((begin, first)) = counted.first() else { return Vec::new() };
        let departures = self.departures_from(first);
        let begins = self.begins(counted);
        let end = counted.last().map_or(0, |(last, _)| (*last - *begin).as_nanos());
        let left = departures.iter().map(|packet| (packet.timestamp, packet.capture));
        let missed = missed(left, self.never_sent(counted).by_second(), counted);
        let machines = self.machines.each().into_iter().flat_map(|(end_of, names, read)| {
            let begin = begins[end_of];
            let since = move |(at, value): (i64, f64)| {
                let at = at.checked_sub(begin?)?;
                (0..=end + INTERVAL.as_nanos()).contains(&at).then_some((at, value))
            };
            let reported = names.reported(read.as_deref().unwrap_or(&[]));
            reported.into_iter().map(move |series| Meanwhile {
                values: series.values.into_iter().filter_map(since).collect(),
                ..series
            })
        });
        let mut all: Vec<Meanwhile> = missed.into_iter().chain(machines).collect();
        all.retain(|series| !series.values.is_empty());
        all
    }
}

fn read_of(machine: &[SampledQuantity], key: &str) -> Vec<(i64, f64)> {
    let found = machine.iter().find(|quantity| quantity.key == key);
    found.map(|quantity| quantity.values.clone()).unwrap_or_default()
}

fn busy(machine: &[SampledQuantity]) -> Vec<(i64, f64)> {
    let [first, rest @ ..] = BUSY.map(|key| read_of(machine, key));
    let rest = rest.map(BTreeMap::from_iter);
    let sum = |(at, value): &(i64, f64)| {
        let more: f64 = rest.iter().filter_map(|series| series.get(at)).sum();
        (*at, value + more)
    };
    first.iter().map(sum).collect()
}

/// Unheard packets at the middle of each second; `None` if all were heard.
fn missed(
    departures: impl Iterator<Item = (u32, i64)>,
    never_sent: Vec<SecondCount>,
    counted: &[(LocalTime, ReceivedPacket)],
) -> Option<Meanwhile> {
    let received = counted.iter().filter(|(_, packet)| packet.is_received());
    let received: std::collections::HashSet<u32> =
        received.map(|(_, packet)| packet.timestamp).collect();
    // An extreme time in another machine's log must not allocate all seconds in between.
    let (mut begin, mut seconds) = (None, BTreeMap::new());
    for (timestamp, capture) in departures {
        let since = capture.saturating_sub(*begin.get_or_insert(capture)).max(0);
        *seconds.entry(since / INTERVAL.as_nanos()).or_insert(0_u32) +=
            u32::from(!received.contains(&timestamp));
    }
    for (second, count) in never_sent {
        *seconds.entry(i64::from(second)).or_insert(0) += count;
    }
    let middle = |second: i64| second * INTERVAL.as_nanos() + INTERVAL.half().as_nanos();
    let values = seconds.iter().map(|(second, missed)| (middle(*second), f64::from(*missed)));
    let any = seconds.values().any(|missed| *missed > 0);
    any.then(|| Meanwhile::drawn("missed", "packets missed", values.collect()))
}
