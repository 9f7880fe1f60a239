//! RTP's usual way: UDP.

pub mod blocked;
mod control_socket;
mod line;
pub(crate) mod open;
pub mod pair;

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use tautline_proto::endpoint::Endpoint;

use crate::link::OpenError;
use crate::link::direct::{DirectLink, DirectRoom};
pub use crate::socket::address::{any, interface_label};
use crate::socket::seal::Seal;
pub use crate::udp::open::{
    DSCP_MEDIA, FragmentPolicy, PORT_HELD, UdpOptions, check_destinations, header_bytes, leaves_by,
    path_mtu, source_address, yield_address,
};
use crate::udp::open::{adopt, open};
pub use control_socket::ControlSocket;

impl DirectLink {
    /// Opens the socket and lays out everything that will ever be needed. Datagrams go and come as
    /// they are.
    pub fn open(options: &UdpOptions) -> Result<Self, OpenError> {
        Self::open_sealed(options, None)
    }

    /// The same with a seal on every datagram, if there is one: what is sent is longer by its room.
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

    /// The same over a UDP socket that somebody else opened and bound, as a parent process does that hands it down. Of
    /// `options` the address, the second network and the launch times are not looked at.
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

    /// The address that its socket is bound to; an unspecified one where it goes by another network.
    pub fn local(&self) -> SocketAddr {
        self.place().socket_address().unwrap_or_else(|| (Ipv4Addr::UNSPECIFIED, 0).into())
    }
}

/// What such a link makes room for.
fn room_for(options: &UdpOptions) -> DirectRoom {
    DirectRoom {
        datagram_bytes: options.datagram_bytes,
        batch: options.batch,
        most_destinations: if options.sends() { options.most_destinations } else { 0 },
        transmit_stamp_every: options.transmit_stamp_every,
        sources: options.hosts(),
    }
}
