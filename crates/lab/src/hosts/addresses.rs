//! Finds a reachable address of a host: the sender tries all.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use tautline_io::udp::any;

use crate::if_inet6::{self, held};

pub(super) struct Door {
    knocks: UdpSocket,
    pub(super) port: u16,
    pub(super) ports: u16,
}

const KNOCK: &[u8] = b"taut lab: are you there?";
const LONGEST: Duration = Duration::from_millis(500);

impl Door {
    pub(super) fn open(pairs: u16) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("opening a UDP socket: {error}");
        let both = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0));
        let knocks =
            both.or_else(|_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))).map_err(failed)?;
        let port = knocks.local_addr().map_err(failed)?.port();
        let ports = free(pairs).ok_or("not enough consecutive UDP ports are free")?;
        Ok(Self { knocks, port, ports })
    }

    /// The datagram carries the address, so that the receiver knows it.
    pub(super) fn knock(to: SocketAddr) {
        let said = [KNOCK, to.ip().to_string().as_bytes()].concat();
        let _ =
            UdpSocket::bind((any(to.is_ipv6()), 0)).and_then(|socket| socket.send_to(&said, to));
    }

    pub(super) fn received(&self) -> Option<IpAddr> {
        let deadline = Instant::now() + LONGEST;
        let mut room = [0; 128];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            self.knocks.set_read_timeout(Some(left.max(Duration::from_millis(1)))).ok()?;
            match self.knocks.recv(&mut room) {
                Ok(length) => {
                    let said = room.get(..length)?.strip_prefix(KNOCK);
                    let address =
                        said.and_then(|said| core::str::from_utf8(said).ok()?.parse().ok());
                    if address.is_some() {
                        return address;
                    }
                }
                Err(_) if left.is_zero() => return None,
                Err(_) => {}
            }
        }
    }
}

const PORTS: core::ops::Range<u16> = 20_000..30_000;

/// Consecutive ports; each pair is an even port and the next port.
fn free(pairs: u16) -> Option<u16> {
    let is_free = |port| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok();
    let ports = pairs.checked_mul(2)?;
    let last = PORTS.end.checked_sub(ports).filter(|last| *last > PORTS.start)?;
    let mut tried = (0..1000).map(|_| fastrand::u16(PORTS.start..last) & !1);
    tried.find(|first| (*first..first + ports).all(is_free))
}

/// Loopback last (proc_net(5), `fib_trie`, `if_inet6`).
pub(super) fn own_addresses() -> Vec<IpAddr> {
    let text = |path| fs::read_to_string(path).unwrap_or_default();
    let mut all = local_v4(&text("/proc/net/fib_trie"));
    all.extend(global_v6(&if_inet6::text()));
    all.retain(|address| !address.is_loopback());
    all.push(Ipv4Addr::LOCALHOST.into());
    all
}

/// Finds `|-- 10.0.0.2` before `/32 host LOCAL`.
fn local_v4(trie: &str) -> Vec<IpAddr> {
    let mut all: Vec<IpAddr> = Vec::new();
    let mut last = None;
    for line in trie.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse().ok();
        } else if line == "/32 host LOCAL"
            && let Some(address) = last.take()
            && !all.contains(&address)
        {
            all.push(address);
        }
    }
    all
}

fn global_v6(text: &str) -> impl Iterator<Item = IpAddr> + '_ {
    held(text).filter(|held| held.is_global).map(|held| held.address.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_of_a_host_are_those_that_its_kernel_lists() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.7.0.0\n        /24 link UNICAST\n     \
                    |-- 10.7.0.2\n        /32 host LOCAL\n     |-- 10.7.0.255\n        /32 link \
                    BROADCAST\n     |-- 127.0.0.1\n        /32 host LOCAL\nLocal:\n     |-- 10.7.0.2\n  \
                    /32 host LOCAL\n";
        let known: Vec<IpAddr> = vec![[10, 7, 0, 2].into(), [127, 0, 0, 1].into()];
        assert_eq!(local_v4(trie), known);
        let v6 = "fd000000000000000000000000000002 02 40 00 80     eth0\n\
                  fe800000000000000000000000000001 02 40 20 80     eth0\n\
                  nonsense\n";
        let found: Vec<String> = global_v6(v6).map(|address| address.to_string()).collect();
        assert_eq!(found, ["fd00::2"]);
    }

    #[test]
    fn probe_is_received_with_its_destination() {
        let door = Door::open(1).unwrap();
        Door::knock((Ipv4Addr::LOCALHOST, door.port).into());
        assert_eq!(door.received(), Some(Ipv4Addr::LOCALHOST.into()));
        assert_eq!(door.received(), None);
        assert_eq!(door.ports % 2, 0);
    }
}
