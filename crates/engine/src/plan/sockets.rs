//! Link options for addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroUsize;

use tautline_dsp::format::SampleFormat;
use tautline_io::ethernet::{self, EthernetOptions, interface_number, own_address};
use tautline_io::link::OpenError;
use tautline_io::link::threaded::Spacing;
use tautline_io::socket::launch::{LaunchClock, LaunchOptions};
use tautline_io::tcp::{TcpOptions, keep};
use tautline_io::thread::Scheduler;
use tautline_io::udp::pair::{self, MakeSeal, OpenedStream};
use tautline_io::udp::{UdpOptions, interface_label, leaves_by};
use tautline_proto::stream::{MAX_DATAGRAM_BYTES, PTIME_RANGE, StreamFormat};
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::Rate;
use tautline_proto::wire::avtp::{self, Encapsulation, crf};
use tautline_proto::wire::{PacketHeads, WireForm};

use crate::plan::address::{Address, AddressError, CLASS_A, EthernetPlace, Resolved, StreamPlace};

type Destination<'a> = (&'a Address, &'a Resolved);

/// Sets interface, TTL and loopback, on which all destinations must agree.
pub fn set(
    udp: &mut UdpOptions,
    addresses: &[Address],
    resolved: &[Resolved],
) -> Result<(), AddressError> {
    let (groups, hosts): (Vec<Destination<'_>>, Vec<_>) = addresses
        .iter()
        .zip(resolved)
        .partition(|(_, to)| to.media().is_some_and(|to| to.ip().is_multicast()));
    for (host, _) in &hosts {
        let meant_for_groups = host.ttl.map(|_| "ttl").or(host.loopback.map(|_| "loop"));
        if let Some(key) = meant_for_groups {
            return Err(AddressError::Unusable(format!(
                "'{key}' applies only to multicast groups\nhint: leave it out of {host}"
            )));
        }
    }
    let bound = hosts.iter().find(|(host, _)| host.interface.is_some());
    if let (Some((group, _)), Some((host, _))) = (groups.first(), bound) {
        return Err(AddressError::Unusable(format!(
            "cannot use iface of {host} together with the group {group}\nhint: leave it out, or run one \
             taut for each"
        )));
    }
    let interface = |(to, _): &Destination<'_>| to.interface.clone();
    udp.interface =
        agreed("iface", if groups.is_empty() { &hosts } else { &groups }, interface)?.flatten();
    let default = udp.ttl;
    let ttl = |(to, resolved): &Destination<'_>| {
        let described = resolved.description.as_ref().and_then(|description| description.ttl);
        to.ttl.or(described).unwrap_or(default)
    };
    udp.ttl = agreed("ttl", &groups, ttl)?.unwrap_or(default);
    udp.loopback = agreed("loop", &groups, |(to, _)| to.loopback.unwrap_or(true))?.unwrap_or(true);
    Ok(())
}

fn agreed<T: PartialEq>(
    key: &str,
    destinations: &[Destination<'_>],
    requested: impl Fn(&Destination<'_>) -> T,
) -> Result<Option<T>, AddressError> {
    let Some(first) = destinations.first() else { return Ok(None) };
    let wanted = requested(first);
    match destinations.iter().find(|other| requested(other) != wanted) {
        None => Ok(Some(wanted)),
        Some((other, _)) => Err(AddressError::Unusable(format!(
            "{} and {other} differ in '{key}', but all --to use one socket\nhint: give the same value \
             or run one taut per interface",
            first.0
        ))),
    }
}

/// A stream's TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpLink {
    /// Address to connect to or listen at.
    pub place: SocketAddr,
    /// Whether this end sends the stream; the sender connects.
    pub sends: bool,
    /// Connection options.
    pub options: TcpOptions,
}

/// Link options of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkOptions {
    /// A UDP link, with reports at a second port.
    Udp(Box<UdpOptions>),
    /// TCP with reports.
    Tcp(TcpLink),
    /// Ethernet alone.
    Ethernet(EthernetOptions),
}

impl LinkOptions {
    /// Lets a UDP link replace a socket at its address ([`UdpOptions::succeeds`]).
    #[must_use]
    pub fn succeeding(mut self, succeeds: bool) -> Self {
        if let Self::Udp(options) = &mut self {
            options.succeeds = succeeds;
        }
        self
    }

    /// Opens the link; with `device`, on a wire thread of lower priority than `device`.
    pub fn open(&self, device: Option<Scheduler>) -> Result<OpenedStream, OpenError> {
        self.open_sealed(device, None)
    }

    /// Opens the link, encrypted with `seal` (RTP only).
    pub fn open_sealed(
        &self,
        device: Option<Scheduler>,
        seal: Option<MakeSeal<'_>>,
    ) -> Result<OpenedStream, OpenError> {
        match (self, seal) {
            (Self::Udp(options), seal) => pair::open_sealed_stream(options, device, seal),
            (Self::Tcp(TcpLink { place, sends: true, options }), seal) => {
                keep::connect_stream(*place, options, device, seal)
            }
            (Self::Tcp(TcpLink { place, sends: false, options }), seal) => {
                keep::listen_stream(*place, options, device, seal)
            }
            (Self::Ethernet(options), None) => ethernet::open_stream(options, device),
            (Self::Ethernet(options), Some(_)) => Err(OpenError {
                tried: format!("encrypting packets on {}", options.interface),
                answer: "SRTP needs RTP over UDP or TCP".into(),
                hint: "use rtp://, or leave the key out".into(),
                errno: 0,
            }),
        }
    }

    /// Sets launch times and wire thread spacing.
    pub fn pace(&mut self, launch: Option<LaunchOptions>, spacing: Spacing) {
        let by_etf = launch.is_some_and(|launch| launch.clock == LaunchClock::Tai);
        match self {
            Self::Udp(options) => {
                (options.launch, options.spacing) = (launch, spacing);
                if launch.is_some() && options.transmit_stamp_every > 0 {
                    let seldom = options.packets_per_second / STAMPED_A_SECOND;
                    options.transmit_stamp_every = options.transmit_stamp_every.max(seldom);
                }
                // A non-root ETF serves only class A, and drops packets without a launch time.
                if by_etf {
                    options.priority = CLASS_A;
                }
            }
            Self::Tcp(_) => {}
            Self::Ethernet(options) => (options.launch, options.spacing) = (launch, spacing),
        }
    }

    /// Maximum destinations per packet and network, including later changes.
    pub fn max_destinations(&self) -> usize {
        match self {
            Self::Udp(options) => options.destinations.len().max(options.max_destinations).max(1),
            Self::Tcp(_) | Self::Ethernet(_) => 1,
        }
    }

    /// Requests a kernel timestamp for the departure of one in `packets` packets.
    pub const fn stamp_every(&mut self, packets: u32) {
        match self {
            Self::Udp(options) => options.transmit_stamp_every = packets,
            Self::Tcp(_) => {}
            Self::Ethernet(options) => options.transmit_stamp_every = packets,
        }
    }

    /// Outgoing interface indexes, one per network; `None` if a network has several or unknown
    /// interfaces.
    pub fn interfaces(&self) -> Option<Vec<u32>> {
        match self {
            Self::Udp(options) => interfaces(options),
            Self::Tcp(_) => None,
            Self::Ethernet(options) => Some(vec![interface_number(&options.interface)?]),
        }
    }

    /// Options for this interface, with a destination without receivers.
    pub fn without_receivers(&self, interface: u32) -> Self {
        match self {
            Self::Udp(options) => {
                let mut options = options.clone();
                let six = options.bind.is_ipv6();
                options.destinations = vec![SocketAddr::new(nobody(six), DISCARD)];
                options.also = None;
                options.max_destinations = 0;
                (options.ttl, options.loopback) = (1, false);
                options.interface = Some(interface_label(interface));
                options.bind.set_port(0);
                Self::Udp(options)
            }
            Self::Tcp(link) => Self::Tcp(*link),
            Self::Ethernet(options) => {
                let own = own_address(&options.interface).unwrap_or(options.address);
                Self::Ethernet(EthernetOptions { address: own, ..options.clone() })
            }
        }
    }
}

/// As [`LinkOptions::interfaces`], for UDP.
pub fn interfaces(options: &UdpOptions) -> Option<Vec<u32>> {
    core::iter::once(options).chain(options.also.as_deref()).map(one_interface).collect()
}

fn one_interface(options: &UdpOptions) -> Option<u32> {
    let mut by = options.destinations.iter().map(|to| leaves_by(*to, options));
    let first = by.next()??;
    by.all(|other| other == Some(first)).then_some(first)
}

/// Discard service (RFC 863).
const DISCARD: u16 = 9;

/// Example group without receivers (RFC 5771 §9.2; IPv6: RFC 3849, RFC 3306).
const fn nobody(six: bool) -> IpAddr {
    match six {
        false => IpAddr::V4(Ipv4Addr::new(233, 252, 0, 9)),
        true => IpAddr::V6(Ipv6Addr::new(0xff32, 0x20, 0x2001, 0xdb8, 0, 0, 0, 9)),
    }
}

/// Transmit timestamps per second. Each timestamp copies the packet and so changes two intervals of
/// class A. With fewer than one in 1000, 99.9 % are unaffected.
const STAMPED_A_SECOND: u32 = 2;

/// Any class A stream: bytes per packet, packets per second, packets per hand-over.
const ANY: (usize, u32, usize) = (1500, 8000, 32);

fn room_for(format: &StreamFormat, batch: usize) -> (usize, u32, usize) {
    let heads = PacketHeads { form: WireForm::Avtp(Encapsulation::Ethernet), stamps: false };
    let bytes = heads.datagram_bytes(format).max(ANY.0);
    (bytes, packets_per_second(format.rate, format.packet), batch)
}

fn by_ethernet(
    place: &EthernetPlace,
    sends: bool,
    (datagram_bytes, packets_per_second, batch): (usize, u32, usize),
) -> EthernetOptions {
    let seldom = (packets_per_second / STAMPED_A_SECOND).max(1);
    EthernetOptions {
        interface: place.interface.clone(),
        address: place.address,
        sends,
        subtype: avtp::AAF,
        stream: place.stream,
        priority: place.priority,
        datagram_bytes,
        packets_per_second,
        batch,
        transmit_stamp_every: if sends { seldom } else { 0 },
        launch: None,
        spacing: Spacing::default(),
    }
}

/// Sends `format` over Ethernet, at most `batch` packets per hand-over.
pub fn ethernet_sender(
    place: &EthernetPlace,
    format: &StreamFormat,
    batch: usize,
) -> EthernetOptions {
    by_ethernet(place, true, room_for(format, batch))
}

/// Sends any stream over Ethernet, to check whether that works.
pub fn any_by_ethernet(place: &EthernetPlace) -> EthernetOptions {
    by_ethernet(place, true, ANY)
}

/// Receives any class A stream.
pub fn ethernet_receiver(place: &EthernetPlace) -> EthernetOptions {
    by_ethernet(place, false, ANY)
}

/// Receives at any address.
pub fn reception(address: &Address, resolved: &Resolved) -> LinkOptions {
    match &resolved.place {
        StreamPlace::Udp { media, .. } => {
            let by_udp = by_udp(*media, (address, resolved));
            // A truncated packet hides its format.
            LinkOptions::Udp(Box::new(UdpOptions { datagram_bytes: MAX_DATAGRAM_BYTES, ..by_udp }))
        }
        StreamPlace::Tcp(place) => LinkOptions::Tcp(TcpLink {
            place: *place,
            sends: false,
            options: TcpOptions { datagram_bytes: MAX_DATAGRAM_BYTES, ..TcpOptions::default() },
        }),
        StreamPlace::Ethernet(place) => LinkOptions::Ethernet(ethernet_receiver(place)),
    }
}

/// Maximum wait beyond two packets: covers a late thread or a short retransmission.
const MAX_WAIT: Span = Span::from_millis(10);

/// Sends `format` over TCP in packets of at most `datagram_bytes`, `batch` per hand-over.
pub fn sending_by_tcp(
    place: SocketAddr,
    (format, datagram_bytes): (&StreamFormat, usize),
    batch: usize,
) -> LinkOptions {
    let options = TcpOptions {
        datagram_bytes,
        packets_per_second: packets_per_second(format.rate, format.packet),
        batch,
        max_wait: format.ptime() + format.ptime() + MAX_WAIT,
        ..TcpOptions::default()
    };
    LinkOptions::Tcp(TcpLink { place, sends: true, options })
}

/// Receives a CRF clock.
pub fn clock(address: &Address, resolved: &Resolved) -> LinkOptions {
    match (&resolved.place, reception(address, resolved)) {
        (_, LinkOptions::Ethernet(options)) => {
            LinkOptions::Ethernet(EthernetOptions { subtype: crf::SUBTYPE, ..options })
        }
        // CRF packets are always short.
        (StreamPlace::Udp { media, .. }, _) => {
            LinkOptions::Udp(Box::new(by_udp(*media, (address, resolved))))
        }
        (_, by_tcp) => by_tcp,
    }
}

fn by_udp(media: SocketAddr, (address, resolved): Destination<'_>) -> UdpOptions {
    let mut options = UdpOptions::receiver(media);
    let described = resolved.description.as_ref();
    let mut interfaces = address.interface.iter().flat_map(|names| names.split(','));
    options.interface = interfaces.next().map(str::to_owned);
    options.also_received_at = interfaces.map(str::to_owned).collect();
    options.sources.clone_from(&address.sources);
    if options.sources.is_empty() {
        options.sources.extend(described.iter().flat_map(|d| &d.sources));
    }
    options
}

/// Receives streams like `format`, with any packet length.
pub fn receiving((address, resolved): Destination<'_>, format: &StreamFormat) -> LinkOptions {
    let media = match &resolved.place {
        StreamPlace::Udp { media, .. } => *media,
        StreamPlace::Tcp(_) => return reception(address, resolved),
        StreamPlace::Ethernet(place) => {
            return LinkOptions::Ethernet(by_ethernet(place, false, room_for(format, ANY.2)));
        }
    };
    let mut options = by_udp(media, (address, resolved));
    let heads = PacketHeads { form: resolved.form, stamps: true };
    let longest = format.rate.frames_within(PTIME_RANGE.1);
    // The sender may change the coding.
    let widest = StreamFormat { sample: SampleFormat::F32, packet: longest, ..*format };
    options.datagram_bytes = heads.datagram_bytes(&widest).clamp(1472, 65_507);
    let senders = address.senders.map_or(1, NonZeroUsize::get) as u32;
    options.packets_per_second = senders * packets_per_second(format.rate, format.packet);
    LinkOptions::Udp(Box::new(options))
}

pub(super) fn packets_per_second(rate: Rate, packet: Frames) -> u32 {
    rate.hertz() / packet.count().max(1) as u32 + 1
}
