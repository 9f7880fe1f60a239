//! IPv6 addresses of this machine: proc_net(5), `if_inet6`.

use std::net::Ipv6Addr;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeldAddress<'a> {
    pub(crate) address: Ipv6Addr,
    pub(crate) interface: u32,
    pub(crate) name: &'a str,
    pub(crate) is_global: bool,
}

/// Empty without IPv6.
pub(crate) fn text() -> String {
    std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default()
}

/// 32 digits; interface, prefix, scope (0 is global) and flags in hex; name.
pub(crate) fn held(text: &str) -> impl Iterator<Item = HeldAddress<'_>> {
    text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let address = Ipv6Addr::from_bits(u128::from_str_radix(words.next()?, 16).ok()?);
        let interface = u32::from_str_radix(words.next()?, 16).ok()?;
        let is_global = words.nth(1)? == "00";
        Some(HeldAddress { address, interface, name: words.nth(1)?, is_global })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_interface_and_scope_and_bad_lines_none() {
        let address = |text: &str| text.parse::<Ipv6Addr>().unwrap();
        let text = "fd000000000000000000000000000002 1a 40 00 80     eth0\n\
                    fe800000000000000000000000000001 02 40 20 80     eth1\n\
                    nonsense\nfd000000000000000000000000000003 02 40 00\n";
        let [one, two] = held(text).collect::<Vec<_>>()[..] else { panic!("{text}") };
        assert_eq!((one.interface, one.name, one.is_global), (26, "eth0", true));
        assert_eq!((two.interface, two.name, two.is_global), (2, "eth1", false));
        assert_eq!([one.address, two.address], ["fd00::2", "fe80::1"].map(address));
    }
}
