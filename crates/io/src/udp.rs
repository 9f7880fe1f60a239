//! UDP, the usual transport of RTP.

pub mod blocked;
mod control_socket;
pub(crate) mod open;
pub mod pair;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

pub use control_socket::ControlSocket;
use tautline_proto::endpoint::Endpoint;

pub use self::open::{
    DSCP_MEDIA, FragmentPolicy, PORT_HELD, UdpOptions, check_destinations, header_bytes, leaves_by,
    path_mtu, source_address, yield_address,
};
use self::open::{adopt, open};
use crate::link::OpenError;
use crate::link::direct::{DirectLink, DirectRoom};
use crate::link::muxed::peer::PeerAddress;
use crate::link::muxed::transport::{
    FarAddress, Hears, MuxedTransport, ReceivingTransport, ReportTransport, Seals,
    SendingTransport, Speak,
};
pub use crate::socket::address::any;
use crate::socket::descriptor::Socket;
pub use crate::socket::interface::interface_label;
use crate::socket::seal::Seal;

impl DirectLink {
    /// Opens the socket and allocates all memory.
    pub fn open(options: &UdpOptions) -> Result<Self, OpenError> {
        Self::open_sealed(options, None)
    }

    /// Opens the socket, with `seal` for every datagram.
    pub fn open_sealed(
        options: &UdpOptions,
        seal: Option<Box<dyn Seal>>,
    ) -> Result<Self, OpenError> {
        let places = |options: &UdpOptions| -> Vec<Endpoint> {
            options.destinations.iter().map(|to| (*to).into()).collect()
        };
        let outlet = |options: &UdpOptions| Ok((open(options)?, places(options)));
        let first = outlet(options)?;
        let also = options.also.as_deref().map(outlet).transpose()?;
        let local = first.0.local().unwrap_or(options.bind).into();
        Self::over(first, also, room_for(options), (local, seal)).launching(options.launch)
    }

    /// Creates a link from a bound socket. Ignores address, second network and launch times in
    /// `options`.
    pub fn over_socket(
        socket: impl Into<OwnedFd>,
        options: &UdpOptions,
        seal: Option<Box<dyn Seal>>,
    ) -> Result<Self, OpenError> {
        let socket = adopt(socket.into(), options)?;
        let local = socket.local().unwrap_or(options.bind).into();
        let destinations = options.destinations.iter().map(|to| (*to).into()).collect();
        Ok(Self::over((socket, destinations), None, room_for(options), (local, seal)))
    }

    /// The bound address; unspecified for other networks.
    pub fn local(&self) -> SocketAddr {
        self.place().socket_address().unwrap_or_else(|| (Ipv4Addr::UNSPECIFIED, 0).into())
    }
}

fn room_for(options: &UdpOptions) -> DirectRoom {
    DirectRoom {
        datagram_bytes: options.datagram_bytes,
        batch: options.batch,
        max_destinations: if options.sends() { options.max_destinations } else { 0 },
        transmit_stamp_every: options.transmit_stamp_every,
        sources: options.hosts(),
    }
}

impl MuxedTransport {
    /// Creates a transport from a bound socket. Uses maximum datagram, batch, packet rate and DSCP
    /// from `options`.
    pub fn udp(
        socket: impl Into<OwnedFd>,
        options: &UdpOptions,
        far: FarAddress,
        seals: Seals,
    ) -> Result<Self, OpenError> {
        let socket: OwnedFd = socket.into();
        let options = UdpOptions {
            destinations: Vec::new(),
            max_destinations: 1,
            also: None,
            join: None,
            sources: Vec::new(),
            transmit_stamp_every: 0,
            launch: None,
            ..options.clone()
        };
        let another = || -> Result<OwnedFd, OpenError> {
            socket.as_fd().try_clone_to_owned().map_err(|error| {
                let tried = "duplicating a UDP socket".to_owned();
                OpenError::new(tried, &error, "raise the limit of open files (`ulimit -n`)")
            })
        };
        let at = if let FarAddress::At(at) = far { Some(at) } else { None };
        let peer = Arc::new(PeerAddress::new(at));
        let link = DirectLink::over_socket(another()?, &options, seals.sending)?;
        let sending =
            SendingTransport { link: Box::new(link), peer: Some(Arc::clone(&peer)), seen: 0 };
        let handles = UdpOptions { max_destinations: 0, ..options };
        let link = DirectLink::over_socket(another()?, &handles, seals.receiving)?;
        let handles = match far {
            FarAddress::At(_) => Hears::Peer(Arc::clone(&peer)),
            FarAddress::Newest => Hears::Newest(Arc::clone(&peer)),
        };
        let [one, other] = seals.reports;
        let report = |seal| -> Result<ReportTransport, OpenError> {
            let socket = Socket::adopt(another()?).map_err(|error| {
                let tried = "taking over a UDP socket for RTCP".to_owned();
                OpenError::new(tried, &error, "pass a bound UDP socket")
            })?;
            Ok(ReportTransport {
                way: Box::new(Datagrams(socket)),
                seal,
                peer: Some(Arc::clone(&peer)),
            })
        };
        let reports = [report(one)?, report(other)?];
        let receiving = ReceivingTransport { link: Box::new(link), handles };
        Ok(Self { sending, receiving, reports, peer: Some(peer) })
    }
}

struct Datagrams(Socket);

impl Speak for Datagrams {
    fn speak(&mut self, report: &[u8], to: Option<SocketAddr>) -> io::Result<()> {
        let to = to.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOTCONN))?;
        self.0.send_to(report, to)
    }
}
