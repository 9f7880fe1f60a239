use super::*;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn from(network: u8, n: u8) -> IpAddr {
    [10, 0, network, n].into()
}

fn entered(places: &mut Places, addresses: impl Iterator<Item = IpAddr>) -> Vec<u64> {
    let enter =
        |address| places.enter(address).and_then(|(id, closed)| closed.is_none().then_some(id));
    addresses.filter_map(enter).collect()
}

#[test]
fn strangers_are_limited_by_host_network_and_in_total() {
    let mut places = Places::default();
    let one = entered(&mut places, (0..100).map(|_| from(1, 1)));
    assert_eq!(one.len(), MAX_PER_STRANGER);
    let network = entered(&mut places, (2..100).map(|n| from(1, n)));
    assert_eq!(one.len() + network.len(), MAX_PER_NETWORK);
    let others = entered(&mut places, (0..200).map(|n| from(n, 1)));
    assert_eq!(one.len() + network.len() + others.len(), MAX_STRANGERS);
}

#[test]
fn addresses_of_one_ipv6_network_are_one_host() {
    let mut places = Places::default();
    let address = |of: u16, n: u16| Ipv6Addr::new(0x2001, 0xdb8, 0, of, 0, 0, 0, n).into();
    assert_eq!(entered(&mut places, (0..100).map(|n| address(0, n))).len(), MAX_PER_STRANGER);
    let site = entered(&mut places, (1..100).map(|of| address(of, 1)));
    assert_eq!(MAX_PER_STRANGER + site.len(), MAX_PER_NETWORK);
}

#[test]
fn strangers_that_crowd_make_room_for_a_stranger_that_does_not() {
    let mut places = Places::default();
    let crowds = [from(1, 1), from(2, 1), from(3, 1), from(4, 1)];
    let held = entered(&mut places, (0..MAX_STRANGERS).map(|n| crowds[n % 4]));
    assert_eq!(held.len(), MAX_STRANGERS);
    let (newcomer, closed) = places.enter(from(9, 1)).unwrap();
    assert_eq!(closed, Some(held[0]), "the oldest of a crowd");
    // They displace one another.
    for crowd in crowds.into_iter().cycle().take(1_000) {
        let (_, closed) = places.enter(crowd).unwrap();
        assert!(closed.is_some_and(|closed| closed != newcomer));
    }
    assert_eq!(places.taken.len(), MAX_STRANGERS);
    // Hosts of one network also form a crowd.
    let mut places = Places::default();
    entered(&mut places, (0..MAX_PER_NETWORK as u8).map(|n| from(1, n)));
    let few = entered(&mut places, (0..MAX_PER_NETWORK as u8).map(|n| from(10 + n, 1)));
    let (_, closed) = places.enter(from(9, 1)).unwrap();
    assert!(closed.is_some_and(|closed| !few.contains(&closed)));
}

#[test]
fn new_local_connection_replaces_the_oldest_that_waits() {
    let mut places = Places::default();
    let local = |n: u8| [127, 0, 0, n].into();
    let held = entered(&mut places, (0..200).map(local).take(MAX_LOCAL));
    assert_eq!(held.len(), MAX_LOCAL);
    assert!(places.begin(held[0]));
    let (newest, _) = places.enter(HERE).unwrap();
    places.set(held[1], Stage::Held);
    let next = places.enter(Ipv6Addr::LOCALHOST.into()).unwrap();
    assert_eq!(next, (newest + 1, Some(held[2])));
    assert!(places.taken.contains_key(&held[0]) && places.taken.contains_key(&held[1]));
}

#[test]
fn strangers_take_no_place_of_local_connections_and_peers() {
    let mut places = Places::default();
    let (peer, _) = places.enter(from(1, 1)).unwrap();
    assert_eq!(places.recognize(peer), Some(None));
    entered(&mut places, (0..200).map(|n| from(n, 2)));
    assert!(places.enter(from(1, 3)).is_some_and(|(_, closed)| closed.is_some()));
    assert!(places.enter(HERE).is_some_and(|(_, closed)| closed.is_none()));
    assert!(places.enter(from(1, 1)).is_some_and(|(_, closed)| closed.is_none()));
}

#[test]
fn peer_replaces_a_connection_of_its_own_host_first() {
    let mut places = Places::default();
    let peer = |places: &mut Places, n| {
        let (id, _) = places.enter(from(1, n)).unwrap();
        places.recognize(id).unwrap();
        id
    };
    let other = peer(&mut places, 2);
    let first = peer(&mut places, 1);
    for _ in 1..MAX_PER_PEER {
        peer(&mut places, 1);
    }
    let (_, closed) = places.enter(from(1, 1)).unwrap();
    assert_eq!(closed, Some(first));
    assert!(places.taken.contains_key(&other));
    for n in 3..200 {
        peer(&mut places, n);
    }
    let waiting = places.taken.values().filter(|place| place.origin == Origin::Peer).count();
    assert_eq!((waiting, places.peers.len()), (MAX_PEERS, MAX_REMEMBERED));
}

#[test]
fn busy_places_are_limited_per_host_with_local_reserve() {
    let mut places = Places::default();
    let mut busy = |address| {
        let (id, _) = places.enter(address).unwrap();
        places.recognize(id);
        let began = places.begin(id);
        if !began {
            places.taken.remove(&id);
        }
        began
    };
    let mut count = |address| (0..400).filter(|_| busy(address)).count();
    assert_eq!(count(from(1, 1)), MAX_BUSY_PER_HOST);
    assert_eq!(count(from(1, 2)), MAX_BUSY - RESERVED_BUSY - MAX_BUSY_PER_HOST);
    assert_eq!(count(from(1, 3)), 0);
    assert_eq!(count(HERE), RESERVED_BUSY);
}

#[test]
fn dropped_guests_leave_nothing_behind() {
    let guests = Guests::default();
    let all: Vec<_> = (0..200).filter_map(|_| guests.enter(HERE)).collect();
    let is_closed =
        |closed: &mut Closed| closed.try_recv() == Err(oneshot::error::TryRecvError::Closed);
    let (mut held, mut closed): (Vec<Guest>, Vec<Closed>) = all.into_iter().unzip();
    assert_eq!(closed.iter_mut().map(is_closed).filter(|closed| *closed).count(), 200 - MAX_LOCAL);
    assert!(is_closed(&mut closed[0]) && !is_closed(&mut closed[199]));
    held.clear();
    let presence = guests.0.lock().unwrap();
    assert!(presence.places.taken.is_empty() && presence.open.is_empty());
}
