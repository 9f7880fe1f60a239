//! A link's reports to the ordinary thread.

use crate::common::outgoing;
use tautline_io::link::Link;
use tautline_io::link::direct::DirectLink;
use tautline_io::link::event_queue::{LinkEvent, event_channel};
use tautline_io::udp::UdpOptions;

#[test]
fn repeated_error_is_reported_once() {
    // More than a UDP datagram.
    let datagram_bytes = 70_000;
    let receiver = DirectLink::open(&UdpOptions::receiver("127.0.0.1:0".parse().unwrap())).unwrap();
    let to = vec![receiver.local()];
    let options = UdpOptions { datagram_bytes, ..UdpOptions::sender(to) };
    let mut sender = DirectLink::open(&options).unwrap();
    let (event_sender, mut reported) = event_channel(4);
    sender.notify(event_sender);
    for len in [1, datagram_bytes, datagram_bytes] {
        sender.queue(&outgoing(&mut vec![0; len]));
        sender.flush();
    }
    assert_eq!(sender.counters().send_errors, 2);
    assert_eq!(reported.events.pop().unwrap(), LinkEvent::Error(libc::EMSGSIZE));
    assert!(reported.events.pop().is_err());
}
