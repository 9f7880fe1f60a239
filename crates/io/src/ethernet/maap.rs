//! Socket for claiming an address (MAAP).

use core::mem::MaybeUninit;
use std::io;

use tautline_proto::endpoint::Endpoint;
use tautline_proto::time::Span;
use tautline_proto::wire::avtp::ETHERTYPE;
use tautline_proto::wire::avtp::maap::{GROUP, MESSAGE_BYTES, MaapMessage};

use super::{EthernetAddress, attach_maap, join, missing_right, own_address};
use crate::link::OpenError;
use crate::socket::address::{RawAddress, STORAGE_LEN, place};
use crate::socket::descriptor::Socket;
use crate::socket::interface::interface_index;
use crate::system::checked;

/// Exchanges MAAP messages on one interface.
#[derive(Debug)]
pub struct MaapSocket {
    socket: Socket,
    index: u32,
    own: EthernetAddress,
}

impl MaapSocket {
    /// Opens the socket. Needs `CAP_NET_RAW`.
    pub fn open(interface: &str) -> Result<Self, OpenError> {
        let tried = || format!("opening {interface} to claim an address");
        let index = interface_index(interface).map_err(|error| {
            OpenError::new(tried(), &error, "`ip -brief link` lists the interfaces")
        })?;
        let socket =
            Socket::for_datagrams_of_frames().map_err(|error| missing_right(tried(), &error))?;
        let configured = || {
            attach_maap(&socket)?;
            join(&socket, GROUP, index)?;
            socket.bind_raw(&RawAddress::of_ethernet([0; 6], index, ETHERTYPE))?;
            own_address(interface)
        };
        let own = configured().map_err(|error| {
            OpenError::new(
                tried(),
                &error,
                "name an Ethernet interface that is up (`ip -brief link`)",
            )
        })?;
        Ok(Self { socket, index, own })
    }

    /// Returns the interface's own address.
    pub const fn own(&self) -> EthernetAddress {
        self.own
    }

    /// Sends a message to a host or group.
    pub fn send(&self, to: EthernetAddress, message: &MaapMessage) -> io::Result<()> {
        self.socket.send_raw(&message.write(), &RawAddress::of_ethernet(to, self.index, ETHERTYPE))
    }

    /// Waits up to `timeout`. `None` on timeout or for an invalid message.
    pub fn receive(&self, timeout: Span) -> io::Result<Option<(EthernetAddress, MaapMessage)>> {
        // poll(2) counts milliseconds; 0 would busy-loop.
        let millis = (timeout.as_nanos() / 1_000_000 + 1).clamp(1, 60_000) as libc::c_int;
        let mut waits = libc::pollfd { fd: self.socket.fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: `waits` is one valid pollfd with an open descriptor.
        match checked(unsafe { libc::poll(&raw mut waits, 1, millis) }) {
            Ok(0) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(None),
            other => other?,
        };
        let mut bytes = [0; MESSAGE_BYTES];
        let mut storage = MaybeUninit::<libc::sockaddr_storage>::zeroed();
        let mut len = STORAGE_LEN;
        // SAFETY: both buffers have the lengths that the call may write.
        let arrived = unsafe {
            let (fd, start) = (self.socket.fd(), bytes.as_mut_ptr().cast());
            let name = storage.as_mut_ptr().cast();
            libc::recvfrom(fd, start, bytes.len(), libc::MSG_DONTWAIT, name, &raw mut len)
        };
        if arrived < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            };
        }
        // SAFETY: zero-initialised, and now holds an address.
        let from = place(unsafe { storage.assume_init_ref() }, self.index);
        let message = bytes.get(..arrived.unsigned_abs()).and_then(MaapMessage::read);
        let Some((Endpoint::Ethernet { address, .. }, message)) = from.zip(message) else {
            return Ok(None);
        };
        Ok(Some((address, message)))
    }
}
