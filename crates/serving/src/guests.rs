//! Places for connections, so that no client can take the places of another client.
//!
//! This machine, hosts of trusted peers, and strangers have separate places. If they are full, a
//! waiting connection is closed: the oldest of the host with the most connections, in the network
//! with the most. So a flood closes its own connections first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

/// Timeout for the first byte, then for the handshake or the ticket.
pub(crate) const SHOWING: Duration = Duration::from_secs(3);
/// Maximum connections in a call or opening a stream.
const MAX_BUSY: usize = 256;
/// Places for this machine.
const RESERVED_BUSY: usize = 32;
const MAX_BUSY_PER_HOST: usize = 128;
/// Maximum of each kind. With [`MAX_BUSY`], they fit into 1024 open files.
const MAX_LOCAL: usize = 128;
const MAX_PEERS: usize = 64;
const MAX_STRANGERS: usize = 64;
/// Maximum per peer, which opens all streams of a session together.
const MAX_PER_PEER: usize = 32;
const MAX_PER_STRANGER: usize = 16;
/// Maximum per /24 (IPv4) or /48 (IPv6).
const MAX_PER_NETWORK: usize = 32;
const MAX_REMEMBERED: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Local,
    Peer,
    Stranger,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// May be closed.
    Waiting,
    Held,
    Busy,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    host: IpAddr,
    origin: Origin,
    stage: Stage,
}

type Limit<'a> = (usize, &'a dyn Fn(&Place) -> bool);

#[derive(Debug, PartialEq, Eq)]
enum Room {
    Free,
    /// After closing this connection.
    Instead(u64),
    Full,
}

#[derive(Debug, Default)]
struct Places {
    taken: BTreeMap<u64, Place>,
    entered: u64,
    peers: VecDeque<IpAddr>,
}

/// An IPv6 host has 2^64 addresses.
fn host(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        local if local.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => prefix(address, 64),
    }
}

fn network(host: IpAddr) -> IpAddr {
    match host {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() & (u32::MAX << 8)).into(),
        IpAddr::V6(address) => prefix(address, 48),
    }
}

fn prefix(address: Ipv6Addr, bits: u32) -> IpAddr {
    Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << (128 - bits))).into()
}

impl Places {
    /// Number of the place, and of a connection to close; `None` without room.
    fn enter(&mut self, address: IpAddr) -> Option<(u64, Option<u64>)> {
        let host = host(address);
        let origin = match host {
            host if host.is_loopback() => Origin::Local,
            host if self.peers.contains(&host) => Origin::Peer,
            _ => Origin::Stranger,
        };
        let closed = self.make_room(host, origin)?;
        self.entered += 1;
        self.taken.insert(self.entered, Place { host, origin, stage: Stage::Waiting });
        Some((self.entered, closed))
    }

    fn make_room(&mut self, host: IpAddr, origin: Origin) -> Option<Option<u64>> {
        match self.room(host, origin) {
            Room::Free => Some(None),
            Room::Instead(oldest) => {
                self.taken.remove(&oldest);
                Some(Some(oldest))
            }
            Room::Full => None,
        }
    }

    fn room(&self, host: IpAddr, origin: Origin) -> Room {
        let of_host = |place: &Place| place.host == host;
        let of_network = |place: &Place| network(place.host) == network(host);
        let limits: &[Limit<'_>] = match origin {
            Origin::Local => &[(MAX_LOCAL, &|_| true)],
            Origin::Peer => &[(MAX_PER_PEER, &of_host), (MAX_PEERS, &|_| true)],
            Origin::Stranger => &[
                (MAX_PER_STRANGER, &of_host),
                (MAX_PER_NETWORK, &of_network),
                (MAX_STRANGERS, &|_| true),
            ],
        };
        for (limit, counts) in limits {
            let waiting = self.taken.iter().filter(|(_, place)| {
                place.origin == origin && place.stage != Stage::Busy && counts(place)
            });
            if waiting.clone().count() < *limit {
                continue;
            }
            let with = |group: fn(IpAddr) -> IpAddr, host| {
                waiting.clone().filter(|(_, place)| group(place.host) == group(host)).count()
            };
            let crowd = |host| (with(network, host), with(|host| host, host));
            let closable = waiting.clone().filter(|(_, place)| place.stage == Stage::Waiting);
            let closed = closable.max_by_key(|(id, place)| (crowd(place.host), Reverse(**id)));
            return closed.map_or(Room::Full, |(id, _)| Room::Instead(*id));
        }
        Room::Free
    }

    fn recognize(&mut self, id: u64) -> Option<Option<u64>> {
        let place = *self.taken.get(&id)?;
        if place.origin == Origin::Local {
            return Some(None);
        }
        self.peers.retain(|known| *known != place.host);
        self.peers.push_back(place.host);
        if self.peers.len() > MAX_REMEMBERED {
            self.peers.pop_front();
        }
        if place.origin == Origin::Peer {
            return Some(None);
        }
        let closed = self.make_room(place.host, Origin::Peer)?;
        self.taken.get_mut(&id)?.origin = Origin::Peer;
        Some(closed)
    }

    fn begin(&mut self, id: u64) -> bool {
        let Some(Place { host, origin, .. }) = self.taken.get(&id).copied() else { return false };
        let busy = self.taken.values().filter(|place| place.stage == Stage::Busy);
        let of_host = busy.clone().filter(|place| place.host == host).count();
        let reserved = if origin == Origin::Local { 0 } else { RESERVED_BUSY };
        let may = busy.count() < MAX_BUSY - reserved && of_host < MAX_BUSY_PER_HOST;
        if may {
            self.set(id, Stage::Busy);
        }
        may
    }

    fn set(&mut self, id: u64, stage: Stage) {
        if let Some(place) = self.taken.get_mut(&id) {
            place.stage = stage;
        }
    }
}

#[derive(Debug, Default)]
struct Presence {
    places: Places,
    open: BTreeMap<u64, oneshot::Sender<Infallible>>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Guests(Arc<Mutex<Presence>>);

pub(crate) type Closed = oneshot::Receiver<Infallible>;

#[derive(Debug)]
pub(crate) struct Guest {
    guests: Guests,
    id: u64,
}

impl Guests {
    fn presence<T>(&self, with: impl FnOnce(&mut Presence) -> T) -> T {
        with(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn enter(&self, address: IpAddr) -> Option<(Guest, Closed)> {
        self.presence(|presence| {
            let (id, closed) = presence.places.enter(address)?;
            presence.close(closed);
            let (open, is_closed) = oneshot::channel();
            presence.open.insert(id, open);
            Some((Guest { guests: self.clone(), id }, is_closed))
        })
    }
}

impl Guest {
    /// `false` without a place.
    pub(crate) fn recognize(&self) -> bool {
        self.guests.presence(|presence| {
            let room = presence.places.recognize(self.id);
            room.map(|closed| presence.close(closed)).is_some()
        })
    }

    /// Keeps the place until the guest is dropped or [finishes](Self::finish). `false` without
    /// room.
    pub(crate) fn begin(&self) -> bool {
        self.guests.presence(|presence| presence.places.begin(self.id))
    }

    pub(crate) fn finish(&self) {
        self.guests.presence(|presence| presence.places.set(self.id, Stage::Waiting));
    }

    pub(crate) fn hold(&self) {
        self.guests.presence(|presence| presence.places.set(self.id, Stage::Held));
    }
}

impl Presence {
    fn close(&mut self, id: Option<u64>) {
        id.and_then(|id| self.open.remove(&id));
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.guests.presence(|presence| {
            presence.places.taken.remove(&self.id);
            presence.open.remove(&self.id);
        });
    }
}

#[cfg(test)]
mod tests;
