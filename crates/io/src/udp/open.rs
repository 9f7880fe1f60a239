//! Opens UDP sockets.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};

use tautline_proto::endpoint::{Endpoint, Host};

use crate::link::OpenError;
use crate::link::destinations::Outbound;
use crate::link::threaded::Spacing;
use crate::network::route;
use crate::socket::address::{RawAddress, any, unbound_hint};
use crate::socket::descriptor::{Socket, buffer_bytes, buffered_packets, set_buffers, set_option};
use crate::socket::interface::{interface_index, interface_name};
use crate::socket::launch::LaunchOptions;
use crate::socket::timestamp;
use crate::thread::limits::{Limit, ResourceLimits};

/// Start of an [`OpenError`]'s fix if the port is in use; the caller may choose another.
pub const PORT_HELD: &str = "another program holds UDP port";

/// Sending above the path MTU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FragmentPolicy {
    /// As IP fragments, all of which must arrive.
    #[default]
    Allow,
    /// "Don't fragment": longer datagrams fail with `EMSGSIZE`.
    Never,
}

/// Default DSCP: Assured Forwarding 41 (RFC 2597), for media in AES67 §6.2.
pub const DSCP_MEDIA: u8 = 34;

/// `TC_PRIO_INTERACTIVE` (linux/pkt_sched.h), the highest without privileges. The kernel would map
/// DSCP 34 to bulk traffic (RFC 1349).
const PRIORITY: u8 = 6;

/// Maximum datagram: an RTCP compound packet in an Ethernet frame.
const CONTROL_BYTES: usize = 1472;

/// Options of a UDP link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UdpOptions {
    /// Local address and port (0: any). Unspecified with [`Self::join`]: binds to the group alone.
    /// `[::]` receives IPv4 too.
    pub bind: SocketAddr,
    /// Unicast addresses and groups of `bind`'s family.
    pub destinations: Vec<SocketAddr>,
    /// Maximum destinations if they change while sending.
    pub max_destinations: usize,
    /// Interface name or address: the only interface for unicast, or the interface that joins and
    /// sends multicast.
    pub interface: Option<String>,
    /// Further interfaces to join a group and send its reports. With any, unicast receives on all.
    pub also_received_at: Vec<String>,
    /// A second network for every packet.
    pub also: Option<Box<UdpOptions>>,
    /// Multicast TTL; 1 stays on the local network.
    pub ttl: u8,
    /// Whether this host receives its own multicast.
    pub loopback: bool,
    /// Group to join.
    pub join: Option<IpAddr>,
    /// Accepted sources; empty for all. With `join`: source-specific (RFC 4607). Others are counted
    /// and dropped.
    pub sources: Vec<IpAddr>,
    /// DSCP, 0 to 63.
    pub dscp: u8,
    /// `SO_PRIORITY`: this host's transmit queue.
    pub priority: u8,
    /// Maximum UDP payload bytes; longer arrives truncated.
    pub datagram_bytes: usize,
    /// Expected packets per second, for buffer sizes.
    pub packets_per_second: u32,
    /// Maximum packets per system call.
    pub batch: usize,
    /// Sending above the path MTU.
    pub fragment: FragmentPolicy,
    /// Packets between sampled transmit timestamps; 0 for none.
    pub transmit_stamp_every: u32,
    /// Launch times, if used.
    pub launch: Option<LaunchOptions>,
    /// Spacing on a wire thread.
    pub spacing: Spacing,
    /// Replaces this program's socket at the same address, shared by [`yield_address`].
    pub succeeds: bool,
}

/// Lets a successor bind this socket's address. New packets go to the successor's socket, older
/// packets stay here.
pub fn yield_address(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, &[1 as libc::c_int])
}

impl UdpOptions {
    /// Options to send to `destinations` from a free port.
    pub fn sender(destinations: Vec<SocketAddr>) -> Self {
        let six = destinations.first().is_some_and(SocketAddr::is_ipv6);
        Self { bind: SocketAddr::new(any(six), 0), destinations, ..Self::default() }
    }

    /// Options to receive at `address`, joining a group.
    pub fn receiver(address: SocketAddr) -> Self {
        let join = address.ip().is_multicast().then_some(address.ip());
        Self { bind: address, join, ..Self::default() }
    }

    fn is_multicast(&self) -> bool {
        self.join.is_some() || self.bind.ip().is_multicast()
    }

    pub(crate) fn for_control(&self, port: u16) -> Self {
        let mut options = self.clone();
        options.bind.set_port(port);
        options.datagram_bytes = CONTROL_BYTES;
        options.packets_per_second = 100;
        options.transmit_stamp_every = 0;
        // ETF drops packets of class A priority without a launch time.
        (options.launch, options.priority) = (None, Self::default().priority);
        match options.also.take().and_then(|also| also.interface) {
            Some(other) if self.sends_to_groups() => options.also_received_at.push(other),
            // Each network has its own route.
            Some(_) => options.interface = None,
            None => {}
        }
        options
    }

    pub(crate) fn outbound(&self, ringed: bool) -> Outbound {
        let mut destinations: Vec<Endpoint> = Vec::new();
        let also = self.also.iter().flat_map(|also| &also.destinations);
        for to in self.destinations.iter().chain(also) {
            let to = Endpoint::from(*to);
            if !destinations.contains(&to) {
                destinations.push(to);
            }
        }
        let other = self.also.as_ref().and_then(|also| also.interface.clone());
        let networks = self.interface.clone().zip(other);
        Outbound { destinations, networks, datagram_bytes: self.datagram_bytes, ringed }
    }

    /// Packets that may wait at a wire thread: 250 ms, at least 64 and two batches.
    pub fn ring_packets(&self) -> usize {
        buffered_packets(self.packets_per_second, self.batch)
    }

    pub(crate) fn group_interfaces(&self) -> Result<Vec<u32>, OpenError> {
        if !self.sends_to_groups() || self.also_received_at.is_empty() {
            return Ok(Vec::new());
        }
        let names = self.interface.iter().chain(&self.also_received_at);
        names.map(|name| find_interface(name)).collect()
    }

    pub(crate) fn hosts(&self) -> Box<[Host]> {
        self.sources.iter().map(|source| Host::from(*source)).collect()
    }

    pub(crate) fn sends(&self) -> bool {
        !self.destinations.is_empty() || self.max_destinations > 0
    }

    fn is_dual(&self) -> bool {
        let any = self.bind.is_ipv6() && self.bind.ip().is_unspecified();
        any && self.join.is_none() && !self.sends()
    }

    fn sends_to_groups(&self) -> bool {
        self.destinations.iter().any(|to| to.ip().is_multicast())
    }

    /// Requested socket buffer bytes: 250 ms.
    pub fn buffer_bytes(&self) -> usize {
        buffer_bytes(self.datagram_bytes, self.ring_packets())
    }
}

impl Default for UdpOptions {
    /// A free IPv4 port, Ethernet frames, 1000 per second.
    fn default() -> Self {
        Self {
            bind: SocketAddr::new(any(false), 0),
            destinations: Vec::new(),
            max_destinations: 0,
            interface: None,
            also_received_at: Vec::new(),
            also: None,
            ttl: 1,
            loopback: true,
            join: None,
            sources: Vec::new(),
            dscp: DSCP_MEDIA,
            priority: PRIORITY,
            datagram_bytes: 1472,
            packets_per_second: 1000,
            batch: 32,
            fragment: FragmentPolicy::Allow,
            transmit_stamp_every: 0,
            launch: None,
            spacing: Spacing::default(),
            succeeds: false,
        }
    }
}

pub(crate) fn open(options: &UdpOptions) -> Result<Socket, OpenError> {
    check_families(options)?;
    let index = options.interface.as_deref().map(find_interface).transpose()?;
    let socket = Socket::for_family_of(&options.bind).map_err(|error| {
        let tried = format!("opening a UDP socket for {}", options.bind);
        OpenError::new(tried, &error, more_files(ResourceLimits::read().files))
    })?;
    let dual = match options.is_dual() {
        true => socket.set(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 0),
        false => Ok(()),
    };
    dual.and_then(|()| configure(&socket, options, index)).map_err(|error| {
        let tried = format!("setting up the UDP socket for {}", options.bind);
        OpenError::new(tried, &error, "check the interface, TTL and DSCP")
    })?;
    bind(&socket, options, index)?;
    if options.succeeds && !options.is_multicast() {
        socket.set(libc::SOL_SOCKET, libc::SO_REUSEADDR, 0).map_err(|error| {
            let tried = format!("reserving UDP {} for this program", options.bind);
            OpenError::new(tried, &error, "this is a bug in tautline: please report it")
        })?;
    }
    if let Some(group) = options.join {
        join(&socket, group, &options.sources, index)
            .map_err(|error| join_error(group, options.interface.as_ref(), &error))?;
        for name in &options.also_received_at {
            let index = Some(find_interface(name)?);
            join(&socket, group, &options.sources, index)
                .map_err(|error| join_error(group, Some(name), &error))?;
        }
    }
    for destination in &options.destinations {
        check_route(*destination, options, index)?;
    }
    Ok(socket)
}

pub(crate) fn adopt(descriptor: OwnedFd, options: &UdpOptions) -> Result<Socket, OpenError> {
    let cannot = |error: io::Error| {
        let tried = "taking over a socket".to_owned();
        OpenError::new(tried, &error, "pass a bound UDP socket")
    };
    let socket = Socket::adopt(descriptor).map_err(cannot)?;
    let bound = socket.local().map_err(cannot)?;
    let options = UdpOptions { bind: bound, ..options.clone() };
    check_families(&options)?;
    let index = options.interface.as_deref().map(find_interface).transpose()?;
    configure(&socket, &options, index).map_err(cannot)?;
    Ok(socket)
}

fn more_files(limit: Limit) -> String {
    match (limit.now, limit.maximum) {
        (Some(now), maximum) if maximum.is_none_or(|maximum| maximum > now) => {
            let wanted = maximum.unwrap_or(u64::MAX).min(now.saturating_mul(4));
            format!("each stream opens two: run `ulimit -n {wanted}` first (the limit is {now})")
        }
        (Some(now), _) => format!(
            "each stream opens two and the limit is {now}: add a line `* - nofile {}` to a file in \
             /etc/security/limits.d and log in again",
            now.saturating_mul(4)
        ),
        (None, _) => "end other programs".into(),
    }
}

fn check_families(options: &UdpOptions) -> Result<(), OpenError> {
    if options.is_dual() {
        return Ok(());
    }
    let six = options.bind.is_ipv6();
    let others = options.destinations.iter().map(SocketAddr::ip);
    let others = others.chain(options.join).chain(options.sources.iter().copied());
    match others.into_iter().find(|ip| ip.is_ipv6() != six) {
        None => Ok(()),
        Some(other) => Err(OpenError {
            tried: format!("using {other} with the local address {}", options.bind),
            answer: "one is IPv4 and the other IPv6".into(),
            hint: "open one link for each family".into(),
            errno: 0,
        }),
    }
}

fn find_interface(name: &str) -> Result<u32, OpenError> {
    interface_index(name).map_err(|error| {
        let hint = "`ip -brief address` lists the interfaces and their addresses";
        OpenError::new(format!("using the interface {name}"), &error, hint)
    })
}

fn configure(socket: &Socket, options: &UdpOptions, index: Option<u32>) -> io::Result<()> {
    if options.is_multicast() || options.succeeds {
        socket.set(libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    }
    set_buffers(socket, options.buffer_bytes())?;
    timestamp::enable(socket)?;
    direct(socket, options, index)?;
    let (class, loopback, hops) =
        (i32::from(options.dscp) << 2, i32::from(options.loopback), i32::from(options.ttl));
    let never = options.fragment == FragmentPolicy::Never;
    let reported = i32::from(options.destinations.is_empty());
    if options.bind.is_ipv4() {
        socket.set(libc::IPPROTO_IP, libc::IP_PKTINFO, reported)?;
        socket.set(libc::IPPROTO_IP, libc::IP_TOS, class)?;
        socket.set(libc::IPPROTO_IP, libc::IP_MULTICAST_TTL, hops)?;
        socket.set(libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, loopback)?;
        socket.set(libc::IPPROTO_IP, libc::IP_MULTICAST_ALL, 0)?;
        if never {
            socket.set(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)?;
        }
    } else {
        socket.set(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, reported)?;
        socket.set(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, class)?;
        socket.set(libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS, hops)?;
        socket.set(libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP, loopback)?;
        if never {
            socket.set(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IP_PMTUDISC_DO)?;
        }
    }
    if options.dscp > 0 || options.priority != PRIORITY {
        // After the DSCP, from which the kernel derives a priority.
        socket.set(libc::SOL_SOCKET, libc::SO_PRIORITY, options.priority.into())?;
    }
    Ok(())
}

fn direct(socket: &Socket, options: &UdpOptions, index: Option<u32>) -> io::Result<()> {
    let Some(index) = index else { return Ok(()) };
    send_groups_by(socket, options.bind.is_ipv4(), index)?;
    let groups = options.join.into_iter().chain(options.destinations.iter().map(SocketAddr::ip));
    if groups.into_iter().any(|ip| ip.is_multicast()) || !options.also_received_at.is_empty() {
        return Ok(());
    }
    let name = interface_name(index)?;
    set_option(socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, name.as_bytes_with_nul())
}

pub(crate) fn send_groups_by(socket: &Socket, four: bool, index: u32) -> io::Result<()> {
    if four {
        let request = libc::ip_mreqn {
            imr_multiaddr: libc::in_addr { s_addr: 0 },
            imr_address: libc::in_addr { s_addr: 0 },
            imr_ifindex: index as libc::c_int,
        };
        socket.set_plain(libc::IPPROTO_IP, libc::IP_MULTICAST_IF, &request)
    } else {
        socket.set_plain(libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF, &index)
    }
}

fn bind(socket: &Socket, options: &UdpOptions, index: Option<u32>) -> Result<(), OpenError> {
    let mut local = options.bind;
    if let Some(group) = options.join.filter(|_| local.ip().is_unspecified()) {
        local.set_ip(group);
    }
    if let (SocketAddr::V6(six), Some(index)) = (&mut local, index) {
        // Link-local addresses need their interface (RFC 4007 §6).
        if six.scope_id() == 0 {
            six.set_scope_id(index);
        }
    }
    socket.bind(local).map_err(|error| {
        let held = || {
            format!(
                "{PORT_HELD} {0}: stop it (`ss -ulpn 'sport = :{0}'` names it) or use another UDP port",
                local.port()
            )
        };
        let hint = unbound_hint(&error, "UDP port", held);
        OpenError::new(format!("binding UDP {local}"), &error, hint)
    })
}

fn join(socket: &Socket, group: IpAddr, sources: &[IpAddr], index: Option<u32>) -> io::Result<()> {
    let level = if group.is_ipv4() { libc::IPPROTO_IP } else { libc::IPPROTO_IPV6 };
    let group = RawAddress::from(SocketAddr::new(group, 0)).storage;
    let gsr_interface = index.unwrap_or(0);
    if sources.is_empty() {
        let request = libc::group_req { gr_interface: gsr_interface, gr_group: group };
        return socket.set_plain(level, libc::MCAST_JOIN_GROUP, &request);
    }
    sources.iter().try_for_each(|source| {
        let gsr_source = RawAddress::from(SocketAddr::new(*source, 0)).storage;
        let request = libc::group_source_req { gsr_interface, gsr_group: group, gsr_source };
        socket.set_plain(level, libc::MCAST_JOIN_SOURCE_GROUP, &request)
    })
}

fn join_error(group: IpAddr, interface: Option<&String>, error: &io::Error) -> OpenError {
    let tried = match interface {
        Some(interface) => format!("joining the group {group} on {interface}"),
        None => format!("joining the group {group}"),
    };
    let hint = match error.raw_os_error() {
        Some(libc::ENODEV) => "name the interface to join on (`?iface=eth0`)",
        Some(libc::ENOBUFS) => {
            "raise net.ipv4.igmp_max_memberships, or igmp_max_msf for more than 10 sources"
        }
        _ => "use a multicast group: 224.0.0.0/4 or ff00::/8",
    };
    OpenError::new(tried, error, hint)
}

/// Checks that every destination is reachable; sends nothing.
pub fn check_destinations(options: &UdpOptions) -> Result<(), OpenError> {
    check_families(options)?;
    let index = options.interface.as_deref().map(find_interface).transpose()?;
    let mut all = options.destinations.iter();
    all.try_for_each(|destination| check_route(*destination, options, index))
}

/// Connects a temporary socket: a route lookup that sends nothing.
fn check_route(
    destination: SocketAddr,
    options: &UdpOptions,
    index: Option<u32>,
) -> Result<(), OpenError> {
    connected(destination, options, index).map(drop).map_err(|error| {
        let hint = if destination.ip().is_multicast() {
            "name the interface to send on (`?iface=eth0`) or add a route for multicast"
        } else {
            "`ip route get` shows how this host would reach it: connect the network or use another \
             address"
        };
        OpenError::new(format!("sending to {destination}"), &error, hint)
    })
}

fn connected(
    destination: SocketAddr,
    options: &UdpOptions,
    index: Option<u32>,
) -> io::Result<Socket> {
    let socket = Socket::for_family_of(&destination)?;
    direct(&socket, options, index)?;
    socket.connect(destination)?;
    Ok(socket)
}

/// Source address to `destination`; `None` without a route.
pub fn source_address(destination: SocketAddr, options: &UdpOptions) -> Option<IpAddr> {
    let index = options.interface.as_deref().map(find_interface).transpose().ok()?;
    let socket = connected(destination, options, index).ok()?;
    socket.local().ok().map(|local| local.ip())
}

/// Index of the outgoing interface to `destination`.
pub fn leaves_by(destination: SocketAddr, options: &UdpOptions) -> Option<u32> {
    let by = options.interface.as_deref().map(interface_index).transpose().ok()?;
    let scope = match destination {
        SocketAddr::V6(six) => Some(six.scope_id()).filter(|scope| *scope > 0),
        SocketAddr::V4(_) => None,
    };
    route::leaving(destination.ip(), by.or(scope)).ok()
}

/// IP and UDP header bytes without options (RFC 791, RFC 8200).
pub const fn header_bytes(destination: &SocketAddr) -> usize {
    if destination.is_ipv4() { 28 } else { 48 }
}

/// Path MTU in bytes, with headers ([`header_bytes`]); `None` without a route.
pub fn path_mtu(destination: SocketAddr) -> Option<usize> {
    let socket = Socket::for_family_of(&destination).ok()?;
    socket.connect(destination).ok()?;
    let (level, name) = if destination.is_ipv4() {
        (libc::IPPROTO_IP, libc::IP_MTU)
    } else {
        (libc::IPPROTO_IPV6, libc::IPV6_MTU)
    };
    usize::try_from(socket.option(level, name).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use tautline_proto::time::Span;

    use super::*;

    #[test]
    fn receiver_at_any_address_of_ipv6_receives_ipv4_too() {
        use std::net::UdpSocket;

        let v6_only = |bind: &str, destinations: Vec<SocketAddr>| {
            let bind = bind.parse().expect("an address");
            let options = UdpOptions { bind, destinations, ..UdpOptions::default() };
            let socket = open(&options).expect("a socket");
            let only = socket.option(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY).expect("a number");
            (socket, only)
        };
        assert_eq!(v6_only("[::1]:0", Vec::new()).1, 1);
        assert_eq!(v6_only("[::]:0", vec!["[::1]:9".parse().expect("an address")]).1, 1);
        let (socket, only) = v6_only("[::]:0", Vec::new());
        assert_eq!(only, 0);
        let port = socket.local().expect("an address").port();
        socket.block(Span::from_secs(10)).expect("it waits");
        let received = UdpSocket::from(socket.as_fd().try_clone_to_owned().expect("a descriptor"));
        for from in ["127.0.0.1:0", "[::1]:0"] {
            let sender = UdpSocket::bind(from).expect("a socket");
            let own = sender.local_addr().expect("an address");
            sender.send_to(b"here", (own.ip(), port)).expect("it is sent");
            let (_, arrived_from) = received.recv_from(&mut [0; 4]).expect("it arrives");
            let place = Endpoint::from(arrived_from);
            assert_eq!((place, place.host()), (own.into(), Host::from(own.ip())));
            assert_eq!(place.to_string(), own.to_string());
            socket.send_to(b"back", arrived_from).expect("it is sent");
            sender.recv_from(&mut [0; 4]).expect("it arrives");
        }
    }

    #[test]
    fn packets_with_a_mark_go_first_through_this_hosts_own_queue() {
        for bind in ["127.0.0.1:0", "[::1]:0"] {
            for (dscp, priority) in [(0, 0), (DSCP_MEDIA, i32::from(PRIORITY))] {
                let bind = bind.parse().expect("an address");
                let options = UdpOptions { bind, dscp, ..UdpOptions::default() };
                let socket = open(&options).expect("a socket");
                let found = socket.option(libc::SOL_SOCKET, libc::SO_PRIORITY).expect("a number");
                assert_eq!(found, priority, "{bind}, DSCP {dscp}");
            }
        }
    }

    #[test]
    fn socket_limit_error_names_the_command_to_raise_it() {
        let hint = |now, maximum| more_files(Limit { now: Some(now), maximum });
        assert!(hint(1024, None).contains("`ulimit -n 4096`"));
        assert!(hint(1024, Some(2048)).contains("`ulimit -n 2048`"));
        assert!(hint(1024, Some(1024)).contains("`* - nofile 4096`"));
    }
}
