//! Sources and destinations of datagrams. A source's name proves nothing: every group member knows
//! it.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::time::{LocalTime, Span};

/// Network address without port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Host(Name);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    Ip(IpAddr),
    Ethernet([u8; 6]),
    Connection(u64),
    Memory(u64),
}

/// Group bit (IEEE 802 §8.2.2).
const ETHERNET_GROUP: u8 = 1;

impl Host {
    /// Unknown host.
    pub const UNKNOWN: Self = Self(Name::Ip(IpAddr::V4(Ipv4Addr::UNSPECIFIED)));

    /// Whether the address is a multicast group.
    pub const fn is_group(&self) -> bool {
        match self.0 {
            Name::Ip(address) => address.is_multicast(),
            Name::Ethernet(address) => address[0] & ETHERNET_GROUP != 0,
            Name::Connection(_) | Name::Memory(_) => false,
        }
    }
}

impl From<IpAddr> for Host {
    /// IPv4 from an IPv6 socket is the same host.
    fn from(address: IpAddr) -> Self {
        Self(Name::Ip(address.to_canonical()))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Name::Ip(address) => address.fmt(f),
            Name::Ethernet([a, b, c, d, e, last]) => {
                write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{last:02x}")
            }
            Name::Connection(number) => write!(f, "connection {number}"),
            Name::Memory(number) => write!(f, "memory {number}"),
        }
    }
}

/// Address of datagrams.
#[derive(Debug, Clone, Copy)]
pub enum Endpoint {
    /// IP.
    Ip {
        /// Address and UDP port.
        address: SocketAddr,
        /// Index of the receiving interface; 0 if unknown.
        network: u32,
    },
    /// Ethernet.
    Ethernet {
        /// Address (EUI-48).
        address: [u8; 6],
        /// Index of the interface.
        network: u32,
    },
    /// Connection, by link number.
    Connection(u64),
    /// Shared memory, by number.
    Memory(u64),
}

impl Endpoint {
    /// Unknown address.
    pub const UNKNOWN: Self =
        Self::Ip { address: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0), network: 0 };

    /// IP endpoint, received on this interface.
    pub const fn new(address: SocketAddr, network: u32) -> Self {
        Self::Ip { address, network }
    }

    /// Host.
    pub fn host(&self) -> Host {
        match *self {
            Self::Ip { address, .. } => address.ip().into(),
            Self::Ethernet { address, .. } => Host(Name::Ethernet(address)),
            Self::Connection(number) => Host(Name::Connection(number)),
            Self::Memory(number) => Host(Name::Memory(number)),
        }
    }

    /// Local interface; 0 if unknown or absent.
    pub const fn network(&self) -> u32 {
        match *self {
            Self::Ip { network, .. } | Self::Ethernet { network, .. } => network,
            Self::Connection(_) | Self::Memory(_) => 0,
        }
    }

    /// IP address and UDP port, if any.
    pub const fn socket_address(&self) -> Option<SocketAddr> {
        match *self {
            Self::Ip { address, .. } => Some(address),
            Self::Ethernet { .. } | Self::Connection(_) | Self::Memory(_) => None,
        }
    }

    fn port(&self) -> Option<u16> {
        self.socket_address().map(|address| address.port())
    }

    /// Whether both endpoints have the same host and port. Not inlined, so that the caller's first
    /// check is.
    #[inline(never)]
    fn is_other_name_of(&self, other: &Self) -> bool {
        (self.host(), self.port()) == (other.host(), other.port())
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self::new(address, 0)
    }
}

/// Ignores the local interface.
impl PartialEq for Endpoint {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            // Fast path.
            (
                Self::Ip { address: SocketAddr::V4(one), .. },
                Self::Ip { address: SocketAddr::V4(other), .. },
            ) => one == other,
            _ => self.is_other_name_of(other),
        }
    }
}

impl Eq for Endpoint {}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip { address, .. } => match address.ip().to_canonical() {
                IpAddr::V4(four) => SocketAddr::new(four.into(), address.port()).fmt(f),
                IpAddr::V6(_) => address.fmt(f),
            },
            other => other.host().fmt(f),
        }
    }
}

/// Source and its host: other hosts cannot take its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Author {
    /// SSRC of the source.
    pub ssrc: u32,
    /// Host that uses this SSRC.
    pub host: Host,
}

impl Author {
    /// On an unknown host ([`Endpoint::UNKNOWN`]).
    pub const fn of(ssrc: u32) -> Self {
        Self { ssrc, host: Host::UNKNOWN }
    }
}

/// Source and times of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Sender's address, with the receiving interface if known.
    pub from: Endpoint,
    /// Kernel timestamp on the monotonic clock, at most [`Self::read`]. Equals [`Self::read`]
    /// without a kernel timestamp.
    pub at: LocalTime,
    /// Error of `at` from clock mapping. [`Span::MAX`] without a kernel timestamp.
    pub uncertainty: Span,
    /// Time at which the program read the batch.
    pub read: LocalTime,
}

impl Arrival {
    /// Arrival without timestamp error.
    pub const fn exact(from: Endpoint, at: LocalTime, read: LocalTime) -> Self {
        Self { from, at, uncertainty: Span::ZERO, read }
    }
}

/// Maximum networks per stream.
const MAX_PATHS: usize = 4;

/// Addresses of a source, one per network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SourceEndpoints([Option<Endpoint>; MAX_PATHS]);

impl SourceEndpoints {
    /// Single address.
    pub const fn only(from: Endpoint) -> Self {
        Self([Some(from), None, None, None])
    }

    fn places(&self) -> impl Iterator<Item = &Endpoint> {
        self.0.iter().flatten()
    }

    /// Address of the first packet.
    pub const fn first(&self) -> Option<Endpoint> {
        self.0[0]
    }

    pub(crate) fn begin_at(&self, from: &Endpoint) -> bool {
        self.0[0].as_ref() == Some(from)
    }

    /// Whether the source has this address.
    pub fn has(&self, from: Endpoint) -> bool {
        self.places().any(|place| *place == from)
    }

    pub(crate) fn are_of(&self, host: Host) -> bool {
        self.places().any(|place| place.host() == host)
    }

    /// Adds an address on another network. `None` if impossible.
    #[must_use]
    pub fn with(mut self, from: Endpoint) -> Option<Self> {
        let known = self.places().any(|place| place.network() == from.network());
        let free = self.0.iter_mut().find(|place| place.is_none()).filter(|_| !known)?;
        *free = Some(from);
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str, network: u32) -> Endpoint {
        Endpoint::new(text.parse().unwrap(), network)
    }

    #[test]
    fn each_network_has_one_place_and_four_is_the_most() {
        let ways = SourceEndpoints::only(place("10.0.0.1:5004", 2));
        assert_eq!(ways.with(place("10.0.0.9:5004", 2)), None);
        let both = ways.with(place("10.1.0.1:5004", 3)).unwrap();
        assert!(both.has(place("10.1.0.1:5004", 0)), "via any network");
        assert!(
            !both.has(place("10.1.0.1:5006", 3))
                && both.are_of("10.1.0.1".parse::<IpAddr>().unwrap().into())
        );
        let four = both.with(place("10.2.0.1:1", 4)).and_then(|w| w.with(place("10.3.0.1:1", 5)));
        assert_eq!(four.unwrap().with(place("10.4.0.1:1", 6)), None);
    }

    #[test]
    fn an_address_of_either_family_is_one_host() {
        assert_eq!(place("[::ffff:10.0.0.1]:7", 1), place("10.0.0.1:7", 1));
        assert!(Host::from("239.1.2.3".parse::<IpAddr>().unwrap()).is_group());
    }

    #[test]
    fn places_that_are_reached_by_different_means_are_different() {
        let all = [
            place("10.0.0.1:7", 1),
            Endpoint::Ethernet { address: [0, 1, 2, 3, 4, 5], network: 1 },
            Endpoint::Ethernet { address: [1, 1, 2, 3, 4, 5], network: 1 },
            Endpoint::Connection(1),
            Endpoint::Connection(2),
            Endpoint::Memory(1),
        ];
        for (index, one) in all.iter().enumerate() {
            let same = all.iter().filter(|other| *other == one && other.host() == one.host());
            assert_eq!(same.count(), 1, "{one}");
            assert_eq!(one.host().is_group(), index == 2, "{one}");
        }
        assert_eq!(all[1], Endpoint::Ethernet { address: [0, 1, 2, 3, 4, 5], network: 9 });
        let written = all.map(|one| one.to_string());
        let names = ["10.0.0.1:7", "00:01:02:03:04:05", "01:01:02:03:04:05"];
        assert_eq!(written[..3], names);
    }
}
