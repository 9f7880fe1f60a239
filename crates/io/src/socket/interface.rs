//! Network interfaces by name, index and address.

use std::ffi::{CStr, CString};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::socket::descriptor::Socket;
use crate::system::checked;

pub(crate) fn interface_index(name_or_address: &str) -> io::Result<u32> {
    if let Ok(address) = name_or_address.parse::<IpAddr>() {
        return index_of_address(address);
    }
    let name =
        CString::new(name_or_address).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
    index_of_name(&name)
}

fn index_of_name(name: &CStr) -> io::Result<u32> {
    // SAFETY: `name` is NUL-terminated.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

fn index_of_address(wanted: IpAddr) -> io::Result<u32> {
    let mut list: *mut libc::ifaddrs = core::ptr::null_mut();
    // SAFETY: `list` is writable; the list it then points to is freed below.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut entry = list;
    let mut found = Err(io::Error::from_raw_os_error(libc::EADDRNOTAVAIL));
    while !entry.is_null() {
        // SAFETY: `entry` is not null, and belongs to the list of getifaddrs, which is freed below.
        let this = unsafe { &*entry };
        if ip_of(this.ifa_addr) == Some(wanted) {
            // SAFETY: every entry has a NUL-terminated name.
            found = index_of_name(unsafe { CStr::from_ptr(this.ifa_name) });
            break;
        }
        entry = this.ifa_next;
    }
    // SAFETY: getifaddrs created the list above. It is freed once.
    unsafe { libc::freeifaddrs(list) };
    found
}

fn ip_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: `address` is not null, and every sockaddr begins with its family.
    match libc::c_int::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: the family identifies a sockaddr_in.
            let raw = unsafe { &*address.cast::<libc::sockaddr_in>() };
            Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(raw.sin_addr.s_addr))))
        }
        libc::AF_INET6 => {
            // SAFETY: the family identifies a sockaddr_in6.
            let raw = unsafe { &*address.cast::<libc::sockaddr_in6>() };
            Some(IpAddr::V6(Ipv6Addr::from(raw.sin6_addr.s6_addr)))
        }
        _ => None,
    }
}

pub(crate) fn request(interface: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all zeros are a valid ifreq.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    if interface.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    request.ifr_name.iter_mut().zip(interface.bytes()).for_each(|(to, byte)| *to = byte as _);
    Ok(request)
}

/// # Safety
/// `request` contains the data that the kernel expects for `command`.
pub(crate) unsafe fn send_request(
    request: &mut libc::ifreq,
    command: libc::c_ulong,
) -> io::Result<()> {
    let socket = Socket::for_questions()?;
    // SAFETY: the caller guarantees the request's content; it outlives the call.
    checked(unsafe { libc::ioctl(socket.fd(), command as _, core::ptr::from_mut(request)) })
        .map(drop)
}

pub(crate) fn query(interface: &str, command: libc::c_ulong) -> io::Result<libc::ifreq> {
    let mut request = request(interface)?;
    // SAFETY: the request names an interface, and the kernel writes its answer there.
    unsafe { send_request(&mut request, command)? };
    Ok(request)
}

/// Name of this interface, or its index if it is gone.
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
    // SAFETY: the call succeeded, so the name is NUL-terminated within the buffer.
    Ok(unsafe { CStr::from_ptr(name.as_ptr()) }.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found_by_name_and_by_address() {
        let index = interface_index("lo").unwrap();
        assert_eq!(interface_index("127.0.0.1").unwrap(), index);
        assert_eq!(interface_name(index).unwrap().to_str(), Ok("lo"));
        assert!(interface_index("nosuch0").is_err());
        assert!(interface_index("192.0.2.77").is_err());
    }
}
