//! Sends each packet with its own system call: the baseline cost for links.

use std::net::{Ipv4Addr, SocketAddr};

use tautline_proto::time::{LocalTime, Span};
use tautline_proto::wire::avtp::ETHERTYPE;

use crate::clock::{BRACKETS, Bracket};
use crate::ethernet::{EthernetOptions, socket_of};
use crate::link::OpenError;
use crate::socket::address::RawAddress;
use crate::socket::descriptor::Fixed;
use crate::socket::descriptor::Socket;
use crate::socket::launch::{LAUNCH_WORDS, LaunchClock, LaunchOptions, launch_messages, request};
use crate::udp::UdpOptions;
use crate::udp::open::open;

/// An open bare socket.
pub struct BareSocket {
    socket: Socket,
    to: RawAddress,
    launch: Option<BareLaunch>,
}

// SAFETY: only this socket owns the control message's array.
unsafe impl Send for BareSocket {}

struct BareLaunch {
    ahead: Span,
    message: Fixed<u64>,
}

impl BareSocket {
    /// Opens a UDP socket that sends to the first destination only.
    pub fn open(options: &UdpOptions) -> Result<Self, OpenError> {
        let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let to = options.destinations.first().copied().unwrap_or(nowhere);
        Self::over(open(options)?, to.into(), options.launch)
    }

    /// Opens a packet socket like a sending Ethernet link.
    pub fn open_ethernet(options: &EthernetOptions) -> Result<Self, OpenError> {
        let (socket, index) = socket_of(options)?;
        let to = RawAddress::of_ethernet(options.address, index, ETHERTYPE);
        Self::over(socket, to, options.launch)
    }

    fn over(
        socket: Socket,
        to: RawAddress,
        launch: Option<LaunchOptions>,
    ) -> Result<Self, OpenError> {
        let launching = |launch: LaunchOptions| {
            request(launch, &socket).map_err(|error| {
                let tried = "enabling launch times".to_owned();
                OpenError::new(tried, &error, "see `taut doctor`")
            })?;
            let tai = match launch.clock {
                LaunchClock::Tai => Bracket::of(libc::CLOCK_TAI, BRACKETS).offset(),
                LaunchClock::Monotonic => Span::ZERO,
            };
            Ok(BareLaunch { ahead: launch.ahead + tai, message: launch_messages(1, &[]) })
        };
        let launch = launch.map(launching).transpose()?;
        Ok(Self { socket, to, launch })
    }

    /// Sends a packet, with launch time `launched` if enabled. Returns `false` if the kernel
    /// refuses it.
    pub fn send(&mut self, datagram: &[u8], launched: LocalTime) -> bool {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let (name, name_len) = ((&raw mut self.to.storage).cast(), self.to.len);
        let (fd, bytes, len) = (self.socket.fd(), datagram.as_ptr(), datagram.len());
        let Some(BareLaunch { ahead, message }) = &self.launch else {
            // SAFETY: the kernel reads the datagram and the address, which outlive the call.
            return unsafe { libc::sendto(fd, bytes.cast(), len, flags, name, name_len) } >= 0;
        };
        let mut vector = libc::iovec { iov_base: bytes.cast_mut().cast(), iov_len: len };
        // SAFETY: all zeros are a valid msghdr.
        let mut header: libc::msghdr = unsafe { core::mem::zeroed() };
        (header.msg_name, header.msg_namelen) = (name.cast(), name_len);
        (header.msg_iov, header.msg_iovlen) = (&raw mut vector, 1);
        header.msg_control = message.at(0).cast();
        header.msg_controllen = LAUNCH_WORDS * size_of::<u64>();
        let nanos = (launched + *ahead).as_nanos().cast_unsigned();
        // SAFETY: `at` points into the array of the one control message. Everything the header
        // points to outlives the call.
        unsafe {
            message.at(LAUNCH_WORDS - 1).write(nanos);
            libc::sendmsg(fd, &raw const header, flags) >= 0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;
    use crate::udp::blocked::BlockedUdp;

    #[test]
    fn bare_packets_arrive_with_and_without_launch_times() {
        let (clock, none) = (LaunchClock::Monotonic, Span::ZERO);
        let launched = LaunchOptions { clock, lead: none, minimum: none, ahead: none };
        for launch in [None, Some(launched)] {
            let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let timeout = Span::from_secs(5);
            let mut receiver = BlockedUdp::open(&UdpOptions::receiver(nobody), timeout).unwrap();
            let to = receiver.local();
            let options = UdpOptions { launch, ..UdpOptions::sender(vec![to]) };
            let mut bare = BareSocket::open(&options).unwrap();
            assert!(bare.send(b"a packet", now()));
            let mut arrived = Vec::new();
            receiver.receive(&mut |datagram| arrived.extend_from_slice(datagram.bytes)).unwrap();
            assert_eq!(arrived, b"a packet", "{launch:?}");
            assert!(!bare.send(&[0; 70_000], now()), "no datagram is as long");
        }
    }
}
