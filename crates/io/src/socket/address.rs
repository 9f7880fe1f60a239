//! Socket addresses in the kernel's format.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use tautline_proto::endpoint::Endpoint;
use tautline_proto::wire::avtp::ETHERTYPE;

#[derive(Clone, Copy)]
pub(crate) struct RawAddress {
    pub(crate) storage: libc::sockaddr_storage,
    pub(crate) len: libc::socklen_t,
}

pub(crate) const STORAGE_LEN: libc::socklen_t =
    size_of::<libc::sockaddr_storage>() as libc::socklen_t;

impl From<SocketAddr> for RawAddress {
    fn from(address: SocketAddr) -> Self {
        // SAFETY: all zeros are a valid sockaddr_storage.
        let mut storage: libc::sockaddr_storage = unsafe { core::mem::zeroed() };
        let start = &raw mut storage;
        let len = match address {
            SocketAddr::V4(v4) => {
                let raw = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() },
                    sin_zero: [0; 8],
                };
                // SAFETY: sockaddr_storage is larger than every address, and aligned for it.
                unsafe { start.cast::<libc::sockaddr_in>().write(raw) };
                size_of_val(&raw)
            }
            SocketAddr::V6(v6) => {
                let raw = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: sockaddr_storage is larger than a sockaddr_in6 too, and aligned for it.
                unsafe { start.cast::<libc::sockaddr_in6>().write(raw) };
                size_of_val(&raw)
            }
        };
        Self { storage, len: len as libc::socklen_t }
    }
}

impl RawAddress {
    pub(crate) fn of(place: &Endpoint) -> Option<Self> {
        match *place {
            Endpoint::Ip { address, .. } => Some(address.into()),
            Endpoint::Ethernet { address, network } => {
                Some(Self::of_ethernet(address, network, ETHERTYPE))
            }
            Endpoint::Connection(_) | Endpoint::Memory(_) => None,
        }
    }

    pub(crate) fn of_ethernet(address: [u8; 6], network: u32, ethertype: u16) -> Self {
        // SAFETY: all zeros are a valid sockaddr_storage.
        let mut storage: libc::sockaddr_storage = unsafe { core::mem::zeroed() };
        let raw = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: ethertype.to_be(),
            sll_ifindex: network as libc::c_int,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: address.len() as u8,
            sll_addr: [
                address[0], address[1], address[2], address[3], address[4], address[5], 0, 0,
            ],
        };
        // SAFETY: sockaddr_storage is larger than every address, and aligned for it.
        unsafe { (&raw mut storage).cast::<libc::sockaddr_ll>().write(raw) };
        Self { storage, len: size_of_val(&raw) as libc::socklen_t }
    }
}

pub(crate) fn place(storage: &libc::sockaddr_storage, network: u32) -> Option<Endpoint> {
    if libc::c_int::from(storage.ss_family) != libc::AF_PACKET {
        return Some(Endpoint::new(decode(storage)?, network));
    }
    // SAFETY: the family says that the storage holds a sockaddr_ll.
    let raw = unsafe { &*core::ptr::from_ref(storage).cast::<libc::sockaddr_ll>() };
    let address = raw.sll_addr.first_chunk::<6>().filter(|_| raw.sll_halen == 6)?;
    Some(Endpoint::Ethernet { address: *address, network: raw.sll_ifindex.unsigned_abs() })
}

pub(crate) fn decode(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let start = core::ptr::from_ref(storage);
    match libc::c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that the storage holds a sockaddr_in.
            let raw = unsafe { &*start.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(raw.sin_addr.s_addr));
            Some(SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(raw.sin_port))))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that the storage holds a sockaddr_in6.
            let raw = unsafe { &*start.cast::<libc::sockaddr_in6>() };
            Some(SocketAddr::V6(SocketAddrV6::new(
                Ipv6Addr::from(raw.sin6_addr.s6_addr),
                u16::from_be(raw.sin6_port),
                raw.sin6_flowinfo,
                raw.sin6_scope_id,
            )))
        }
        _ => None,
    }
}

/// The unspecified address.
pub const fn any(six: bool) -> IpAddr {
    if six { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { IpAddr::V4(Ipv4Addr::UNSPECIFIED) }
}

pub(crate) fn unbound_hint(error: &io::Error, port: &str, held: impl FnOnce() -> String) -> String {
    match error.raw_os_error() {
        Some(libc::EADDRINUSE) => held(),
        Some(libc::EADDRNOTAVAIL) => {
            "use an address of this host (`ip -brief address` lists them) or 0.0.0.0".into()
        }
        Some(libc::EACCES) => format!("use a {port} of 1024 or above"),
        _ => "check the address".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_the_way_to_the_kernel_and_back() {
        for text in ["127.0.0.1:5004", "[::1]:65535", "[fe80::1%3]:9", "239.1.2.3:0"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(decode(&RawAddress::from(address).storage), Some(address));
        }
    }
}
