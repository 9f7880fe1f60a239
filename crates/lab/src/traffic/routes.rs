//! Interface for an address, from the main routing table (proc_net(5)). Ignores rules for other
//! tables.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use tautline_io::udp::any;

use crate::if_inet6::{self, held};

/// Loopback for this machine's own address.
pub(super) fn leads_to(address: IpAddr) -> Option<String> {
    if own_towards(address) == Some(address) {
        return Some("lo".to_owned());
    }
    Some(match address {
        IpAddr::V4(address) => route_v4(&text("/proc/net/route"), address)?,
        IpAddr::V6(address) => route_v6(&text("/proc/net/ipv6_route"), address)?,
    })
}

pub(super) fn has(address: IpAddr) -> Option<String> {
    match address {
        address if address.is_loopback() => Some("lo".to_owned()),
        IpAddr::V4(address) => route_v4(&text("/proc/net/route"), address),
        IpAddr::V6(address) => holder_v6(&if_inet6::text(), address),
    }
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn own_towards(address: IpAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind((any(address.is_ipv6()), 0)).ok()?;
    // Connecting sends nothing.
    socket.connect((address, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Longest prefix, then lowest metric. Fields: name, network, mask in network byte order; metric is
/// the seventh.
fn route_v4(text: &str, address: Ipv4Addr) -> Option<String> {
    let wanted = u32::from_ne_bytes(address.octets());
    let routes = text.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| u32::from_str_radix(words.get(at)?, 16).ok();
        let (network, mask) = (number(1)?, number(7)?);
        let metric: u32 = words.get(6)?.parse().ok()?;
        let name = *words.first()?;
        (wanted & mask == network).then_some((mask.count_ones(), u32::MAX - metric, name))
    });
    routes.max_by_key(|(length, cheap, _)| (*length, *cheap)).map(|(_, _, name)| name.to_owned())
}

/// IPv6: network in 32 digits, prefix length, metric sixth, name last.
fn route_v6(text: &str, address: Ipv6Addr) -> Option<String> {
    let routes = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let network = u128::from_str_radix(words.first()?, 16).ok()?;
        let length = u32::from_str_radix(words.get(1)?, 16).ok()?;
        let metric = u32::from_str_radix(words.get(5)?, 16).ok()?;
        let mask = u128::MAX.checked_shl(128_u32.checked_sub(length)?).unwrap_or(0);
        // The maximum metric rejects all other addresses.
        let is = address.to_bits() & mask == network && metric < u32::MAX;
        is.then_some((length, u32::MAX - metric, *words.last()?))
    });
    routes.max_by_key(|(length, cheap, _)| (*length, *cheap)).map(|(_, _, name)| name.to_owned())
}

fn holder_v6(text: &str, address: Ipv6Addr) -> Option<String> {
    held(text).find(|held| held.address == address).map(|held| held.name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_network_leads_to_an_address() {
        let hex = |address: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(address));
        let line = |name: &str, network, metric: u32, mask| {
            format!("{name} {} 0 0 0 0 {metric} {} 0 0 0\n", hex(network), hex(mask))
        };
        let table = "Iface Destination ...\n".to_owned()
            + &line("busy0", [0; 4], 0, [0; 4])
            + &line("dear0", [10, 7, 0, 0], 600, [255, 255, 255, 0])
            + &line("eth1", [10, 7, 0, 0], 100, [255, 255, 255, 0])
            + "torn 1\n";
        let by = |address: &str| route_v4(&table, address.parse().unwrap());
        assert_eq!(by("10.7.0.9").as_deref(), Some("eth1"));
        assert_eq!(by("10.8.0.9").as_deref(), Some("busy0"));
        assert_eq!(route_v4("", Ipv4Addr::LOCALHOST), None);
        let (zero, net) = ("0".repeat(32), "fd00".to_owned() + &"0".repeat(28));
        let table = format!(
            "{net} 40 {zero} 00 {zero} 00000100 0 0 1 eth1\n{zero} 00 {zero} 00 {zero} ffffffff 0 0 1 lo\n"
        );
        let by = |address: &str| route_v6(&table, address.parse().unwrap());
        assert_eq!((by("fd00::2").as_deref(), by("fd01::2")), (Some("eth1"), None));
        let held = "fd000000000000000000000000000002 02 40 00 80     eth1\nnonsense\n";
        assert_eq!(holder_v6(held, "fd00::2".parse().unwrap()).as_deref(), Some("eth1"));
    }

    #[test]
    fn route_to_this_machine_is_loopback() {
        let own: IpAddr = Ipv4Addr::LOCALHOST.into();
        assert_eq!((leads_to(own).as_deref(), has(own).as_deref()), (Some("lo"), Some("lo")));
    }
}
