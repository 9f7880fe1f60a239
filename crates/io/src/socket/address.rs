//! Socket addresses and network interfaces as the kernel writes them.

use std::ffi::{CStr, CString};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use tautline_proto::endpoint::Endpoint;
use tautline_proto::wire::avtp::ETHERTYPE;

use crate::socket::descriptor::Socket;
use crate::system::checked;

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
                // SAFETY: sockaddr_storage is larger than, and aligned for, every address.
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
                // SAFETY: sockaddr_storage is larger than, and aligned for, a sockaddr_in6 too.
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

    /// An Ethernet address at the interface with this index, for this ethertype (packet(7)).
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
        // SAFETY: sockaddr_storage is larger than, and aligned for, every address.
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

pub(crate) fn interface_index(name_or_address: &str) -> io::Result<u32> {
    if let Ok(address) = name_or_address.parse::<IpAddr>() {
        return index_of_address(address);
    }
    let name =
        CString::new(name_or_address).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
    index_of_name(&name)
}

fn index_of_name(name: &CStr) -> io::Result<u32> {
    // SAFETY: `name` ends with a zero byte.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

fn index_of_address(wanted: IpAddr) -> io::Result<u32> {
    let mut list: *mut libc::ifaddrs = core::ptr::null_mut();
    // SAFETY: `list` is writable; what it then points to is freed below.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut entry = list;
    let mut found = Err(io::Error::from_raw_os_error(libc::EADDRNOTAVAIL));
    while !entry.is_null() {
        // SAFETY: a non-null entry of the list that getifaddrs made and nobody has freed.
        let this = unsafe { &*entry };
        if ip_of(this.ifa_addr) == Some(wanted) {
            // SAFETY: every entry has a name that ends with a zero byte.
            found = index_of_name(unsafe { CStr::from_ptr(this.ifa_name) });
            break;
        }
        entry = this.ifa_next;
    }
    // SAFETY: made by getifaddrs above, freed once.
    unsafe { libc::freeifaddrs(list) };
    found
}

fn ip_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: not null, and every sockaddr begins with its family.
    match libc::c_int::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: the family says that it is a sockaddr_in.
            let raw = unsafe { &*address.cast::<libc::sockaddr_in>() };
            Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(raw.sin_addr.s_addr))))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that it is a sockaddr_in6.
            let raw = unsafe { &*address.cast::<libc::sockaddr_in6>() };
            Some(IpAddr::V6(Ipv6Addr::from(raw.sin6_addr.s6_addr)))
        }
        _ => None,
    }
}

/// A request about the interface with this name (netdevice(7)).
pub(crate) fn request(interface: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all zeros are a valid ifreq.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    // The last byte stays zero.
    if interface.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    request.ifr_name.iter_mut().zip(interface.bytes()).for_each(|(to, byte)| *to = byte as _);
    Ok(request)
}

/// # Safety
/// The request is filled as the kernel expects for this `command`.
pub(crate) unsafe fn send_request(
    request: &mut libc::ifreq,
    command: libc::c_ulong,
) -> io::Result<()> {
    let socket = Socket::for_questions()?;
    // SAFETY: the caller vouches for the request, which lives through the call.
    checked(unsafe { libc::ioctl(socket.fd(), command as _, core::ptr::from_mut(request)) })
        .map(drop)
}

pub(crate) fn ask(interface: &str, command: libc::c_ulong) -> io::Result<libc::ifreq> {
    let mut request = request(interface)?;
    // SAFETY: the request names an interface, and the kernel writes its answer there.
    unsafe { send_request(&mut request, command)? };
    Ok(request)
}

/// The name of the interface with this index, for people; its number where it has none any more.
pub fn interface_label(index: u32) -> String {
    let named = interface_name(index).map(|name| name.to_string_lossy().into_owned());
    named.unwrap_or_else(|_| index.to_string())
}

pub(crate) fn interface_name(index: u32) -> io::Result<CString> {
    let mut name = [0 as libc::c_char; libc::IF_NAMESIZE];
    // SAFETY: the buffer has the IF_NAMESIZE bytes that the call may write.
    if unsafe { libc::if_indextoname(index, name.as_mut_ptr()) }.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so the name ends with a zero byte inside the buffer.
    Ok(unsafe { CStr::from_ptr(name.as_ptr()) }.to_owned())
}

/// Any address of this host, of IPv6 or of IPv4.
pub const fn any(six: bool) -> IpAddr {
    if six { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { IpAddr::V4(Ipv4Addr::UNSPECIFIED) }
}

pub(crate) fn unbound_mend(error: &io::Error, port: &str, held: impl FnOnce() -> String) -> String {
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

    #[test]
    fn loopback_is_found_by_name_and_by_address() {
        let index = interface_index("lo").unwrap();
        assert_eq!(interface_index("127.0.0.1").unwrap(), index);
        assert_eq!(interface_name(index).unwrap().to_str(), Ok("lo"));
        assert!(interface_index("nosuch0").is_err());
        assert!(interface_index("192.0.2.77").is_err());
    }
}
