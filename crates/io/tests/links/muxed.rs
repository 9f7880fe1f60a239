//! RTP and RTCP over one transport, exchanged meanwhile.

use std::net::{SocketAddr, UdpSocket};

use tautline_io::clock::now;
use tautline_io::control::{Control, wait};
use tautline_io::link::event_queue::{LinkReports, event_channel};
use tautline_io::link::muxed::{
    FarAddress, Muxed, MuxedControl, MuxedTransport, Seals, is_report, muxed,
};
use tautline_io::link::threaded::{ThreadedLink, WireOptions};
use tautline_io::link::{Link, LinkCounters};
use tautline_io::socket::seal::Seal;
use tautline_io::tcp::TcpOptions;
use tautline_io::thread::Scheduler;
use tautline_io::udp::UdpOptions;
use tautline_proto::endpoint::Endpoint;
use tautline_proto::time::{LocalTime, Span};

use crate::common::outgoing;
use crate::tcp::connected;

/// XORs with a key and appends it. Opens only its own key.
struct Keyed(u8);

impl Seal for Keyed {
    fn room(&self) -> usize {
        1
    }

    fn seal(&mut self, bytes: &mut [u8], len: usize) -> usize {
        bytes[..len].iter_mut().for_each(|byte| *byte ^= self.0);
        bytes[len] = self.0;
        len + 1
    }

    fn open<'a>(&mut self, bytes: &'a mut [u8]) -> Option<&'a [u8]> {
        let (tag, inside) = bytes.split_last_mut()?;
        inside.iter_mut().for_each(|byte| *byte ^= self.0);
        (*tag == self.0).then_some(inside)
    }
}

fn seals(key: u8) -> Seals {
    let seal = || Some(Box::new(Keyed(key)) as Box<dyn Seal>);
    Seals { sending: seal(), receiving: seal(), reports: [seal(), seal()] }
}

pub(crate) const FAR: Endpoint = Endpoint::Connection(7);

fn udp(far: FarAddress, key: u8) -> (MuxedTransport, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    (MuxedTransport::udp(socket, &UdpOptions::default(), far, seals(key)).unwrap(), address)
}

pub(crate) fn end_with(line: MuxedTransport) -> Muxed {
    let mut end = muxed(1472, FAR).unwrap();
    end.switch.exchange(line);
    end
}

pub(crate) fn packet(number: u16) -> Vec<u8> {
    let [a, b] = number.to_be_bytes();
    vec![0x80, 96, a, b, 0, 0, 0, 0, 1, 2, 3, 4, a, b]
}

pub(crate) fn report(number: u8) -> Vec<u8> {
    vec![0x80, 201, 0, 1, 0, 0, 0, number]
}

pub(crate) fn send(link: &mut impl Link, number: u16) -> bool {
    let queued = link.queue(&outgoing(&mut packet(number)));
    link.flush();
    queued
}

pub(crate) fn received(link: &mut (impl Link + ?Sized)) -> Vec<u16> {
    let mut all = Vec::new();
    link.receive(&mut |datagram| {
        assert!(!is_report(datagram.bytes), "reports are for the control channels");
        assert_eq!(datagram.arrival.from, FAR);
        assert!(datagram.arrival.at <= datagram.arrival.read);
        all.push(u16::from_be_bytes([datagram.bytes[12], datagram.bytes[13]]));
    });
    all
}

/// Reports delivered by `control`; counts kernel timestamps.
fn reported(control: &mut MuxedControl, stamped: &mut usize) -> Vec<u8> {
    let mut all = Vec::new();
    control.receive(&mut |datagram| {
        assert!(is_report(datagram.bytes));
        assert_eq!(datagram.arrival.from, FAR);
        *stamped += usize::from(datagram.arrival.uncertainty < Span::MAX);
        all.push(datagram.bytes[7]);
    });
    all
}

pub(crate) fn until(what: &str, mut comes_true: impl FnMut() -> bool) {
    let timeout = now() + Span::from_secs(10);
    while !comes_true() {
        assert!(now() < timeout, "{what}");
        std::thread::yield_now();
    }
}

/// Forwards datagrams from its current address.
struct Nat {
    inside: UdpSocket,
    outside: UdpSocket,
    client: Option<SocketAddr>,
    server: SocketAddr,
}

impl Nat {
    fn to(server: SocketAddr) -> Self {
        let [inside, outside] = [(); 2].map(|()| Self::port());
        Self { inside, outside, client: None, server }
    }

    fn port() -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    }

    fn change_port(&mut self) {
        self.outside = Self::port();
    }

    fn pass_on(&mut self) {
        let mut room = [0; 2000];
        while let Ok((len, from)) = self.inside.recv_from(&mut room) {
            self.client = Some(from);
            self.outside.send_to(&room[..len], self.server).unwrap();
        }
        while let Ok((len, from)) = self.outside.recv_from(&mut room) {
            assert_eq!(from, self.server);
            let Some(client) = self.client else { continue };
            self.inside.send_to(&room[..len], client).unwrap();
        }
    }
}

#[test]
fn muxed_link_follows_a_nat_but_no_forger() {
    let (line, server_address) = udp(FarAddress::Newest, 5);
    let mut server = end_with(line);
    let mut nat = Nat::to(server_address);
    let (line, _) = udp(FarAddress::At(nat.inside.local_addr().unwrap()), 5);
    let mut client = end_with(line);
    assert!(!send(&mut server.sending, 1), "the peer is not known yet");
    assert_eq!(server.sending.counters().let_go, 1);
    assert!(server.controls[0].send(&report(1), FAR).is_err());

    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (mut kept, mut stamped) = (Vec::new(), 0);
    for round in 0..20u16 {
        if round % 4 == 3 {
            nat.change_port();
        }
        assert!(send(&mut client.sending, round));
        let mut arrived = Vec::new();
        until("the client's packet came", || {
            nat.pass_on();
            arrived.extend(received(&mut server.receiving));
            !arrived.is_empty()
        });
        assert_eq!(arrived, [round]);
        assert_eq!(server.switch.far_end(), nat.outside.local_addr().ok());
        let mut forged = [packet(1000), packet(1001), packet(round.saturating_sub(1))];
        for (datagram, key) in forged.iter_mut().zip([0, 6, 5]).skip(usize::from(round % 2)) {
            let len = datagram.len();
            datagram.push(0);
            if key > 0 {
                Keyed(key).seal(datagram, len);
            }
            stranger.send_to(datagram, server_address).unwrap();
        }
        let before = server.receiving.counters();
        let auth_failed = before.auth_failed + 2 - u64::from(round % 2);
        until("the forged ones came", || {
            kept.extend(received(&mut server.receiving));
            let counters = server.receiving.counters();
            counters.auth_failed == auth_failed && counters.received == before.received + 1
        });
        assert_eq!(server.switch.far_end(), nat.outside.local_addr().ok(), "round {round}");
        assert!(send(&mut server.sending, 100 + round));
        let number = round as u8;
        for (index, control) in server.controls.iter_mut().enumerate() {
            control.send(&report(2 * number + index as u8), Endpoint::UNKNOWN).unwrap();
        }
        client.controls[1].send(&report(100 + number), Endpoint::UNKNOWN).unwrap();
        let (mut back, mut reports) = (Vec::new(), [(); 4].map(|()| Vec::new()));
        until("all came back", || {
            nat.pass_on();
            back.extend(received(&mut client.receiving));
            assert_eq!(received(&mut server.receiving), []);
            let controls = client.controls.iter_mut().chain(&mut server.controls);
            controls
                .zip(&mut reports)
                .for_each(|(control, all)| all.extend(reported(control, &mut stamped)));
            back.len() == 1 && reports.iter().map(Vec::len).sum::<usize>() == 6
        });
        assert_eq!(back, [100 + round]);
        let both = vec![2 * number, 2 * number + 1];
        assert_eq!(reports, [both.clone(), both, vec![100 + number], vec![100 + number]]);
    }
    assert!(stamped > 0, "stamps come along");
    assert!(server.switch.stop_sending());
    assert!(!send(&mut server.sending, 200) && server.switch.far_end().is_none());
    assert!(send(&mut client.sending, 20));
    until("the next packet is answered", || {
        nat.pass_on();
        !received(&mut server.receiving).is_empty() && send(&mut server.sending, 201)
    });
    assert_eq!(kept.len(), 20, "a copy is delivered but does not redirect the sender");
    let LinkCounters { received, foreign, .. } = client.receiving.counters();
    assert_eq!((received, foreign), (20, 0));
}

#[test]
fn known_peer_is_received_exclusively_and_can_change() {
    let others = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let [first, second] = others.each_ref().map(|other| other.local_addr().unwrap());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let here = socket.local_addr().unwrap();
    let options = UdpOptions::default();
    let mut end = end_with(
        MuxedTransport::udp(socket, &options, FarAddress::At(first), Seals::default()).unwrap(),
    );
    for (round, at) in [first, second, first].into_iter().enumerate() {
        let number = round as u16;
        if round > 0 {
            assert!(end.switch.redirect(at));
        }
        assert!(send(&mut end.sending, number));
        end.controls[0].send(&report(9), Endpoint::UNKNOWN).unwrap();
        let other = &others[usize::from(at == second)];
        let mut room = [0; 100];
        assert_eq!(other.recv(&mut room).unwrap(), packet(0).len());
        assert_eq!(other.recv(&mut room).unwrap(), report(0).len());
        others.iter().for_each(|other| assert!(other.send_to(&packet(number), here).is_ok()));
        let mut arrived = Vec::new();
        until("one came and one was foreign", || {
            arrived.extend(received(&mut end.receiving));
            arrived.len() == round % 2 + 1 - round % 2 && {
                let LinkCounters { foreign, .. } = end.receiving.counters();
                foreign == round as u64 + 1
            }
        });
        assert_eq!(arrived, [number]);
    }
    use tautline_io::link::destinations::Destinations;
    assert!(end.sending.set_destinations(&Destinations::one(second.into())));
    assert_eq!(end.switch.far_end(), Some(second));
    assert!(!end.sending.set_destinations(&Destinations::new(&[first, second]).unwrap()));
    assert!(!end.sending.set_destinations(&Destinations::one(FAR)));
}

#[test]
fn exchanged_transports_deliver_once_and_in_order() {
    for ringed in [false, true] {
        let (left, right) = (muxed(1472, FAR).unwrap(), muxed(1472, FAR).unwrap());
        let (mut switches, wire) =
            ([left.switch, right.switch], || WireOptions::below(Scheduler::Other, 256));
        let (mut sending, mut receiving): (Box<dyn Link>, Box<dyn Link>) = match ringed {
            true => (
                Box::new(ThreadedLink::start(left.sending, wire()).unwrap()),
                Box::new(ThreadedLink::start(right.receiving, wire()).unwrap()),
            ),
            false => (Box::new(left.sending), Box::new(right.receiving)),
        };
        let (event_sender, LinkReports { mut departures, .. }) = event_channel(4096);
        sending.notify(event_sender);
        let (mut arrived, mut left_at) = (Vec::new(), Vec::new());
        for number in 0..2000u16 {
            if number % 100 == 0 {
                // Unknown when wire threads run.
                until("something came by this line", || {
                    arrived.extend(received(&mut *receiving));
                    number == 0 || arrived.last() >= Some(&(number - 100))
                });
                let lines = lines(number / 100);
                switches.iter_mut().zip(lines).for_each(|(switch, line)| switch.exchange(line));
            }
            until("there is room", || sending.queue(&outgoing(&mut packet(number))));
            sending.flush();
            arrived.extend(received(&mut *receiving));
            left_at.extend(std::iter::from_fn(|| departures.pop().ok()));
        }
        until("the last came", || {
            arrived.extend(received(&mut *receiving));
            arrived.last() == Some(&1999)
        });
        assert!(arrived.windows(2).all(|two| two[0] < two[1]), "{ringed}: {arrived:?}");
        let brought = |line: u16| arrived.iter().any(|number| number / 100 == line);
        assert!((0..20).all(brought), "{ringed}: {arrived:?}");
        until("departures of all transports were reported", || {
            left_at.extend(std::iter::from_fn(|| departures.pop().ok()));
            left_at.len() == 2000
        });
        let counters = receiving.counters();
        assert_eq!(counters.received, arrived.len() as u64 + counters.ring_drops, "{counters:?}");
        until("all were counted", || sending.counters().sent == 2000);
    }
}

fn lines(turn: u16) -> [MuxedTransport; 2] {
    let key = turn as u8 + 1;
    if turn % 2 == 1 {
        return connected().map(|stream| {
            MuxedTransport::tcp(stream, &TcpOptions::default(), seals(key)).unwrap().0
        });
    }
    let [left, right] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let [to_left, to_right] = [&left, &right].map(|socket| socket.local_addr().unwrap());
    let options = UdpOptions::default();
    let line =
        |socket, to| MuxedTransport::udp(socket, &options, FarAddress::At(to), seals(key)).unwrap();
    [line(left, to_right), line(right, to_left)]
}

#[test]
fn wait_for_reports_ends_when_an_io_thread_brings_one() {
    let [left, right] = lines(1);
    let (mut left, right) = (end_with(left), end_with(right));
    let _receiving =
        ThreadedLink::start(right.receiving, WireOptions::below(Scheduler::Other, 16)).unwrap();
    let [mut one, mut other] = right.controls;
    assert!(!wait(&[&one], LocalTime::ZERO));
    left.controls[0].send(&report(3), Endpoint::UNKNOWN).unwrap();
    for control in [&mut one, &mut other] {
        assert!(wait(&[&*control], now() + Span::from_secs(10)));
        assert_eq!(reported(control, &mut 0), [3]);
        assert!(!wait(&[&*control], LocalTime::ZERO));
    }
}
