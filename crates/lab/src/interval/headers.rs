//! The headers before the sound in a captured frame. Nothing here trusts a length: what does not fit is no packet of
//! a stream.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tautline_proto::packet::StreamId;
use tautline_proto::time::{Frames, Span};
use tautline_proto::wire::avtp::{ETHERTYPE, Encapsulation, rate_of, sample_of};

use super::flows::{Destination, FlowName};
pub(super) use crate::capture::LinkType;

/// A packet of a stream, as far as its headers describe it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamPacket {
    pub(super) name: FlowName,
    /// As it stands in the header: 16 bits of RTP, 8 of AVTP.
    pub(super) sequence: u32,
    /// Frames in RTP, the presentation time in nanoseconds in AVTP, where a packet may lack it.
    pub(super) timestamp: Option<u32>,
    /// The sound in the packet, if its own headers state rate and channels (AAF).
    pub(super) length: Option<Span>,
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const UDP: u8 = 17;
/// VLAN tags of one frame at most (IEEE 802.1Q has two).
const TAGS: usize = 4;
/// Extension headers of one packet at most.
const EXTENSIONS: usize = 8;

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at.checked_add(2)?)?.try_into().ok().map(u16::from_be_bytes)
}

fn long(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_be_bytes)
}

/// The packet of RTP or AVTP in a frame.
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

/// The packet of RTP or AVTP in a datagram of UDP.
pub(super) fn packet_of_datagram(
    datagram: &[u8],
    from: SocketAddr,
    to: Option<SocketAddr>,
) -> Option<StreamPacket> {
    // AVTP states its own length, which RTP meets by chance once in 65,536 packets, and never in a row.
    avtp(Encapsulation::Udp, datagram, to.map(Destination::Udp))
        .filter(|packet| packet.length.is_some())
        .or_else(|| rtp(datagram, from, to))
}

const fn is_ip(ethertype: u16) -> bool {
    matches!(ethertype, IPV4 | IPV6)
}

/// The ethertype behind addresses and tags, and the bytes behind that.
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

/// RFC 791 §3.1. Of a packet in fragments the first has the headers.
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
            // Of a fragment that is not the first there is no header.
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

/// The fixed header of RTP (RFC 3550 §5.1); a packet that looks like RTCP (RFC 5761 §4) is none.
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

/// Subtypes of AVTP whose packets begin with the common header of streams (IEEE 1722-2016 §4.4.4, table 6).
const STREAMS: [(u8, &str); 3] = [(0x00, "61883"), (AAF, "AAF"), (0x03, "CVF")];
const AAF: u8 = 0x02;

/// A packet of an AVTP stream: in Ethernet, or behind the number that precedes it in UDP (annex J.1).
pub(super) fn avtp(
    encapsulation: Encapsulation,
    datagram: &[u8],
    to: Option<Destination>,
) -> Option<StreamPacket> {
    let (_, packet) = encapsulation.split(datagram)?;
    let (subtype, flags) = (*packet.first()?, *packet.get(1)?);
    let (_, kind) = STREAMS.iter().find(|(number, _)| *number == subtype)?;
    // `sv`, the stream ID is valid; version 0.
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

/// The sound in a packet of AAF PCM (§7.3); `None` if its header does not describe what follows it.
fn sound_in_aaf(packet: &[u8]) -> Option<Span> {
    let bytes = usize::from(word(packet, 20)?);
    packet.get(24..24 + bytes)?;
    let channels = usize::from(word(packet, 17)? & 0x3ff);
    let frame = channels * sample_of(*packet.get(16)?)?.bytes();
    let frames = bytes.checked_div(frame).filter(|frames| *frames > 0 && bytes % frame == 0)?;
    let rate = rate_of(packet.get(17)? >> 4)?;
    Some(rate.span_of(Frames::new(frames as i64)))
}
