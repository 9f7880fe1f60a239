//! Ethernet frames without IP (IEEE 1722 §4.4), via packet sockets (packet(7)). Needs
//! `CAP_NET_RAW`.
//!
//! A kernel filter passes only the requested AVTP frames, so other traffic wakes no thread.

pub mod maap;

use std::io;

use tautline_proto::endpoint::Endpoint;
use tautline_proto::packet::StreamId;
use tautline_proto::wire::avtp::ETHERTYPE;
use tautline_proto::wire::avtp::maap::SUBTYPE as MAAP;

use crate::link::OpenError;
use crate::link::destinations::Outbound;
use crate::link::direct::{DirectLink, DirectRoom};
use crate::link::threaded::{Spacing, ThreadedLink, WireOptions};
use crate::socket::address::RawAddress;
use crate::socket::descriptor::{Socket, buffer_bytes, buffered_packets, set_buffers};
use crate::socket::interface;
use crate::socket::interface::interface_index;
use crate::socket::launch::LaunchOptions;
use crate::socket::timestamp;
use crate::system::granting;
use crate::thread::Scheduler;
use crate::udp::pair::OpenedStream;

/// An Ethernet address (EUI-48).
pub type EthernetAddress = [u8; 6];

/// Address of an Ethernet interface.
pub fn own_address(interface: &str) -> io::Result<EthernetAddress> {
    let answer = interface::query(interface, libc::SIOCGIFHWADDR)?;
    // SAFETY: the call succeeded, so an address was written; any bytes are valid.
    let found = unsafe { answer.ifr_ifru.ifru_hwaddr };
    if found.sa_family != libc::ARPHRD_ETHER {
        return Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT));
    }
    Ok(core::array::from_fn(|at| found.sa_data[at] as u8))
}

fn max_bytes(interface: &str) -> io::Result<usize> {
    let answer = interface::query(interface, libc::SIOCGIFMTU)?;
    // SAFETY: the call succeeded, so an MTU was written.
    Ok(usize::try_from(unsafe { answer.ifr_ifru.ifru_mtu }).unwrap_or(0))
}

/// Returns the index of an interface.
pub fn interface_number(interface: &str) -> Option<u32> {
    interface_index(interface).ok()
}

/// Options of an Ethernet link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EthernetOptions {
    /// Interface; a VLAN is a separate one (`eth0.2`).
    pub interface: String,
    /// Destination of every packet, or the receive address; a group is joined.
    pub address: EthernetAddress,
    /// Whether this end sends (`true`) or receives.
    pub sends: bool,
    /// AVTP `subtype` to receive.
    pub subtype: u8,
    /// Stream to receive; `None` for any.
    pub stream: Option<StreamId>,
    /// `SO_PRIORITY`: selects the transmit queue, and a VLAN's PCP via its egress map.
    pub priority: u8,
    /// Maximum datagram bytes without frame header.
    pub datagram_bytes: usize,
    /// Expected packets per second, for buffer sizes.
    pub packets_per_second: u32,
    /// Maximum packets per system call.
    pub batch: usize,
    /// Packets between sampled transmit timestamps; 0 for none.
    pub transmit_stamp_every: u32,
    /// Launch times, if used.
    pub launch: Option<LaunchOptions>,
    /// Spacing on a wire thread.
    pub spacing: Spacing,
}

impl EthernetOptions {
    /// Wire thread's queue: 250 ms, at least 64 packets and two batches.
    pub fn ring_packets(&self) -> usize {
        buffered_packets(self.packets_per_second, self.batch)
    }

    /// Destinations of a link opened with these options.
    pub fn outbound(&self, network: u32, ringed: bool) -> Outbound {
        let place = Endpoint::Ethernet { address: self.address, network };
        Outbound {
            destinations: if self.sends { vec![place] } else { Vec::new() },
            networks: None,
            datagram_bytes: self.datagram_bytes,
            ringed,
        }
    }
}

/// Opens a link without reports, on this thread or on a wire thread one priority below `device`.
pub fn open_stream(
    options: &EthernetOptions,
    device: Option<Scheduler>,
) -> Result<OpenedStream, OpenError> {
    let maximum = max_bytes(&options.interface).unwrap_or(usize::MAX);
    if options.sends && options.datagram_bytes > maximum.max(1500) {
        let EthernetOptions { interface, datagram_bytes, .. } = options;
        return Err(OpenError {
            tried: format!("sending packets of {datagram_bytes} bytes via {interface}"),
            answer: format!("its frames hold at most {maximum}, and Ethernet does not fragment"),
            hint: "use a shorter --ptime".to_owned(),
            errno: libc::EMSGSIZE,
        });
    }
    let direct = DirectLink::open_ethernet(options)?;
    let outbound = options.outbound(direct.place().network(), device.is_some());
    let wire = |device| WireOptions::below(device, options.ring_packets()).spacing(options.spacing);
    let link = ThreadedLink::boxed(direct, device.map(wire))?;
    Ok(OpenedStream { link, control: None, outbound, local: None })
}

impl DirectLink {
    /// Opens a packet socket and allocates all its memory.
    pub fn open_ethernet(options: &EthernetOptions) -> Result<Self, OpenError> {
        let (socket, index) = socket_of(options)?;
        let place = Endpoint::Ethernet { address: options.address, network: index };
        let room = DirectRoom {
            datagram_bytes: options.datagram_bytes,
            batch: options.batch,
            max_destinations: 0,
            transmit_stamp_every: options.transmit_stamp_every,
            sources: Box::default(),
        };
        let to = if options.sends { vec![place] } else { Vec::new() };
        Self::over((socket, to), None, room, (place, None)).launching(options.launch)
    }
}

pub(crate) fn socket_of(options: &EthernetOptions) -> Result<(Socket, u32), OpenError> {
    let interface = &options.interface;
    let tried = || format!("opening {interface} for AVTP");
    let index = interface_index(interface).map_err(|error| {
        OpenError::new(tried(), &error, "`ip -brief link` lists the interfaces")
    })?;
    let socket =
        Socket::for_datagrams_of_frames().map_err(|error| missing_right(tried(), &error))?;
    configure(&socket, options, index).map_err(|error| {
        OpenError::new(tried(), &error, "name an Ethernet interface that is up (`ip -brief link`)")
    })?;
    Ok((socket, index))
}

fn configure(socket: &Socket, options: &EthernetOptions, index: u32) -> io::Result<()> {
    set_buffers(socket, buffer_bytes(options.datagram_bytes, options.ring_packets()))?;
    timestamp::enable(socket)?;
    socket.set(libc::SOL_SOCKET, libc::SO_PRIORITY, options.priority.into())?;
    if options.sends {
        return Ok(());
    }
    attach(socket, options.subtype, options.address, options.stream)?;
    if options.address[0] & 1 != 0 {
        join(socket, options.address, index)?;
    }
    socket.bind_raw(&RawAddress::of_ethernet([0; 6], index, ETHERTYPE))
}

fn missing_right(tried: String, error: &io::Error) -> OpenError {
    let hint = format!("Ethernet frames need CAP_NET_RAW: {}", granting("cap_net_raw"));
    OpenError::new(tried, error, hint)
}

fn join(socket: &Socket, group: EthernetAddress, index: u32) -> io::Result<()> {
    let [a, b, c, d, e, f] = group;
    let request = libc::packet_mreq {
        mr_ifindex: index as libc::c_int,
        mr_type: libc::PACKET_MR_MULTICAST as libc::c_ushort,
        mr_alen: group.len() as libc::c_ushort,
        mr_address: [a, b, c, d, e, f, 0, 0],
    };
    socket.set_plain(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// linux/bpf_common.h: `BPF_LD | BPF_ABS`, `BPF_JMP | BPF_JEQ | BPF_K`, `BPF_RET | BPF_K`.
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const IS: u16 = 0x15;
const RETURN: u16 = 0x06;
/// Offsets from here address the frame header (`SKF_LL_OFF`, linux/filter.h).
const HEAD: u32 = -0x20_0000_i32 as u32;
const WHOLE: u32 = u32::MAX;

type Condition = (u16, u32, u32);

fn attach(
    socket: &Socket,
    subtype: u8,
    address: EthernetAddress,
    stream: Option<StreamId>,
) -> io::Result<()> {
    run(socket, &of_stream(subtype, address, stream))
}

/// Passes all MAAP messages, because defend messages are unicast.
fn attach_maap(socket: &Socket) -> io::Result<()> {
    run(socket, &[(LOAD_BYTE, 0, MAAP.into())])
}

fn run(socket: &Socket, conditions: &[Condition]) -> io::Result<()> {
    let program = program(conditions);
    let program =
        libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    socket.set_plain(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

fn of_stream(subtype: u8, address: EthernetAddress, stream: Option<StreamId>) -> Vec<Condition> {
    let [a, b, c, d, e, f] = address;
    let mut conditions: Vec<Condition> = vec![
        (LOAD_BYTE, 0, subtype.into()),
        (LOAD_WORD, HEAD, u32::from_be_bytes([a, b, c, d])),
        (LOAD_HALF, HEAD.wrapping_add(4), u16::from_be_bytes([e, f]).into()),
    ];
    if let Some(StreamId(id)) = stream {
        conditions.extend([(LOAD_WORD, 4, (id >> 32) as u32), (LOAD_WORD, 8, id as u32)]);
    }
    conditions
}

fn program(conditions: &[Condition]) -> Vec<libc::sock_filter> {
    let step = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
    let mut program = Vec::new();
    for (index, (load, at, value)) in conditions.iter().enumerate() {
        let left = conditions.len() - 1 - index;
        program.extend([step(*load, 0, *at), step(IS, (2 * left + 1) as u8, *value)]);
    }
    program.extend([step(RETURN, 0, WHOLE), step(RETURN, 0, 0)]);
    program
}
