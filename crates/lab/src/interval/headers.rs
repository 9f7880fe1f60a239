//! What stands before the sound in a captured frame. Nothing here trusts a length: what does not fit
//! is no RTP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What begins each frame of a capture (tcpdump.org/linktypes.html).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkType {
    Ethernet,
    /// Nothing: an IP packet.
    Raw,
    /// The family of BSD's loopback, in four bytes.
    Null,
    /// Of Linux's `any` interface.
    Cooked,
    /// The same, second version.
    Cooked2,
}

impl LinkType {
    /// By its number.
    pub(super) const fn of(number: i32) -> Option<Self> {
        match number {
            0 | 108 => Some(Self::Null),
            1 => Some(Self::Ethernet),
            12 | 14 | 101 | 228 | 229 => Some(Self::Raw),
            113 => Some(Self::Cooked),
            276 => Some(Self::Cooked2),
            _ => None,
        }
    }
}

/// The part of RTP's fixed header by which a packet is known (RFC 3550 §5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rtp {
    pub(super) sequence: u16,
    pub(super) timestamp: u32,
    pub(super) ssrc: u32,
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

/// The RTP header of a frame, and whence and whither it goes.
pub(super) fn rtp_of_frame(link: LinkType, frame: &[u8]) -> Option<(SocketAddr, SocketAddr, Rtp)> {
    let packet = match link {
        LinkType::Ethernet => ethernet(frame)?,
        LinkType::Raw => frame,
        LinkType::Null => frame.get(4..)?,
        LinkType::Cooked => frame.get(16..).filter(|_| is_ip(word(frame, 14)))?,
        LinkType::Cooked2 => frame.get(20..).filter(|_| is_ip(word(frame, 0)))?,
    };
    let (from, to, datagram) = match packet.first()? >> 4 {
        4 => ipv4(packet)?,
        6 => ipv6(packet)?,
        _ => return None,
    };
    let ports = (word(datagram, 0)?, word(datagram, 2)?);
    let rtp = rtp(datagram.get(8..)?)?;
    Some((SocketAddr::new(from, ports.0), SocketAddr::new(to, ports.1), rtp))
}

fn is_ip(ethertype: Option<u16>) -> bool {
    matches!(ethertype, Some(IPV4 | IPV6))
}

/// Past the addresses and the tags.
fn ethernet(frame: &[u8]) -> Option<&[u8]> {
    let mut at = 12;
    for _ in 0..=TAGS {
        match word(frame, at)? {
            0x8100 | 0x88a8 | 0x9100 => at += 4,
            IPV4 | IPV6 => return frame.get(at + 2..),
            _ => return None,
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

/// The header of an RTP packet; what looks like RTCP (RFC 5761 §4) is none.
pub(super) fn rtp(datagram: &[u8]) -> Option<Rtp> {
    let (first, second) = (*datagram.first()?, *datagram.get(1)?);
    let is_rtp = first >> 6 == 2 && !(64..=95).contains(&(second & 0x7f));
    let header = Rtp {
        sequence: word(datagram, 2)?,
        timestamp: long(datagram, 4)?,
        ssrc: long(datagram, 8)?,
    };
    is_rtp.then_some(header)
}
