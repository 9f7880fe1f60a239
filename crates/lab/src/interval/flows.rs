//! Sorts packets into streams.

use core::fmt;
use std::collections::BTreeMap;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tautline_proto::packet::StreamId;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Rate;
use tautline_proto::wire::avtp::{ETHERTYPE, Encapsulation, id_of, rate_of, sample_of};
use tautline_proto::wrap::{Unwrapper, Wrapped};

pub(super) use crate::capture::LinkType;
use crate::capture::read_frames;

/// Times until 2116 from 1970, so that a sum of two times fits.
pub(super) fn instant(nanos: i64) -> Option<LocalTime> {
    (0..=i64::MAX / 2).contains(&nanos).then(|| LocalTime::from_nanos(nanos))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FlowName {
    Rtp {
        ssrc: u32,
        from: SocketAddr,
        to: Option<SocketAddr>,
    },
    /// The stream ID identifies the talker.
    Avtp {
        kind: &'static str,
        stream: StreamId,
        to: Option<Destination>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Destination {
    Ethernet([u8; 6]),
    Udp(SocketAddr),
}

impl FlowName {
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

#[derive(Debug, Clone, Copy)]
struct CapturedPacket {
    flow: u32,
    at: LocalTime,
    sequence: u32,
    timestamp: Option<u32>,
}

#[derive(Debug, Default)]
pub(super) struct Flows {
    known: BTreeMap<FlowName, KnownFlow>,
    seen: Vec<CapturedPacket>,
    uncertainty: Option<Span>,
}

#[derive(Debug, Clone, Copy)]
struct KnownFlow {
    index: u32,
    length: Option<Span>,
}

#[derive(Debug)]
pub(super) struct PacketFlow {
    pub(super) name: String,
    pub(super) packets: Vec<Numbered>,
    pub(super) unit: TimestampUnit,
    pub(super) length: Option<Span>,
    pub(super) uncertainty: Option<Span>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Numbered {
    pub(super) at: LocalTime,
    pub(super) sequence: Option<i64>,
    pub(super) timestamp: Option<i64>,
}

/// Maximum jump of a sequence number. A larger jump is a restarted sender (RFC 3550 A.1).
const MAX_DROPOUT: i64 = 3000;
/// Maximum pause of an AVTP sender. After a longer pause, the sender was restarted: timestamps wrap
/// after 4.3 s, numbers after 256 packets.
const PAUSE: Span = Span::from_secs(2);
pub(super) const MIN: usize = 10;

pub(super) struct SortedFlows {
    pub(super) streams: Vec<PacketFlow>,
    pub(super) strange: usize,
    pub(super) few: usize,
}

impl Flows {
    pub(super) fn with_room(packets: usize) -> Self {
        Self { seen: Vec::with_capacity(packets), ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.seen.len()
    }

    pub(super) fn see(&mut self, at: LocalTime, packet: &StreamPacket) {
        let next = KnownFlow { index: self.known.len() as u32, length: packet.length };
        let flow = self.known.entry(packet.name).or_insert(next).index;
        let StreamPacket { sequence, timestamp, .. } = *packet;
        self.seen.push(CapturedPacket { flow, at, sequence, timestamp });
    }

    pub(super) fn doubt(&mut self, uncertainty: Span) {
        self.uncertainty = Some(self.uncertainty.unwrap_or(Span::ZERO).max(uncertainty));
    }

    /// At least half of a stream's packets follow the previous packet. RTP timestamps have `rate`.
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
            let follows = |pair: &&[CapturedPacket]| {
                let next = Wrapped { value: pair[0].sequence, bits }.plus(1);
                pair[1].sequence == next.value
            };
            let following = seen.windows(2).filter(follows).count();
            if seen.len() < MIN {
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

/// Numbers the packets, and splits them at sender restarts.
fn number(seen: &[CapturedPacket], bits: u32, length: Option<Span>) -> Vec<Vec<Numbered>> {
    let mut stints: Vec<Vec<Numbered>> = Vec::new();
    let mut counters: Option<Counters> = None;
    let mut last = LocalTime::ZERO;
    for packet in seen {
        let paused = bits == 8 && packet.at - last > PAUSE;
        last = packet.at;
        let next = counters.as_ref().filter(|_| !paused).and_then(|counters| {
            let number = counters.number(packet, length);
            ((number - counters.sequence.highest()).abs() <= MAX_DROPOUT).then_some(number)
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

struct Counters {
    bits: u32,
    sequence: Unwrapper,
    timestamp: Option<Unwrapper>,
    anchor: Option<(i64, i64)>,
}

impl Counters {
    fn starting_at(sequence: u32, bits: u32) -> Self {
        let sequence = Unwrapper::starting_at(Wrapped { value: sequence, bits });
        Self { bits, sequence, timestamp: None, anchor: None }
    }

    /// Eight bits wrap after 32 ms (class A): the presentation time counts the wraps.
    fn number(&self, packet: &CapturedPacket, length: Option<Span>) -> i64 {
        let by_time = || {
            let (timestamp, number) = self.anchor.filter(|_| self.bits == 8)?;
            let since = self.timestamp?.peek(packet.timestamp?) - timestamp;
            let length = length?.as_nanos();
            Some(number + (since + length / 2).div_euclid(length))
        };
        let expected = by_time().unwrap_or(self.sequence.highest());
        self.sequence.going_on_from(expected).peek(packet.sequence)
    }

    fn take(&mut self, packet: &CapturedPacket, number: i64) -> Numbered {
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

pub(super) struct ReadCapture {
    pub(super) flows: Flows,
    pub(super) ended: Option<String>,
    pub(super) notes: Vec<String>,
}

pub(super) fn read_capture(file: impl Read + Send) -> ReadCapture {
    let mut flows = Flows::default();
    let read = read_frames(file, &mut |frame| {
        let packet = packet_of_frame(frame.link, frame.frame);
        if let (Some(at), Some(packet)) = (instant(frame.at_ns), packet) {
            flows.see(at, &packet);
        }
    });
    let notes = read.note().into_iter().collect();
    ReadCapture { flows, ended: read.ended, notes }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamPacket {
    pub(super) name: FlowName,
    /// Raw sequence number: 16 bits in RTP, 8 bits in AVTP.
    pub(super) sequence: u32,
    /// Timestamp in frames (RTP) or nanoseconds (AVTP).
    pub(super) timestamp: Option<u32>,
    /// Duration, known if the headers carry rate and channels (AAF).
    pub(super) length: Option<Span>,
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const UDP: u8 = 17;
const TAGS: usize = 4;
const EXTENSIONS: usize = 8;

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at.checked_add(2)?)?.try_into().ok().map(u16::from_be_bytes)
}

fn long(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_be_bytes)
}

pub(super) fn packet_of_frame(link: LinkType, frame: &[u8]) -> Option<StreamPacket> {
    let (ethertype, packet) = match link {
        LinkType::Ethernet => ethernet(frame)?,
        LinkType::Raw => (IPV4, frame),
        LinkType::Null => (IPV4, frame.get(4..)?),
        LinkType::Cooked => (word(frame, 14)?, frame.get(16..)?),
        LinkType::Cooked2 => (word(frame, 0)?, frame.get(20..)?),
    };
    if ethertype == ETHERTYPE {
        let to = (link == LinkType::Ethernet).then(|| frame.first_chunk().copied()).flatten();
        return avtp(Encapsulation::Ethernet, packet, to.map(Destination::Ethernet));
    }
    let (from, to, datagram) = match packet.first()? >> 4 {
        4 if is_ip(ethertype) => ipv4(packet)?,
        6 if is_ip(ethertype) => ipv6(packet)?,
        _ => return None,
    };
    let ports = (word(datagram, 0)?, word(datagram, 2)?);
    let to = SocketAddr::new(to, ports.1);
    packet_of_datagram(datagram.get(8..)?, SocketAddr::new(from, ports.0), Some(to))
}

pub(super) fn packet_of_datagram(
    datagram: &[u8],
    from: SocketAddr,
    to: Option<SocketAddr>,
) -> Option<StreamPacket> {
    // RTP matches AVTP's length by chance once in 65,536 packets, never in a row.
    avtp(Encapsulation::Udp, datagram, to.map(Destination::Udp))
        .filter(|packet| packet.length.is_some())
        .or_else(|| rtp(datagram, from, to))
}

const fn is_ip(ethertype: u16) -> bool {
    matches!(ethertype, IPV4 | IPV6)
}

fn ethernet(frame: &[u8]) -> Option<(u16, &[u8])> {
    let mut at = 12;
    for _ in 0..=TAGS {
        match word(frame, at)? {
            0x8100 | 0x88a8 | 0x9100 => at += 4,
            ethertype => return Some((ethertype, frame.get(at + 2..)?)),
        }
    }
    None
}

/// RFC 791 §3.1; only the first fragment has the headers.
fn ipv4(packet: &[u8]) -> Option<(IpAddr, IpAddr, &[u8])> {
    let header = usize::from(packet.first()? & 15) * 4;
    let fragment = word(packet, 6)? & 0x1fff;
    let is_udp = *packet.get(9)? == UDP && fragment == 0 && header >= 20;
    let address = |at| long(packet, at).map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)));
    let payload = packet.get(header..).filter(|_| is_udp)?;
    Some((address(12)?, address(16)?, payload))
}

/// RFC 8200 §3 and §4.
fn ipv6(packet: &[u8]) -> Option<(IpAddr, IpAddr, &[u8])> {
    let address = |at: usize| {
        let bytes: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
        Some(IpAddr::V6(Ipv6Addr::from(bytes)))
    };
    let (from, to) = (address(8)?, address(24)?);
    let (mut next, mut rest) = (*packet.get(6)?, packet.get(40..)?);
    for _ in 0..=EXTENSIONS {
        let length = match next {
            UDP => return Some((from, to, rest)),
            // Hop-by-hop, routing, destination.
            0 | 43 | 60 => 8 * (1 + usize::from(*rest.get(1)?)),
            // First fragment only.
            44 if word(rest, 2)? & 0xfff8 == 0 => 8,
            // Authentication (RFC 4302 §2.2).
            51 => 4 * (2 + usize::from(*rest.get(1)?)),
            _ => return None,
        };
        next = *rest.first()?;
        rest = rest.get(length..)?;
    }
    None
}

/// RFC 3550 §5.1; `None` if it looks like RTCP (RFC 5761 §4).
fn rtp(datagram: &[u8], from: SocketAddr, to: Option<SocketAddr>) -> Option<StreamPacket> {
    let (first, second) = (*datagram.first()?, *datagram.get(1)?);
    let is_rtp = first >> 6 == 2 && !(64..=95).contains(&(second & 0x7f));
    let packet = StreamPacket {
        name: FlowName::Rtp { ssrc: long(datagram, 8)?, from, to },
        sequence: word(datagram, 2)?.into(),
        timestamp: Some(long(datagram, 4)?),
        length: None,
    };
    is_rtp.then_some(packet)
}

/// Subtypes with the common stream header (IEEE 1722-2016 §4.4.4, table 6).
const STREAMS: [(u8, &str); 3] = [(0x00, "61883"), (AAF, "AAF"), (0x03, "CVF")];
const AAF: u8 = 0x02;

pub(super) fn avtp(
    encapsulation: Encapsulation,
    datagram: &[u8],
    to: Option<Destination>,
) -> Option<StreamPacket> {
    let (_, packet) = encapsulation.split(datagram)?;
    let (subtype, flags) = (*packet.first()?, *packet.get(1)?);
    let (_, kind) = STREAMS.iter().find(|(number, _)| *number == subtype)?;
    // `sv` set (stream ID valid), version 0.
    if flags & 0x80 == 0 || flags & 0x70 != 0 {
        return None;
    }
    let stream = u64::from_be_bytes(packet.get(4..12)?.try_into().ok()?);
    let timed = flags & 1 != 0;
    Some(StreamPacket {
        name: FlowName::Avtp { kind, stream: StreamId(stream), to },
        sequence: (*packet.get(2)?).into(),
        timestamp: timed.then(|| long(packet, 12)).flatten(),
        length: if subtype == AAF { sound_in_aaf(packet) } else { None },
    })
}

/// AAF PCM (§7.3); `None` if header and content differ.
fn sound_in_aaf(packet: &[u8]) -> Option<Span> {
    let bytes = usize::from(word(packet, 20)?);
    packet.get(24..24 + bytes)?;
    let channels = usize::from(word(packet, 17)? & 0x3ff);
    let frame = channels * sample_of(*packet.get(16)?)?.bytes();
    let frames = bytes.checked_div(frame).filter(|frames| *frames > 0 && bytes % frame == 0)?;
    let rate = rate_of(packet.get(17)? >> 4)?;
    Some(rate.span_of(Frames::new(frames as i64)))
}
