//! Links on foreign sockets, and waits for arrivals.

use tautline_trial::snapshot;

use std::net::UdpSocket;

use tautline_io::clock::now;
use tautline_io::link::Link;
use tautline_io::link::awaiting::await_any;
use tautline_io::link::destinations::Destinations;
use tautline_io::link::direct::DirectLink;
use tautline_io::link::threaded::{ThreadedLink, WireOptions};
use tautline_io::thread::Scheduler;
use tautline_io::udp::UdpOptions;
use tautline_proto::time::{LocalTime, Span};

use crate::common::outgoing;

fn handed_over() -> DirectLink {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let options = UdpOptions { max_destinations: 1, ..UdpOptions::default() };
    DirectLink::over_socket(socket, &options, None).unwrap()
}

fn later() -> LocalTime {
    now() + Span::from_secs(20)
}

fn answers_where_it_is_asked_from(link: &mut dyn Link, address: std::net::SocketAddr) {
    let requests = UdpSocket::bind("127.0.0.1:0").unwrap();
    for question in 0..5u8 {
        assert!(!await_any([link.awaited(), None], LocalTime::ZERO), "nothing came yet");
        requests.send_to(&[question], address).unwrap();
        assert!(await_any([None, link.awaited()], later()));
        let mut arrived = Vec::new();
        while arrived.is_empty() {
            link.receive(&mut |datagram| arrived.push((datagram.bytes[0], datagram.arrival.from)));
        }
        assert_eq!(arrived.len(), 1);
        assert_eq!(arrived[0].0, question);
        assert!(link.set_destinations(&Destinations::one(arrived[0].1)));
        assert!(link.queue(&outgoing(&mut [question + 100])));
        link.flush();
        let mut answer = [0; 8];
        assert_eq!(requests.recv(&mut answer).unwrap(), 1);
        assert_eq!(answer[0], question + 100);
    }
}

#[test]
fn link_over_an_open_socket_answers_its_peer() {
    let mut link = handed_over();
    let address = link.local();
    answers_where_it_is_asked_from(&mut link, address);
}

#[test]
fn io_thread_wakes_the_waiting_consumer() {
    let link = handed_over();
    let address = link.local();
    let mut link = ThreadedLink::start(link, WireOptions::below(Scheduler::Other, 16)).unwrap();
    answers_where_it_is_asked_from(&mut link, address);
}

#[test]
fn earlier_arrival_ends_the_wait_immediately() {
    let link = handed_over();
    let address = link.local();
    let mut link = ThreadedLink::start(link, WireOptions::below(Scheduler::Other, 16)).unwrap();
    let requests = UdpSocket::bind("127.0.0.1:0").unwrap();
    requests.send_to(&[1], address).unwrap();
    while link.counters().received == 0 {
        std::thread::yield_now();
    }
    assert!((0..2).all(|_| await_any([link.awaited()], later())));
}

#[test]
fn non_socket_descriptor_is_refused() {
    let file = std::fs::File::open("/dev/null").unwrap();
    let Err(error) = DirectLink::over_socket(file, &UdpOptions::default(), None) else {
        panic!("it was taken over");
    };
    snapshot!(error);
}
