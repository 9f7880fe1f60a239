//! Each datagram is finalised and encrypted once.

use std::net::{SocketAddr, UdpSocket};

use crate::common::{collect, departure, outgoing, sender_to};
use tautline_io::clock::now;
use tautline_io::link::direct::DirectLink;
use tautline_io::link::event_queue::{LinkReports, event_channel};
use tautline_io::link::threaded::{ThreadedLink, WireOptions};
use tautline_io::link::{Link, Pollable};
use tautline_io::socket::seal::Seal;
use tautline_io::thread::Scheduler;
use tautline_io::udp::UdpOptions;
use tautline_proto::packet::handed_bytes;
use tautline_proto::stream::Outgoing;
use tautline_proto::time::{LocalTime, Span};

/// Inverts all bits, and appends a count.
#[derive(Default)]
struct Counting(u32);

const ROOM: usize = 4;

impl Seal for Counting {
    fn room(&self) -> usize {
        ROOM
    }

    fn seal(&mut self, bytes: &mut [u8], len: usize) -> usize {
        self.0 += 1;
        bytes[..len].iter_mut().for_each(|byte| *byte = !*byte);
        bytes[len..len + ROOM].copy_from_slice(&self.0.to_be_bytes());
        len + ROOM
    }

    fn open<'a>(&mut self, bytes: &'a mut [u8]) -> Option<&'a [u8]> {
        let (inside, number) = bytes.split_last_chunk_mut::<ROOM>()?;
        self.0 += 1;
        if u32::from_be_bytes(*number) != self.0 {
            return None;
        }
        inside.iter_mut().for_each(|byte| *byte = !*byte);
        Some(inside)
    }
}

fn sealed(options: &UdpOptions) -> DirectLink {
    DirectLink::open_sealed(options, Some(Box::<Counting>::default())).unwrap()
}

fn receiver_options() -> UdpOptions {
    UdpOptions::receiver("127.0.0.1:0".parse().unwrap())
}

fn wires<const COUNT: usize>() -> [(UdpSocket, SocketAddr); COUNT] {
    [(); COUNT].map(|()| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        let address = socket.local_addr().unwrap();
        (socket, address)
    })
}

fn read(socket: &UdpSocket) -> Vec<u8> {
    let mut room = [0; 2000];
    let len = socket.recv(&mut room).unwrap();
    room[..len].to_vec()
}

/// A packet due immediately, with its hand-over time in its first six bytes.
fn stamped(link: &mut impl Link, number: u8) {
    with_another(link, number, None);
}

/// The same, with a retransmission of the one `again` packets before.
fn with_another(link: &mut (impl Link + ?Sized), number: u8, again: Option<usize>) {
    let mut datagram = [number; 10];
    let instants = departure(now() - Span::from_millis(1), LocalTime::ZERO);
    let handed_at = Some(0);
    assert!(link.queue(&Outgoing { datagram: &mut datagram, instants, handed_at, again }));
}

#[test]
fn packet_is_encrypted_once_for_all_destinations() {
    let all = wires::<5>();
    let to = |range: core::ops::Range<usize>| all[range].iter().map(|(_, to)| *to).collect();
    let by_loopback = |destinations| UdpOptions {
        interface: Some("lo".into()),
        ..UdpOptions::sender(destinations)
    };
    let also = Some(Box::new(by_loopback(to(3..5))));
    let mut sender = sealed(&UdpOptions { also, ..by_loopback(to(0..3)) });
    for batch in 0..4u8 {
        for number in 0..3 {
            stamped(&mut sender, 3 * batch + number);
        }
        sender.flush();
    }
    for number in 0..12u8 {
        let first = read(&all[0].0);
        assert_eq!(first[6..10], [!number; 4]);
        assert_eq!(first[10..], u32::from(number + 1).to_be_bytes(), "sealed more than once");
        for (socket, to) in &all[1..] {
            assert_eq!(read(socket), first, "the same bytes go to {to}");
        }
    }
    assert_eq!(sender.counters().sent, 60);
    assert_eq!(sender.counters().also, (24, 0));
}

#[test]
fn retransmission_has_the_same_encrypted_bytes() {
    for (at_a_time, ringed) in [(1, false), (4, false), (1, true), (4, true)] {
        let [(socket, to)] = wires();
        let mut direct = sealed(&UdpOptions::sender(vec![to]));
        let (event_sender, LinkReports { mut departures, .. }) = event_channel(64);
        direct.notify(event_sender);
        let mut link: Box<dyn Link> = match ringed {
            true => {
                let wire = WireOptions::below(Scheduler::Other, 64);
                Box::new(ThreadedLink::start(direct, wire).unwrap())
            }
            false => Box::new(direct),
        };
        for number in 0..20 {
            with_another(&mut *link, number, Some(2));
            if (number + 1) % at_a_time == 0 {
                link.flush();
            }
        }
        let all: Vec<_> = (0..38).map(|_| read(&socket)).collect();
        for number in 0..20u8 {
            let sent: Vec<_> = all.iter().filter(|bytes| bytes[6] == !number).collect();
            let (seal, times) = (u32::from(number) + 1, if number < 18 { 2 } else { 1 });
            assert_eq!(sent[0][10..], seal.to_be_bytes(), "sealed more than once");
            assert_eq!(sent, vec![sent[0]; times], "the same bytes are sent again");
        }
        drop(link);
        let reported: Vec<_> = std::iter::from_fn(|| departures.pop().ok()).collect();
        assert_eq!(reported.len(), 38);
        assert!(reported.windows(2).all(|two| two[0].handed <= two[1].handed));
    }
}

#[test]
fn decrypted_packet_contains_the_hand_over_time() {
    let mut receiver = sealed(&receiver_options());
    let options = UdpOptions::sender(vec![receiver.local()]);
    let mut direct = sealed(&options);
    let (event_sender, LinkReports { mut departures, .. }) = event_channel(4);
    direct.notify(event_sender);
    let wire = WireOptions::below(Scheduler::Other, options.ring_packets());
    let mut sender = ThreadedLink::start(direct, wire).unwrap();
    stamped(&mut sender, 7);
    assert!(sender.queue(&outgoing(&mut [9; 1472])));
    sender.flush();
    let got = collect(&mut receiver, 2);
    // Reported shortly after the packet has left.
    let left = std::iter::repeat_with(|| departures.pop().ok()).flatten().next().unwrap();
    let field = handed_bytes(left.handed - left.capture, Span::ZERO);
    assert_eq!((&got[0].bytes[..6], &got[0].bytes[6..]), (&field[..], &[7; 4][..]));
    assert_eq!(got[1].bytes, [9; 1472]);
    assert!(!got[1].truncated);
}

#[test]
fn undecryptable_datagrams_are_dropped_and_counted() {
    let mut receiver = sealed(&receiver_options());
    let to = receiver.local();
    let mut stranger = sender_to(to);
    stranger.queue(&outgoing(&mut [1]));
    stranger.queue(&outgoing(&mut [0, 0, 0, 0, 1, 2]));
    stranger.flush();
    let mut forged = [!5, !5, 0, 0, 0, 2];
    stranger.queue(&outgoing(&mut forged));
    stranger.flush();
    let got = collect(&mut receiver, 1);
    assert_eq!(got[0].bytes, [5, 5]);
    assert_eq!((receiver.counters().auth_failed, receiver.counters().received), (2, 1));
}

#[test]
fn packet_written_in_place_equals_a_copied_one() {
    for ringed in [false, true] {
        let [(socket, to)] = wires();
        let direct = sealed(&UdpOptions::sender(vec![to]));
        let maximum = direct.datagram_bytes();
        let mut link: Box<dyn Link> = match ringed {
            true => {
                let wire = WireOptions::below(Scheduler::Other, 64);
                Box::new(ThreadedLink::start(direct, wire).unwrap())
            }
            false => Box::new(direct),
        };
        let instants = departure(now(), LocalTime::ZERO);
        // The last is harmlessly large.
        for (number, room) in [(0, maximum), (1, maximum), (2, maximum + 1)] {
            let mut room = vec![99; room];
            let mut write = |place: &mut [u8]| {
                place[..7].fill(number);
                Some(7)
            };
            assert_eq!(link.queue_written(instants, &mut room, &mut write), Some(7));
            let in_place = room[..7] == [99; 7];
            assert_eq!(in_place, !ringed && room.len() == maximum, "a copy was to be spared");
            assert_eq!(link.queue_written(instants, &mut room, &mut |_| None), None);
            assert!(link.queue(&outgoing(&mut [100 + number; 5])));
        }
        link.flush();
        for seal in 1..=6u32 {
            let number = (seal as u8 - 1) / 2;
            let inside = if seal % 2 == 1 { vec![!number; 7] } else { vec![!(100 + number); 5] };
            assert_eq!(read(&socket), [inside, seal.to_be_bytes().to_vec()].concat());
        }
        assert_eq!(link.counters().dropped, 0);
    }
}

#[test]
fn written_packet_without_room_is_counted_as_dropped() {
    let [(socket, to)] = wires();
    let mut link = sealed(&UdpOptions::sender(vec![to]));
    let (instants, mut room) = (departure(now(), LocalTime::ZERO), vec![0; link.datagram_bytes()]);
    let mut queued = 0;
    while link.counters().dropped == 0 {
        let write = &mut |place: &mut [u8]| {
            place[0] = 5;
            Some(1)
        };
        assert_eq!(link.queue_written(instants, &mut room, write), Some(1));
        queued += 1;
    }
    link.flush();
    for _ in 1..queued {
        assert_eq!(read(&socket)[0], !5);
    }
    assert_eq!((link.counters().sent, link.counters().dropped), (queued - 1, 1));
}
