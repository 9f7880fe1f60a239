//! Classifies a captured frame and counts bytes per layer, from its headers only. Trusts no length
//! field.

use std::net::{IpAddr, SocketAddr};
use std::ops::AddAssign;

use etherparse::{
    EtherType, IpAuthHeaderSlice, IpNumber, Ipv6ExtensionsSlice, Ipv6FragmentHeaderSlice,
    Ipv6RawExtHeaderSlice, LaxIpPayloadSlice, LaxNetSlice, LaxSlicedPacket, TcpHeaderSlice,
    UdpHeaderSlice, ip_number,
};
use serde::{Deserialize, Serialize};
use tautline_dsp::named_enum;
use tautline_proto::wire::rtp::HEADER_BYTES;

use super::protocol::{Cast, Protocol};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TapLink {
    /// Header, plus checksum that taps do not see.
    Ethernet,
    /// Header exists only in the kernel; interfaces do not count it.
    Loopback,
    Bare,
    /// Payload of this EtherType, as with Linux's `any` interface.
    Typed(u16),
    Unknown,
}

impl TapLink {
    pub const fn of(hardware: u16) -> Self {
        match hardware {
            1 => Self::Ethernet,
            772 => Self::Loopback,
            // Raw IP, IPv4 and IPv6 tunnels, sit, and headerless types (tun).
            519 | 768 | 769 | 776 | 65_534 => Self::Bare,
            _ => Self::Unknown,
        }
    }
}

named_enum! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum TrafficKind {
        Udp = "other UDP",
        Mdns = "mDNS",
        Multicast = "other multicast",
        Broadcast = "broadcast",
        Tcp = "TCP",
        Icmp = "ICMP",
        NeighbourDiscovery = "neighbour discovery",
        /// IGMP and MLD (RFC 3810).
        Membership = "IGMP and MLD",
        Arp = "ARP",
        /// Fragments without a known first one.
        Fragment = "fragments",
        OtherIp = "other IP",
        Other = "no IP",
        /// Damaged, truncated, or an unsupported link.
        Unread = "not understood",
    }
}

/// Each layer includes those within.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LayerBytes {
    pub frames: u64,
    /// On the wire: each segment of an offloaded frame counts.
    pub packets: u64,
    /// Without subsequent fragments.
    pub datagrams: u64,
    pub link: u64,
    pub ip: u64,
    pub transport: u64,
    pub payload: u64,
    /// Only if there is an RTP header.
    pub rtp_payload: u64,
}

impl AddAssign for LayerBytes {
    fn add_assign(&mut self, other: Self) {
        self.frames += other.frames;
        self.packets += other.packets;
        self.datagrams += other.datagrams;
        self.link += other.link;
        self.ip += other.ip;
        self.transport += other.transport;
        self.payload += other.payload;
        self.rtp_payload += other.rtp_payload;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parted {
    pub identification: u32,
    pub from: IpAddr,
    pub to: IpAddr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FramePart {
    Whole,
    First(Parted),
    Later(Parted),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadFrame {
    pub kind: TrafficKind,
    pub protocol: Protocol,
    pub cast: Cast,
    pub ends: Option<[SocketAddr; 2]>,
    pub part: FramePart,
    pub rtp: Option<RtpHead>,
    pub layers: LayerBytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtpHead {
    pub bytes: usize,
    pub sequence: u16,
    pub ssrc: u32,
}

const ETHERNET: usize = 14;
const IPV6: usize = 40;
/// RFC 6762 §3.
const MDNS: u16 = 5353;

/// `segment` is the payload size in an offloaded frame.
pub fn read_frame(link: TapLink, bytes: usize, segment: Option<u16>, head: &[u8]) -> ReadFrame {
    let sliced = match link {
        TapLink::Ethernet | TapLink::Loopback => LaxSlicedPacket::from_ethernet(head).ok(),
        TapLink::Bare => LaxSlicedPacket::from_ip(head).ok(),
        TapLink::Typed(kind) => Some(LaxSlicedPacket::from_ether_type(EtherType(kind), head)),
        TapLink::Unknown => None,
    };
    let Some(sliced) = sliced else {
        return without_ip(bytes, TrafficKind::Unread, Protocol::Unread);
    };
    let tags: usize = sliced.link_exts.iter().map(|tag| tag.header_len()).sum();
    let ahead = match link {
        TapLink::Bare => 0,
        TapLink::Typed(_) => tags,
        _ => ETHERNET + tags,
    };
    let uncounted = if link == TapLink::Loopback { ETHERNET } else { 0 };
    let bytes = bytes.saturating_sub(uncounted);
    let ahead = ahead - uncounted;
    let Some(packet) = sliced.net.as_ref().and_then(IpHeads::of) else {
        let (kind, protocol) = match (&sliced.net, &sliced.stop_err, sliced.ether_payload()) {
            (Some(_), ..) => (TrafficKind::Arp, Protocol::Arp),
            (None, Some(_), _) => (TrafficKind::Unread, Protocol::Unread),
            (None, None, Some(found)) => {
                let protocol = Protocol::of_ether_type(found.ether_type.0, found.payload);
                (TrafficKind::Other, protocol)
            }
            (None, None, None) => (TrafficKind::Other, Protocol::Other),
        };
        return without_ip(bytes, kind, protocol);
    };
    let is_broadcast = link == TapLink::Ethernet && head.starts_with(&[0xff; 6]);
    packet.read(bytes, ahead, segment, is_broadcast)
}

fn without_ip(bytes: usize, kind: TrafficKind, protocol: Protocol) -> ReadFrame {
    let link = bytes as u64;
    let layers = LayerBytes { frames: 1, packets: 1, datagrams: 1, link, ..LayerBytes::default() };
    let (ends, part, rtp) = (None, FramePart::Whole, None);
    ReadFrame { kind, protocol, cast: Cast::NoIp, ends, part, rtp, layers }
}

struct IpHeads<'a> {
    from: IpAddr,
    to: IpAddr,
    head: usize,
    /// From the header; `None` if it does not fit.
    reported: Option<usize>,
    payload: &'a LaxIpPayloadSlice<'a>,
    part: FramePart,
}

impl<'a> IpHeads<'a> {
    /// `None` for ARP.
    fn of(net: &'a LaxNetSlice<'a>) -> Option<Self> {
        Some(match net {
            LaxNetSlice::Ipv4(ip) => {
                let head = ip.header();
                let [from, to] = [head.source_addr(), head.destination_addr()].map(IpAddr::V4);
                let parted = Parted { identification: head.identification().into(), from, to };
                let authentication = ip.extensions().auth.map_or(0, |head| head.slice().len());
                Self {
                    from,
                    to,
                    head: head.slice().len() + authentication,
                    reported: Some(head.total_len().into()),
                    payload: ip.payload(),
                    part: parted.by(head.fragments_offset().value() > 0, head.more_fragments()),
                }
            }
            LaxNetSlice::Ipv6(ip) => {
                let head = ip.header();
                let [from, to] = [head.source_addr(), head.destination_addr()].map(IpAddr::V6);
                let extensions = ip.extensions();
                let part = fragment_head(extensions).map(|head| {
                    let identification = head.identification();
                    let later = head.fragment_offset().value() > 0;
                    Parted { identification, from, to }.by(later, head.more_fragments())
                });
                let reported = usize::from(head.payload_length());
                Self {
                    from,
                    to,
                    head: IPV6 + extensions.slice().len(),
                    // A jumbogram has its length elsewhere (RFC 2675).
                    reported: (reported > 0).then_some(IPV6 + reported),
                    payload: ip.payload(),
                    part: part.unwrap_or(FramePart::Whole),
                }
            }
            LaxNetSlice::Arp(_) => return None,
        })
    }

    fn read(
        &self,
        bytes: usize,
        ahead: usize,
        segment: Option<u16>,
        is_broadcast: bool,
    ) -> ReadFrame {
        let all = bytes.saturating_sub(ahead);
        // The IP length takes precedence: short frames are padded.
        let ip =
            self.reported.filter(|reported| (self.head..=all).contains(reported)).unwrap_or(all);
        let transport = ip.saturating_sub(self.head);
        let found = match self.part {
            FramePart::Later(_) => {
                TransportHead::of_kind(TrafficKind::Fragment, Protocol::Fragment)
            }
            _ => self.transport(),
        };
        let payload = transport.saturating_sub(found.bytes);
        let packets = match segment {
            Some(each) if found.parts => payload.div_ceil(usize::from(each).max(1)).max(1),
            _ => 1,
        };
        // Each segment becomes a packet with headers of its own; only the first headers were seen.
        let again = |heads: usize| (packets - 1) * heads;
        let transport_heads = found.bytes;
        let is_later = matches!(self.part, FramePart::Later(_));
        let layers = LayerBytes {
            frames: 1,
            packets: packets as u64,
            datagrams: if is_later { 0 } else { packets as u64 },
            link: (bytes + again(ahead + self.head + transport_heads)) as u64,
            ip: (ip + again(self.head + transport_heads)) as u64,
            transport: (transport + again(transport_heads)) as u64,
            payload: if found.parts || is_later { payload as u64 } else { 0 },
            rtp_payload: match (found.rtp, is_later) {
                (Some(rtp), _) => payload.saturating_sub(packets * rtp.bytes) as u64,
                // The caller knows whether the first fragment was RTP.
                (None, true) => payload as u64,
                (None, false) => 0,
            },
        };
        let TransportHead { kind, protocol, ends, rtp, .. } = found;
        let cast = Cast::of(self.to, is_broadcast);
        ReadFrame { kind, protocol, cast, ends, part: self.part, rtp, layers }
    }

    fn transport(&self) -> TransportHead {
        let bytes = self.payload.payload;
        match self.payload.ip_number {
            ip_number::UDP => self.udp(bytes),
            ip_number::TCP => {
                // The length is in the first 20 bytes, the minimum.
                let head = TcpHeaderSlice::from_slice(bytes).map_or(20, |head| head.slice().len());
                let ports = bytes.first_chunk().map(|[a, b, c, d]| [[*a, *b], [*c, *d]]);
                let protocol = ports.map(|ports| Protocol::of_tcp(ports.map(u16::from_be_bytes)));
                TransportHead {
                    bytes: head,
                    parts: true,
                    ..TransportHead::of_kind(
                        TrafficKind::Tcp,
                        protocol.unwrap_or(Protocol::OtherTcp),
                    )
                }
            }
            number => {
                let (kind, protocol) = other(number, bytes.first().copied());
                TransportHead::of_kind(kind, protocol)
            }
        }
    }

    fn udp(&self, bytes: &[u8]) -> TransportHead {
        let Ok(head) = UdpHeaderSlice::from_slice(bytes) else {
            return TransportHead::of_kind(TrafficKind::Unread, Protocol::Unread);
        };
        let ports = [head.source_port(), head.destination_port()];
        let is_broadcast = matches!(self.to, IpAddr::V4(to) if to.is_broadcast());
        let kind = match self.to {
            _ if ports.contains(&MDNS) => TrafficKind::Mdns,
            to if to.is_multicast() => TrafficKind::Multicast,
            _ if is_broadcast => TrafficKind::Broadcast,
            _ => TrafficKind::Udp,
        };
        let payload = bytes.get(head.slice().len()..).unwrap_or_default();
        let protocol = match Protocol::of_udp(ports) {
            Protocol::OtherUdp if is_rtcp(payload) => Protocol::Rtcp,
            protocol => protocol,
        };
        TransportHead {
            kind,
            protocol,
            bytes: head.slice().len(),
            parts: true,
            rtp: rtp_head(payload),
            ends: Some([(self.from, ports[0]).into(), (self.to, ports[1]).into()]),
        }
    }
}

/// Checks each extension itself: etherparse 0.21's iterator reads beyond a truncated last header.
fn fragment_head<'a>(extensions: &Ipv6ExtensionsSlice<'a>) -> Option<Ipv6FragmentHeaderSlice<'a>> {
    let (mut next, mut rest) = (extensions.first_header()?, extensions.slice());
    loop {
        let length = match next {
            ip_number::IPV6_FRAG => return Ipv6FragmentHeaderSlice::from_slice(rest).ok(),
            ip_number::IPV6_HOP_BY_HOP | ip_number::IPV6_ROUTE | ip_number::IPV6_DEST_OPTIONS => {
                let head = Ipv6RawExtHeaderSlice::from_slice(rest).ok()?;
                next = head.next_header();
                head.slice().len()
            }
            ip_number::AUTH => {
                let head = IpAuthHeaderSlice::from_slice(rest).ok()?;
                next = head.next_header();
                head.slice().len()
            }
            _ => return None,
        };
        rest = rest.get(length..)?;
    }
}

impl Parted {
    fn by(self, is_later: bool, more: bool) -> FramePart {
        match (is_later, more) {
            (true, _) => FramePart::Later(self),
            (false, true) => FramePart::First(self),
            (false, false) => FramePart::Whole,
        }
    }
}

struct TransportHead {
    kind: TrafficKind,
    protocol: Protocol,
    bytes: usize,
    parts: bool,
    rtp: Option<RtpHead>,
    ends: Option<[SocketAddr; 2]>,
}

impl TransportHead {
    const fn of_kind(kind: TrafficKind, protocol: Protocol) -> Self {
        Self { kind, protocol, bytes: 0, parts: false, rtp: None, ends: None }
    }
}

/// ICMP types (RFC 4861 §4; RFC 2710 §3; RFC 3810 §5) and other IP protocols.
fn other(number: IpNumber, first: Option<u8>) -> (TrafficKind, Protocol) {
    match (number, first) {
        (ip_number::IPV6_ICMP, Some(133..=137)) => {
            (TrafficKind::NeighbourDiscovery, Protocol::NeighbourDiscovery)
        }
        (ip_number::IPV6_ICMP, Some(130..=132 | 143)) | (ip_number::IGMP, _) => {
            (TrafficKind::Membership, Protocol::Membership)
        }
        (ip_number::IPV6_ICMP | ip_number::ICMP, _) => (TrafficKind::Icmp, Protocol::Icmp),
        _ => (TrafficKind::OtherIp, Protocol::OtherIp),
    }
}

/// Whether the datagram is RTCP (RFC 3550 §12.1, RFC 4585 §6.1, RFC 3611 §2).
fn is_rtcp(datagram: &[u8]) -> bool {
    matches!(datagram, [first, 200..=207, _, _, ..] if first >> 6 == 2)
}

/// RFC 3550 §5.1 and §5.3.1; `None` for RTCP (RFC 5761 §4).
fn rtp_head(datagram: &[u8]) -> Option<RtpHead> {
    let (first, second) = (*datagram.first()?, *datagram.get(1)?);
    if first >> 6 != 2 || (64..=95).contains(&(second & 0x7f)) {
        return None;
    }
    let fixed = HEADER_BYTES + 4 * usize::from(first & 15);
    let extension = match first & 0x10 {
        0 => 0,
        _ => {
            let length = datagram.get(fixed + 2..)?.first_chunk()?;
            4 + 4 * usize::from(u16::from_be_bytes(*length))
        }
    };
    let sequence = u16::from_be_bytes(*datagram.get(2..)?.first_chunk()?);
    let ssrc = u32::from_be_bytes(*datagram.get(8..)?.first_chunk()?);
    Some(RtpHead { bytes: fixed + extension, sequence, ssrc })
}

#[cfg(test)]
mod tests;
