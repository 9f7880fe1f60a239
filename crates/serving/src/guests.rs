//! How many connections there may be, and how many that have not shown yet whose they are.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Connections at a time of those who are known: a building's callers, of whom each has one.
const MOST_KNOWN: usize = 256;
/// To show whose it is: the first byte, and the handshake or the ticket.
pub(crate) const SHOWING: Duration = Duration::from_secs(3);
/// Of those who are not: each has a few seconds.
const MOST_UNKNOWN: usize = 64;
/// Of the unknown, from one host: the others' places are not taken by one who opens many.
const MOST_OF_A_HOST: usize = 16;

/// Who is there.
#[derive(Debug, Default)]
struct Presence {
    unknown: BTreeMap<IpAddr, usize>,
    known: usize,
}

/// Counts connections.
#[derive(Debug, Clone, Default)]
pub(crate) struct Guests(Arc<Mutex<Presence>>);

/// A connection is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Guest {
    guests: Guests,
    /// While it is unknown.
    host: Option<IpAddr>,
}

/// IPv6 hosts have 2^64 addresses each.
fn host(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
    }
}

impl Guests {
    fn presence<T>(&self, with: impl FnOnce(&mut Presence) -> T) -> T {
        with(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// One more that nobody knows, if there is room.
    pub(crate) fn enter(&self, address: IpAddr) -> Option<Guest> {
        let host = host(address);
        self.presence(|presence| {
            let all: usize = presence.unknown.values().sum();
            let of_host = presence.unknown.entry(host).or_default();
            if all >= MOST_UNKNOWN || *of_host >= MOST_OF_A_HOST {
                presence.unknown.retain(|_, count| *count > 0);
                return None;
            }
            *of_host += 1;
            Some(Guest { guests: self.clone(), host: Some(host) })
        })
    }
}

impl Guest {
    /// It showed who it is; `None` if there are enough of those.
    pub(crate) fn known(mut self) -> Option<Self> {
        let host = self.host.take()?;
        self.guests.presence(|presence| {
            presence.leave(host);
            presence.known += 1;
        });
        // Dropped, it leaves as one that was known.
        (self.guests.presence(|presence| presence.known) <= MOST_KNOWN).then_some(self)
    }
}

impl Presence {
    fn leave(&mut self, host: IpAddr) {
        if let Some(count) = self.unknown.get_mut(&host) {
            *count -= 1;
        }
        self.unknown.retain(|_, count| *count > 0);
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let host = self.host;
        self.guests.presence(|presence| match host {
            Some(host) => presence.leave(host),
            None => presence.known -= 1,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(n: u8) -> IpAddr {
        [10, 0, 0, n].into()
    }

    #[test]
    fn one_host_does_not_take_the_places_of_all() {
        let guests = Guests::default();
        let one: Vec<_> = (0..100).filter_map(|_| guests.enter(from(1))).collect();
        assert_eq!(one.len(), MOST_OF_A_HOST);
        assert!(guests.enter(from(2)).is_some());
        drop(one);
        assert!(guests.enter(from(1)).is_some(), "who left makes room");
    }

    #[test]
    fn many_hosts_do_not_take_more_than_there_is() {
        let guests = Guests::default();
        let all: Vec<_> = (0..200).filter_map(|n| guests.enter(from(n))).collect();
        assert_eq!(all.len(), MOST_UNKNOWN);
        assert!(guests.0.lock().unwrap().unknown.len() <= MOST_UNKNOWN, "memory has a bound");
        drop(all);
        assert!(guests.0.lock().unwrap().unknown.is_empty());
    }

    #[test]
    fn who_is_known_takes_no_place_of_the_unknown() {
        let guests = Guests::default();
        let enter = || guests.enter(from(1)).and_then(Guest::known);
        let known: Vec<_> = (0..400).filter_map(|_| enter()).collect();
        assert_eq!(known.len(), MOST_KNOWN);
        assert!(guests.enter(from(1)).is_some());
        drop(known);
        assert_eq!(guests.0.lock().unwrap().known, 0);
    }

    #[test]
    fn all_addresses_of_an_ipv6_network_are_one_host() {
        let guests = Guests::default();
        let enter = |n: u16| guests.enter(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n).into());
        let held: Vec<_> = (0..100).map(enter).collect();
        assert_eq!(held.iter().flatten().count(), MOST_OF_A_HOST);
    }
}
