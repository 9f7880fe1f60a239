//! Protocol of a frame by EtherType, IP protocol and port (IANA), and destination kind.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use tautline_dsp::named_enum;

named_enum! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Protocol {
        /// By header (RFC 3550).
        Rtp = "RTP",
        Rtcp = "RTCP",
        /// IEEE 1722.
        Avtp = "AVTP",
        /// IEEE 1588 and 802.1AS.
        Ptp = "PTP",
        /// MSRP, MVRP and MMRP (IEEE 802.1Q).
        Srp = "SRP",
        /// RFC 2974.
        Sap = "SAP",
        Rtsp = "RTSP",
        /// RFC 6762.
        Mdns = "mDNS",
        Dns = "DNS",
        Ssdp = "SSDP",
        WsDiscovery = "WS-Discovery",
        /// RFC 4795.
        Llmnr = "LLMNR",
        /// RFC 1001.
        Netbios = "NetBIOS",
        Dhcp = "DHCP",
        Ntp = "NTP",
        Snmp = "SNMP",
        /// On the HTTPS port.
        Quic = "QUIC",
        OtherUdp = "other UDP",
        Http = "HTTP",
        Https = "HTTPS",
        Ssh = "SSH",
        OtherTcp = "other TCP",
        Icmp = "ICMP",
        /// RFC 4861.
        NeighbourDiscovery = "neighbour discovery",
        /// IGMP and MLD (RFC 3810).
        Membership = "IGMP and MLD",
        /// Without a known first one.
        Fragment = "fragments",
        OtherIp = "other IP",
        Arp = "ARP",
        Lldp = "LLDP",
        /// IEEE 802.1D.
        Stp = "STP",
        Other = "other Ethernet",
        /// Damaged, truncated, or an unsupported link.
        Unread = "not understood",
    }
}

const UDP: [(u16, Protocol); 21] = [
    (53, Protocol::Dns),
    (67, Protocol::Dhcp),
    (68, Protocol::Dhcp),
    (123, Protocol::Ntp),
    (137, Protocol::Netbios),
    (138, Protocol::Netbios),
    (161, Protocol::Snmp),
    (162, Protocol::Snmp),
    (319, Protocol::Ptp),
    (320, Protocol::Ptp),
    (443, Protocol::Quic),
    (546, Protocol::Dhcp),
    (547, Protocol::Dhcp),
    (554, Protocol::Rtsp),
    (1900, Protocol::Ssdp),
    (3702, Protocol::WsDiscovery),
    (5353, Protocol::Mdns),
    (5355, Protocol::Llmnr),
    (9875, Protocol::Sap),
    // IEEE 1722, annex J: streams, and control.
    (17_220, Protocol::Avtp),
    (17_221, Protocol::Avtp),
];

const TCP: [(u16, Protocol); 6] = [
    (22, Protocol::Ssh),
    (53, Protocol::Dns),
    (80, Protocol::Http),
    (443, Protocol::Https),
    (554, Protocol::Rtsp),
    (8080, Protocol::Http),
];

const ETHER_TYPES: [(u16, Protocol); 7] = [
    (0x0806, Protocol::Arp),
    (0x22ea, Protocol::Srp),
    (0x22f0, Protocol::Avtp),
    (0x88cc, Protocol::Lldp),
    (0x88f5, Protocol::Srp),
    (0x88f6, Protocol::Srp),
    (0x88f7, Protocol::Ptp),
];

/// Maximum length of a frame with an LLC header (IEEE 802.3 §3.2.6).
const MAX_LENGTH: u16 = 1500;
/// Spanning tree: both access points, unnumbered information.
const STP_LLC: [u8; 3] = [0x42, 0x42, 0x03];

fn by_port(known: &[(u16, Protocol)], [from, to]: [u16; 2]) -> Option<Protocol> {
    let of = |port: u16| known.iter().find(|(one, _)| *one == port).map(|(_, protocol)| *protocol);
    of(to).or_else(|| of(from))
}

impl Protocol {
    pub(super) fn of_udp(ports: [u16; 2]) -> Self {
        by_port(&UDP, ports).unwrap_or(Self::OtherUdp)
    }

    pub(super) fn of_tcp(ports: [u16; 2]) -> Self {
        by_port(&TCP, ports).unwrap_or(Self::OtherTcp)
    }

    pub(super) fn of_ether_type(ether_type: u16, payload: &[u8]) -> Self {
        if ether_type <= MAX_LENGTH && payload.starts_with(&STP_LLC) {
            return Self::Stp;
        }
        by_port(&ETHER_TYPES, [0, ether_type]).unwrap_or(Self::Other)
    }
}

named_enum! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Cast {
        Ipv4Unicast = "IPv4 unicast",
        Ipv4Multicast = "IPv4 multicast",
        Ipv4Broadcast = "IPv4 broadcast",
        Ipv6Unicast = "IPv6 unicast",
        Ipv6Multicast = "IPv6 multicast",
        NoIp = "no IP",
    }
}

impl Cast {
    /// The Ethernet address detects directed broadcasts of unknown networks.
    pub(super) const fn of(to: IpAddr, is_ethernet_broadcast: bool) -> Self {
        match to {
            IpAddr::V4(to) if to.is_multicast() => Self::Ipv4Multicast,
            IpAddr::V4(to) if to.is_broadcast() || is_ethernet_broadcast => Self::Ipv4Broadcast,
            IpAddr::V4(_) => Self::Ipv4Unicast,
            IpAddr::V6(to) if to.is_multicast() => Self::Ipv6Multicast,
            IpAddr::V6(_) => Self::Ipv6Unicast,
        }
    }
}
