//! Claims of other versions than this one: a relay on the way rewrites them. The expected bytes are
//! those of the wire reference, independent of the writer.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use super::{Outcome, PAGE, page_to, play_music, send_page, zone};
use crate::common::Road;
use tautline_proto::time::Span;

/// Header of the APP packet, and the fields before the targets.
const APP: usize = 12;
const HEAD: usize = 52;

/// As version 1 writes it: neither flags nor fields that later versions add.
fn as_first_version(claim: &mut Vec<u8>) {
    claim[APP] = 1;
    claim[APP + 1] &= 1;
    let targets = usize::from(u16::from_be_bytes([claim[APP + 6], claim[APP + 7]]));
    claim.truncate((APP + HEAD + 2 * targets).next_multiple_of(4));
}

/// As a later version may write it.
fn as_later_version(claim: &mut Vec<u8>) {
    claim[APP] = 9;
    claim[APP + 1] |= 0xFE;
    claim.extend([0xEE; 200]);
}

/// A station's way to an announcement port: both ports, and the reports back.
struct Relay {
    address: SocketAddr,
    rewritten: Arc<AtomicUsize>,
}

impl Relay {
    fn to(port: SocketAddr, rewrite: fn(&mut Vec<u8>)) -> Self {
        let bind = |port| UdpSocket::bind(("127.0.0.1", port));
        let [sound, reports] = core::iter::repeat_with(|| {
            let sound = bind(0).ok()?;
            let reports = bind(sound.local_addr().ok()?.port().checked_add(1)?).ok()?;
            Some([sound, reports])
        })
        .flatten()
        .next()
        .unwrap();
        let (address, rewritten) = (sound.local_addr().unwrap(), Arc::default());
        let next = SocketAddr::new(port.ip(), port.port() + 1);
        for (socket, to) in [(sound, port), (reports, next)] {
            let alive = Arc::downgrade(&rewritten);
            thread::spawn(move || carry(&socket, to, rewrite, &alive));
        }
        Self { address, rewritten }
    }
}

/// Ends with the relay.
fn carry(
    socket: &UdpSocket,
    to: SocketAddr,
    rewrite: fn(&mut Vec<u8>),
    rewritten: &Weak<AtomicUsize>,
) {
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let (mut station, mut buffer) = (None, [0; 2048]);
    while let Some(rewritten) = rewritten.upgrade() {
        let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
        let mut datagram = buffer[..length].to_vec();
        // APP (204) of subtype 7, in a datagram of its own.
        let is_claim = datagram.starts_with(&[0x87, 204]) && datagram.get(8..12) == Some(b"taut");
        if from != to && is_claim {
            rewrite(&mut datagram);
            let words = datagram.len() / 4 - 1;
            datagram[2..4].copy_from_slice(&(words as u16).to_be_bytes());
            rewritten.fetch_add(1, Ordering::Relaxed);
        }
        let next = if from == to { station } else { Some(to) };
        station = if from == to { station } else { Some(from) };
        if let Some(next) = next {
            let _ = socket.send_to(&datagram, next);
        }
    }
}

/// What two zones play of a page whose claims these functions rewrite.
fn outcomes(rewrite: [fn(&mut Vec<u8>); 2]) -> [Outcome; 2] {
    let road = Road::default();
    let mut zones = [zone(1, &road), zone(2, &road)];
    let playing = play_music(&road, &zones, Span::from_millis(2_000));
    let mut relays = Vec::new();
    for (zone, rewrite) in zones.iter_mut().zip(rewrite) {
        let relay = Relay::to(zone.ports[1], rewrite);
        zone.ports[1] = relay.address;
        relays.push(relay);
    }
    let page = Road { lasts: Span::from_millis(400), ..road.clone() };
    let (first, _began) = std::sync::mpsc::channel();
    send_page(&page, &zones, Some(page_to(vec![100])), PAGE, first).join().unwrap();
    playing.join().unwrap();
    assert!(relays.iter().all(|relay| relay.rewritten.load(Ordering::Relaxed) > 2));
    zones.map(Outcome::of)
}

mod exclusive {
    //! The result is a function of time (decision 25).

    use super::*;
    use tautline_trial::steady;

    #[test]
    fn page_of_an_older_or_newer_station_plays() {
        steady(|| {
            for outcome in outcomes([as_first_version, as_later_version]) {
                let notes = &outcome.report.notes;
                let (_, frames) = outcome.page().unwrap_or_else(|| panic!("no page: {notes:?}"));
                assert!((16_000..24_000).contains(&frames), "{frames}: {notes:?}");
                assert!(outcome.lowered().is_some(), "{notes:?}");
            }
        });
    }

    #[test]
    fn claim_without_a_known_version_plays_nothing() {
        steady(|| {
            for outcome in outcomes([|claim: &mut Vec<u8>| claim[APP] = 0; 2]) {
                assert_eq!((outcome.lowered(), outcome.page()), (None, None));
            }
        });
    }
}
