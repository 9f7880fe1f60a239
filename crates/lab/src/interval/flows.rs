//! Packets sorted into streams.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use tautline_proto::time::{LocalTime, Span};
use tautline_proto::wrap::{Unwrapper, Wrapped};

use super::headers::Rtp;

/// A packet as it was seen. Instants are of the clock of whoever saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SeenPacket {
    pub(super) at: LocalTime,
    pub(super) sequence: u16,
    pub(super) timestamp: u32,
}

/// An instant that a file tells, if it is one: the sums of no two of them overflow. To the year 2116 on
/// a clock that counts from 1970.
pub(super) fn instant(nanos: i64) -> Option<LocalTime> {
    (0..=i64::MAX / 2).contains(&nanos).then(|| LocalTime::from_nanos(nanos))
}

/// By what a stream is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FlowName {
    pub(super) ssrc: u32,
    pub(super) from: SocketAddr,
    pub(super) to: Option<SocketAddr>,
}

/// What was seen so far.
#[derive(Debug, Default)]
pub(super) struct Flows {
    seen: BTreeMap<FlowName, Vec<SeenPacket>>,
    /// How far the instants may be from the truth.
    uncertainty: Option<Span>,
}

/// A stream, in the order of its instants, with the counts that its numbers stand for.
#[derive(Debug)]
pub(super) struct PacketFlow {
    pub(super) name: String,
    pub(super) packets: Vec<Numbered>,
    pub(super) uncertainty: Option<Span>,
}

/// A packet with its numbers unwrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Numbered {
    pub(super) at: LocalTime,
    /// Absent where only the timestamp is known.
    pub(super) sequence: Option<i64>,
    pub(super) timestamp: i64,
}

/// A packet this far from the one before is of a sender that began anew (RFC 3550 A.1, MAX_DROPOUT).
const ANEW: i64 = 3000;
/// Fewer packets than this are no stream.
pub(super) const LEAST: usize = 10;

/// What was seen, sorted.
pub(super) struct SortedFlows {
    /// Those of the most packets first.
    pub(super) streams: Vec<PacketFlow>,
    /// Datagrams whose numbers do not follow each other.
    pub(super) strange: usize,
    /// Datagrams of which there were too few of one sender to tell.
    pub(super) few: usize,
}

impl Flows {
    pub(super) fn see(&mut self, name: FlowName, at: LocalTime, rtp: &Rtp) {
        let seen = SeenPacket { at, sequence: rtp.sequence, timestamp: rtp.timestamp };
        self.seen.entry(name).or_default().push(seen);
    }

    /// An instant may be off by so much.
    pub(super) fn doubt(&mut self, uncertainty: Span) {
        self.uncertainty = Some(self.uncertainty.unwrap_or(Span::ZERO).max(uncertainty));
    }

    /// The streams, and how many datagrams were of none: whatever has two bits like RTP is not yet a stream,
    /// but packets of which each follows the one before are.
    pub(super) fn streams(self) -> SortedFlows {
        let mut sorted = SortedFlows { streams: Vec::new(), strange: 0, few: 0 };
        for (name, mut seen) in self.seen {
            seen.sort_by_key(|packet| packet.at);
            let follows =
                |pair: &&[SeenPacket]| pair[1].sequence == pair[0].sequence.wrapping_add(1);
            let following = seen.windows(2).filter(follows).count();
            if seen.len() < LEAST {
                sorted.few += seen.len();
                continue;
            }
            if following * 2 < seen.len() {
                sorted.strange += seen.len();
                continue;
            }
            let to = name.to.map_or(String::new(), |to| format!(" to {to}"));
            let name = format!("{:08x} {}{to}", name.ssrc, name.from);
            let stints = number(&seen).into_iter().filter(|packets| packets.len() > 1);
            sorted.streams.extend(stints.enumerate().map(|(index, packets)| {
                let again = if index == 0 { String::new() } else { format!(" ({})", index + 1) };
                let name = format!("{name}{again}");
                PacketFlow { name, packets, uncertainty: self.uncertainty }
            }));
        }
        sorted.streams.sort_by_key(|flow| core::cmp::Reverse(flow.packets.len()));
        sorted
    }
}

/// With their numbers unwrapped; anew where the sender began anew.
fn number(seen: &[SeenPacket]) -> Vec<Vec<Numbered>> {
    let mut stints: Vec<Vec<Numbered>> = Vec::new();
    let mut counters: Option<(Unwrapper, Unwrapper)> = None;
    for packet in seen {
        let numbers = (
            Wrapped { value: packet.sequence.into(), bits: 16 },
            Wrapped { value: packet.timestamp, bits: 32 },
        );
        let goes_on = counters.as_ref().is_some_and(|(sequence, _)| {
            (sequence.peek(packet.sequence.into()) - sequence.highest()).abs() <= ANEW
        });
        if !goes_on {
            counters = Some((Unwrapper::starting_at(numbers.0), Unwrapper::starting_at(numbers.1)));
            stints.push(Vec::new());
        }
        if let (Some((sequence, timestamp)), Some(stint)) = (&mut counters, stints.last_mut()) {
            stint.push(Numbered {
                at: packet.at,
                sequence: Some(sequence.extend(packet.sequence.into())),
                timestamp: timestamp.extend(packet.timestamp),
            });
        }
    }
    stints
}
