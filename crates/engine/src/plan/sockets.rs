//! Sockets as addresses ask for them: to all destinations of a stream, and where one is heard.

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
use tautline_proto::stream::{MOST_DATAGRAM_BYTES, PTIME_RANGE, StreamFormat};
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::Rate;
use tautline_proto::wire::avtp::{self, Encapsulation, crf};
use tautline_proto::wire::{PacketHeads, WireForm};

use crate::plan::address::{Address, AddressError, CLASS_A, EthernetPlace, Resolved, StreamPlace};

type Destination<'a> = (&'a Address, &'a Resolved);

/// Sets interface, TTL and loop as the destinations ask: those of one socket have to agree.
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
                "`{key}` is for multicast groups and {host} is none; leave it out"
            )));
        }
    }
    let bound = hosts.iter().find(|(host, _)| host.interface.is_some());
    if let (Some((group, _)), Some((host, _))) = (groups.first(), bound) {
        return Err(AddressError::Unusable(format!(
            "{host} beside the group {group} goes by this machine's routes; leave its iface out, \
             or run one taut for each"
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

/// What all of them ask for; `None` if there are none.
fn agreed<T: PartialEq>(
    key: &str,
    destinations: &[Destination<'_>],
    asked: impl Fn(&Destination<'_>) -> T,
) -> Result<Option<T>, AddressError> {
    let Some(first) = destinations.first() else { return Ok(None) };
    let wanted = asked(first);
    match destinations.iter().find(|other| asked(other) != wanted) {
        None => Ok(Some(wanted)),
        Some((other, _)) => Err(AddressError::Unusable(format!(
            "{} and {other} differ in `{key}`, and all --to go out of one socket; give them the \
             same or run one taut per interface",
            first.0
        ))),
    }
}

/// A connection of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpLink {
    /// Where it is made to, or waited for.
    pub place: SocketAddr,
    /// Whether the stream is sent, by whoever connects.
    pub sends: bool,
    /// How it is used.
    pub options: TcpOptions,
}

/// How the link of a stream is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkOptions {
    /// By UDP, and reports beside it.
    Udp(Box<UdpOptions>),
    /// By TCP, and reports with it.
    Tcp(TcpLink),
    /// By Ethernet alone.
    Ethernet(EthernetOptions),
}

impl LinkOptions {
    /// The same, by UDP in the place of a socket that shares its address ([`UdpOptions::succeeds`]).
    #[must_use]
    pub fn succeeding(mut self, succeeds: bool) -> Self {
        if let Self::Udp(options) = &mut self {
            options.succeeds = succeeds;
        }
        self
    }

    /// Opens it, on the thread that will call it, or on a wire thread below one that runs as `device` says.
    pub fn open(&self, device: Option<Scheduler>) -> Result<OpenedStream, OpenError> {
        self.open_sealed(device, None)
    }

    /// The same with seals on packets and reports, if there are to be any: of RTP alone.
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
                tried: format!("sealing what goes by {}", options.interface),
                answer: "SRTP is of RTP, by UDP or TCP".into(),
                mend: "use rtp://, or leave the key out".into(),
                errno: 0,
            }),
        }
    }

    /// Has its packets launched so, if they are to be, and a wire thread space them so.
    pub fn pace(&mut self, launch: Option<LaunchOptions>, spacing: Spacing) {
        let by_etf = launch.is_some_and(|launch| launch.clock == LaunchClock::Tai);
        match self {
            Self::Udp(options) => {
                (options.launch, options.spacing) = (launch, spacing);
                if launch.is_some() && options.transmit_stamp_every > 0 {
                    let seldom = options.packets_per_second / STAMPED_A_SECOND;
                    options.transmit_stamp_every = options.transmit_stamp_every.max(seldom);
                }
                // Where it is not at the root, an ETF is for the priority of class A, and drops the rest.
                if by_etf {
                    options.priority = CLASS_A;
                }
            }
            // No queue launches what a connection sends when it may.
            Self::Tcp(_) => {}
            Self::Ethernet(options) => (options.launch, options.spacing) = (launch, spacing),
        }
    }

    /// To how many destinations each of its packets goes by one network, or may while it runs.
    pub fn most_destinations(&self) -> usize {
        match self {
            Self::Udp(options) => options.destinations.len().max(options.most_destinations).max(1),
            Self::Tcp(_) | Self::Ethernet(_) => 1,
        }
    }

    /// Has one packet in so many stamped by the kernel as it leaves.
    pub const fn stamp_every(&mut self, packets: u32) {
        match self {
            Self::Udp(options) => options.transmit_stamp_every = packets,
            // Nobody knows by which segment a packet leaves.
            Self::Tcp(_) => {}
            Self::Ethernet(options) => options.transmit_stamp_every = packets,
        }
    }

    /// The numbers of the interfaces its packets leave by, one per network; none if one has several or unknown ones.
    pub fn interfaces(&self) -> Option<Vec<u32>> {
        match self {
            Self::Udp(options) => interfaces(options),
            Self::Tcp(_) => None,
            Self::Ethernet(options) => Some(vec![interface_number(&options.interface)?]),
        }
    }

    /// The same by the interface of that number, to where nobody listens.
    pub fn to_nobody(&self, interface: u32) -> Self {
        match self {
            Self::Udp(options) => {
                let mut options = options.clone();
                let six = options.bind.is_ipv6();
                options.destinations = vec![SocketAddr::new(nobody(six), DISCARD)];
                options.also = None;
                options.most_destinations = 0;
                (options.ttl, options.loopback) = (1, false);
                options.interface = Some(interface_label(interface));
                options.bind.set_port(0);
                Self::Udp(options)
            }
            // There is a connection to somebody alone.
            Self::Tcp(link) => Self::Tcp(*link),
            // A switch sends back nothing to where it came from.
            Self::Ethernet(options) => {
                let own = own_address(&options.interface).unwrap_or(options.address);
                Self::Ethernet(EthernetOptions { address: own, ..options.clone() })
            }
        }
    }
}

/// [`LinkOptions::interfaces`] of a link by UDP.
pub fn interfaces(options: &UdpOptions) -> Option<Vec<u32>> {
    core::iter::once(options).chain(options.also.as_deref()).map(one_interface).collect()
}

fn one_interface(options: &UdpOptions) -> Option<u32> {
    let mut by = options.destinations.iter().map(|to| leaves_by(*to, options));
    let first = by.next()??;
    by.all(|other| other == Some(first)).then_some(first)
}

/// UDP port of the service that throws away all it gets (RFC 863).
const DISCARD: u16 = 9;

/// A group for examples, which nobody hears (RFC 5771 §9.2; of IPv6 by the prefix of RFC 3849, RFC 3306).
const fn nobody(six: bool) -> IpAddr {
    match six {
        false => IpAddr::V4(Ipv4Addr::new(233, 252, 0, 9)),
        true => IpAddr::V6(Ipv6Addr::new(0xff32, 0x20, 0x2001, 0xdb8, 0, 0, 0, 9)),
    }
}

/// Packets whose departure the kernel stamps. It keeps a copy of each, for which a packet of class A is a few
/// microseconds late and two intervals are off: fewer than one in 1000, so that 99.9 % of all show none of it.
const STAMPED_A_SECOND: u32 = 2;

/// Room for any stream of class A, in whatever a frame holds: bytes of a packet, packets per second, and packets at once.
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

/// Sends a stream like `format` by Ethernet, up to `batch` packets at once.
pub fn sending_by_ethernet(
    place: &EthernetPlace,
    format: &StreamFormat,
    batch: usize,
) -> EthernetOptions {
    by_ethernet(place, true, room_for(format, batch))
}

/// Sends something or other by Ethernet: to see whether that can be.
pub fn any_by_ethernet(place: &EthernetPlace) -> EthernetOptions {
    by_ethernet(place, true, ANY)
}

/// Receives any stream of class A at an address of Ethernet.
pub fn hearing_by_ethernet(place: &EthernetPlace) -> EthernetOptions {
    by_ethernet(place, false, ANY)
}

/// Hears what `address` stands for, whatever it is.
pub fn reception(address: &Address, resolved: &Resolved) -> LinkOptions {
    match &resolved.place {
        StreamPlace::Udp { media, .. } => {
            let by_udp = by_udp(*media, (address, resolved));
            // A packet that is cut proves nothing of its format.
            LinkOptions::Udp(Box::new(UdpOptions { datagram_bytes: MOST_DATAGRAM_BYTES, ..by_udp }))
        }
        StreamPlace::Tcp(place) => LinkOptions::Tcp(TcpLink {
            place: *place,
            sends: false,
            options: TcpOptions { datagram_bytes: MOST_DATAGRAM_BYTES, ..TcpOptions::default() },
        }),
        StreamPlace::Ethernet(place) => LinkOptions::Ethernet(hearing_by_ethernet(place)),
    }
}

/// What a packet may wait for its connection beside two packets: a late thread, or a short retransmission.
const MOST_WAIT: Span = Span::from_millis(10);

/// Sends a stream like `format` by TCP, up to `batch` packets at once, of so many bytes at most.
pub fn sending_by_tcp(
    place: SocketAddr,
    (format, datagram_bytes): (&StreamFormat, usize),
    batch: usize,
) -> LinkOptions {
    let options = TcpOptions {
        datagram_bytes,
        packets_per_second: packets_per_second(format.rate, format.packet),
        batch,
        most_wait: format.ptime() + format.ptime() + MOST_WAIT,
        ..TcpOptions::default()
    };
    LinkOptions::Tcp(TcpLink { place, sends: true, options })
}

/// Hears a clock of CRF that `address` stands for.
pub fn clock(address: &Address, resolved: &Resolved) -> LinkOptions {
    match (&resolved.place, reception(address, resolved)) {
        (_, LinkOptions::Ethernet(options)) => {
            LinkOptions::Ethernet(EthernetOptions { subtype: crf::SUBTYPE, ..options })
        }
        // Its packets are short, whatever those of sound are.
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
    options.also_heard_at = interfaces.map(str::to_owned).collect();
    options.sources.clone_from(&address.sources);
    if options.sources.is_empty() {
        options.sources.extend(described.iter().flat_map(|d| &d.sources));
    }
    options
}

/// The same with room for a stream like `format`, in packets of any length.
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
    // In whatever coding: the sender may change it.
    let widest = StreamFormat { sample: SampleFormat::F32, packet: longest, ..*format };
    options.datagram_bytes = heads.datagram_bytes(&widest).clamp(1472, 65_507);
    let senders = address.senders.map_or(1, NonZeroUsize::get) as u32;
    options.packets_per_second = senders * packets_per_second(format.rate, format.packet);
    LinkOptions::Udp(Box::new(options))
}

/// Packets of so many frames that a stream sends in a second, rounded up.
pub(super) fn packets_per_second(rate: Rate, packet: Frames) -> u32 {
    rate.hertz() / packet.count().max(1) as u32 + 1
}
