//! The relay between real sockets.

#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene has failed")]

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use tautline_lab::impair::{PortReport, Relay, RelayOptions};
use tautline_proto::time::Span;
use tautline_sim::link::{Loss, PathModel};

const TIMEOUT: Duration = Duration::from_secs(30);

fn socket(port: u16) -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket
}

/// Adjacent free UDP ports.
fn pair() -> (UdpSocket, UdpSocket) {
    for _ in 0..1000 {
        let media = socket(0);
        let above = media.local_addr().unwrap().port().checked_add(1);
        let control = above.and_then(|above| UdpSocket::bind((Ipv4Addr::LOCALHOST, above)).ok());
        if let Some(control) = control {
            control.set_read_timeout(Some(TIMEOUT)).unwrap();
            return (media, control);
        }
    }
    panic!("no two neighbouring UDP ports are free");
}

fn relay_to(far: &UdpSocket, change: impl FnOnce(&mut RelayOptions)) -> (Relay, [SocketAddr; 2]) {
    let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut options = RelayOptions::between(anywhere, far.local_addr().unwrap());
    change(&mut options);
    let relay = Relay::start(&options).unwrap();
    let media = relay.address();
    (relay, [media, SocketAddr::new(media.ip(), media.port() + 1)])
}

fn read(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut bytes = [0; 2048];
    let (len, source) = socket.recv_from(&mut bytes).unwrap();
    (bytes[..len].to_vec(), source)
}

#[test]
fn both_ports_are_relayed_and_answers_reach_the_last_sender() {
    let (media, control) = pair();
    let (relay, [to_media, to_control]) = relay_to(&media, |_| {});
    let (first, last) = (socket(0), socket(0));
    first.send_to(b"sound", to_media).unwrap();
    assert_eq!(read(&media).0, b"sound");
    for sender in [&first, &last] {
        sender.send_to(b"report", to_control).unwrap();
        let (bytes, source) = read(&control);
        assert_eq!(bytes, b"report");
        control.send_to(b"answer", source).unwrap();
        let (bytes, source) = read(sender);
        assert_eq!((bytes.as_slice(), source), (&b"answer"[..], to_control));
    }
    let report = relay.stop().unwrap();
    let counted = |port: PortReport| (port.received, port.released);
    assert_eq!(counted(report.there.media), (1, 1), "{report}");
    assert_eq!(counted(report.there.control), (2, 2), "{report}");
    assert_eq!(counted(report.back.control), (2, 2), "{report}");
}

#[test]
fn nothing_leaves_before_its_delay() {
    let (media, _control) = pair();
    let delay = Span::from_millis(30);
    let (relay, [to, _]) = relay_to(&media, |options| options.there.delay = delay);
    let sender = socket(0);
    for _ in 0..5 {
        let sent = Instant::now();
        sender.send_to(b"sound", to).unwrap();
        read(&media);
        assert!(sent.elapsed() >= Duration::from_millis(30), "{:?}", sent.elapsed());
    }
    let report = relay.stop().unwrap();
    assert!(report.lateness.min_ns.unwrap() >= 0, "{report}");
}

#[test]
fn losses_of_the_relay_are_counted() {
    let (media, control) = pair();
    let (relay, [to, to_control]) = relay_to(&media, |options| {
        options.there = PathModel { loss: Loss::random(0.2), ..options.there.clone() };
        options.seed = 7;
    });
    let sender = socket(0);
    for number in 0..200_u16 {
        sender.send_to(&number.to_be_bytes(), to).unwrap();
    }
    // Reports may be lost: repeats the end.
    control.set_nonblocking(true).unwrap();
    let mut ended = [0; 8];
    let begun = Instant::now();
    while control.recv(&mut ended).is_err() {
        assert!(begun.elapsed() < TIMEOUT, "no report came");
        sender.send_to(b"end", to_control).unwrap();
        std::thread::yield_now();
    }
    media.set_nonblocking(true).unwrap();
    let mut bytes = [0; 8];
    let arrived = std::iter::from_fn(|| media.recv(&mut bytes).ok()).count();
    let report = relay.stop().unwrap();
    assert!((130..190).contains(&arrived), "{arrived} of 200 came; {report}");
    let there = report.there.media;
    assert_eq!((there.received, there.released), (200, arrived as u64), "{report}");
    assert_eq!(there.lost, 200 - there.released, "{report}");
    assert!(report.to_json().unwrap().contains("\"experiment\": \"impair\""));
}
