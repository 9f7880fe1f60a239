//! Packets sorted into streams.

use core::fmt;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use tautline_proto::packet::StreamId;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Rate;
use tautline_proto::wire::avtp::id_of;
use tautline_proto::wrap::{Unwrapper, Wrapped};

use super::headers::StreamPacket;

/// An instant that a file tells, if it is one: the sums of no two of them overflow. To the year 2116 on
/// a clock that counts from 1970.
pub(super) fn instant(nanos: i64) -> Option<LocalTime> {
    (0..=i64::MAX / 2).contains(&nanos).then(|| LocalTime::from_nanos(nanos))
}

/// By what a stream is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FlowName {
    Rtp {
        ssrc: u32,
        from: SocketAddr,
        to: Option<SocketAddr>,
    },
    /// The ID of an AVTP stream names its talker.
    Avtp {
        kind: &'static str,
        stream: StreamId,
        to: Option<Destination>,
    },
}

/// Where packets of AVTP go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Destination {
    Ethernet([u8; 6]),
    Udp(SocketAddr),
}

impl FlowName {
    /// Bits of the sequence number.
    const fn sequence_bits(&self) -> u32 {
        match self {
            Self::Rtp { .. } => 16,
            Self::Avtp { .. } => 8,
        }
    }
}

impl fmt::Display for FlowName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rtp { ssrc, from, to: Some(to) } => write!(f, "{ssrc:08x} {from} to {to}"),
            Self::Rtp { ssrc, from, to: None } => write!(f, "{ssrc:08x} {from}"),
            Self::Avtp { kind, stream, to } => {
                write!(f, "{kind} {}", id_of(*stream))?;
                match to {
                    Some(Destination::Ethernet([a, b, c, d, e, last])) => {
                        write!(f, " to {a:02X}:{b:02X}:{c:02X}:{d:02X}:{e:02X}:{last:02X}")
                    }
                    Some(Destination::Udp(to)) => write!(f, " to {to}"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// The unit of a stream's timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimestampUnit {
    Frames(Rate),
    Nanoseconds,
}

impl TimestampUnit {
    pub(super) fn span(self, ticks: i64) -> Span {
        match self {
            Self::Frames(rate) => rate.span_of(Frames::new(ticks)),
            Self::Nanoseconds => Span::from_nanos(ticks),
        }
    }
}

/// A packet as it was seen. Instants are of the clock of whoever saw it.
#[derive(Debug, Clone, Copy)]
struct SeenPacket {
    /// Its stream, in the order in which streams were first seen.
    flow: u32,
    at: LocalTime,
    sequence: u32,
    timestamp: Option<u32>,
}

/// What was seen so far.
#[derive(Debug, Default)]
pub(super) struct Flows {
    known: BTreeMap<FlowName, KnownFlow>,
    seen: Vec<SeenPacket>,
    /// How far the instants may be from the truth.
    uncertainty: Option<Span>,
}

#[derive(Debug, Clone, Copy)]
struct KnownFlow {
    index: u32,
    /// The sound in its first packet.
    length: Option<Span>,
}

/// A stream, in the order of its instants, with the counts that its numbers stand for.
#[derive(Debug)]
pub(super) struct PacketFlow {
    pub(super) name: String,
    pub(super) packets: Vec<Numbered>,
    pub(super) unit: TimestampUnit,
    /// The sound in a packet, if the headers state it.
    pub(super) length: Option<Span>,
    pub(super) uncertainty: Option<Span>,
}

/// A packet with its numbers unwrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Numbered {
    pub(super) at: LocalTime,
    /// Absent where only the timestamp is known.
    pub(super) sequence: Option<i64>,
    /// Absent in a packet of AVTP without a presentation time.
    pub(super) timestamp: Option<i64>,
}

/// A packet this far from the one before is of a sender that began anew (RFC 3550 A.1, MAX_DROPOUT).
const ANEW: i64 = 3000;
/// So is one of AVTP after such a pause: its timestamps wrap after 4.3 s, its numbers after 256 packets.
const PAUSE: Span = Span::from_secs(2);
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
    /// With room for so many packets.
    pub(super) fn with_room(packets: usize) -> Self {
        Self { seen: Vec::with_capacity(packets), ..Self::default() }
    }

    /// Packets seen so far.
    pub(super) fn len(&self) -> usize {
        self.seen.len()
    }

    pub(super) fn see(&mut self, at: LocalTime, packet: &StreamPacket) {
        let next = KnownFlow { index: self.known.len() as u32, length: packet.length };
        let flow = self.known.entry(packet.name).or_insert(next).index;
        let StreamPacket { sequence, timestamp, .. } = *packet;
        self.seen.push(SeenPacket { flow, at, sequence, timestamp });
    }

    /// An instant may be off by so much.
    pub(super) fn doubt(&mut self, uncertainty: Span) {
        self.uncertainty = Some(self.uncertainty.unwrap_or(Span::ZERO).max(uncertainty));
    }

    /// The streams, and how many datagrams were of none: whatever has two bits like RTP is not yet a stream,
    /// but packets of which each follows the one before are. Timestamps of RTP count frames at `rate`.
    pub(super) fn streams(self, rate: Rate) -> SortedFlows {
        let Self { known, seen, uncertainty } = self;
        let mut by_flow = vec![Vec::new(); known.len()];
        for packet in seen {
            by_flow[packet.flow as usize].push(packet);
        }
        let mut sorted = SortedFlows { streams: Vec::new(), strange: 0, few: 0 };
        for (name, KnownFlow { index, length }) in known {
            let mut seen = core::mem::take(&mut by_flow[index as usize]);
            seen.sort_by_key(|packet| packet.at);
            let bits = name.sequence_bits();
            let follows = |pair: &&[SeenPacket]| {
                let next = Wrapped { value: pair[0].sequence, bits }.plus(1);
                pair[1].sequence == next.value
            };
            let following = seen.windows(2).filter(follows).count();
            if seen.len() < LEAST {
                sorted.few += seen.len();
                continue;
            }
            if following * 2 < seen.len() {
                sorted.strange += seen.len();
                continue;
            }
            let unit = match name {
                FlowName::Rtp { .. } => TimestampUnit::Frames(rate),
                FlowName::Avtp { .. } => TimestampUnit::Nanoseconds,
            };
            let stints = number(&seen, bits, length).into_iter().filter(|all| all.len() > 1);
            sorted.streams.extend(stints.enumerate().map(|(index, packets)| {
                let again = if index == 0 { String::new() } else { format!(" ({})", index + 1) };
                let name = format!("{name}{again}");
                PacketFlow { name, packets, unit, length, uncertainty }
            }));
        }
        sorted.streams.sort_by_key(|flow| core::cmp::Reverse(flow.packets.len()));
        sorted
    }
}

/// With their numbers unwrapped; anew where the sender began anew. `length` is the sound in a packet, if it is known.
fn number(seen: &[SeenPacket], bits: u32, length: Option<Span>) -> Vec<Vec<Numbered>> {
    let mut stints: Vec<Vec<Numbered>> = Vec::new();
    let mut counters: Option<Counters> = None;
    let mut last = LocalTime::ZERO;
    for packet in seen {
        let paused = bits == 8 && packet.at - last > PAUSE;
        last = packet.at;
        let next = counters.as_ref().filter(|_| !paused).and_then(|counters| {
            let number = counters.number(packet, length);
            ((number - counters.sequence.highest()).abs() <= ANEW).then_some(number)
        });
        if next.is_none() {
            counters = None;
            stints.push(Vec::new());
        }
        let counters = counters.get_or_insert_with(|| Counters::starting_at(packet.sequence, bits));
        let numbered = counters.take(packet, next.unwrap_or(packet.sequence.into()));
        if let Some(stint) = stints.last_mut() {
            stint.push(numbered);
        }
    }
    stints
}

/// The counters of one stint.
struct Counters {
    bits: u32,
    sequence: Unwrapper,
    timestamp: Option<Unwrapper>,
    /// Timestamp and number of the last packet that has a timestamp.
    anchor: Option<(i64, i64)>,
}

impl Counters {
    fn starting_at(sequence: u32, bits: u32) -> Self {
        let sequence = Unwrapper::starting_at(Wrapped { value: sequence, bits });
        Self { bits, sequence, timestamp: None, anchor: None }
    }

    /// The number of a packet. Eight bits wrap after 32 ms of class A, so the presentation time says how often they did.
    fn number(&self, packet: &SeenPacket, length: Option<Span>) -> i64 {
        let by_time = || {
            let (timestamp, number) = self.anchor.filter(|_| self.bits == 8)?;
            let since = self.timestamp?.peek(packet.timestamp?) - timestamp;
            let length = length?.as_nanos();
            Some(number + (since + length / 2).div_euclid(length))
        };
        let expected = by_time().unwrap_or(self.sequence.highest());
        self.sequence.going_on_from(expected).peek(packet.sequence)
    }

    fn take(&mut self, packet: &SeenPacket, number: i64) -> Numbered {
        let highest = self.sequence.highest().max(number);
        self.sequence = self.sequence.going_on_from(highest);
        let timestamp = packet.timestamp.map(|value| {
            let first = Unwrapper::starting_at(Wrapped { value, bits: 32 });
            self.timestamp.get_or_insert(first).extend(value)
        });
        self.anchor = timestamp.map(|timestamp| (timestamp, number)).or(self.anchor);
        Numbered { at: packet.at, sequence: Some(number), timestamp }
    }
}
