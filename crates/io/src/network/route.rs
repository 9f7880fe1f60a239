//! The outgoing interface of a packet (rtnetlink(7)).

use std::io;
use std::net::IpAddr;
use std::path::Path;

use crate::network::netlink::{attribute, each, number, request};
use crate::socket::interface::{interface_index, interface_name};

/// `struct rtmsg`: family, two prefix lengths, TOS, table, protocol, scope, type, flags.
const ROUTE: usize = 12;

/// Outgoing interface to `destination` (loopback for own addresses). `by`: the interface bound or
/// used for multicast.
pub(crate) fn leaving(destination: IpAddr, by: Option<u32>) -> io::Result<u32> {
    let (family, address) = match destination {
        IpAddr::V4(four) => (libc::AF_INET, four.octets().to_vec()),
        IpAddr::V6(six) => (libc::AF_INET6, six.octets().to_vec()),
    };
    let mut question = vec![0; ROUTE];
    question[0] = family as u8;
    question[1] = 8 * address.len() as u8;
    let by = by.map(|by| (libc::RTA_OIF, by.to_ne_bytes().to_vec()));
    for (kind, value) in [Some((libc::RTA_DST, address)), by].into_iter().flatten() {
        question.extend((4 + value.len() as u16).to_ne_bytes());
        question.extend(kind.to_ne_bytes());
        question.extend(value);
    }
    let mut found = None;
    request(libc::RTM_GETROUTE, 0, &question, |answer| {
        // One answer per request.
        read(answer, &mut found).map(|_| true)
    })?;
    found.ok_or_else(|| io::Error::from_raw_os_error(libc::ENETUNREACH))
}

/// Parses the kernel's answer.
pub fn read(answer: &[u8], found: &mut Option<u32>) -> io::Result<bool> {
    each(answer, |kind, body| {
        if kind == libc::RTM_NEWROUTE {
            let attributes = body.get(ROUTE..).unwrap_or_default();
            *found = attribute(attributes, libc::RTA_OIF).and_then(|value| number(value, 0));
        }
    })
}

/// The only interface below this one, such as a VLAN's card.
pub fn lower(interface: u32) -> Option<u32> {
    let name = interface_name(interface).ok()?;
    let place = Path::new("/sys/class/net").join(name.to_str().ok()?);
    let names =
        place.read_dir().ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut below = names.filter_map(|name| name.strip_prefix("lower_").map(str::to_owned));
    let first = below.next()?;
    below.next().is_none().then(|| interface_index(&first).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loopback() -> u32 {
        interface_index("lo").expect("there always")
    }

    #[test]
    fn packets_to_the_own_address_use_loopback() {
        for own in ["127.0.0.1", "127.9.8.7", "::1"] {
            let own = own.parse().expect("an address");
            assert_eq!(leaving(own, None).ok(), Some(loopback()), "{own}");
        }
    }

    #[test]
    fn a_way_that_there_is_not_is_the_kernels_own_error() {
        let group = "233.252.0.9".parse().expect("an address");
        let error = leaving(group, Some(1 << 30)).expect_err("no such interface");
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV), "{error}");
    }

    #[test]
    fn an_answer_that_is_cut_anywhere_is_no_panic() {
        let mut message = [40_u32.to_ne_bytes(), [24, 0, 0, 0], [0; 4], [0; 4]].concat();
        message.extend([0; ROUTE + 4]);
        message.extend([8_u16.to_ne_bytes(), libc::RTA_OIF.to_ne_bytes()].concat());
        message.extend(7_u32.to_ne_bytes());
        message[0] = message.len() as u8;
        for end in 0..message.len() {
            let mut found = None;
            assert!(read(&message[..end], &mut found).is_ok());
            assert_eq!(found, None, "{end}");
        }
    }
}
