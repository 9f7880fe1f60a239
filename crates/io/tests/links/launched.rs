//! Launch times on the loopback interface: ignored by its queue, but carried.

use tautline_io::clock::now;
use tautline_io::link::Link;
use tautline_io::link::direct::DirectLink;
use tautline_io::link::event_queue::{LinkReports, event_channel};
use tautline_io::socket::launch::{LaunchClock, LaunchOptions};
use tautline_io::udp::UdpOptions;
use tautline_proto::packet::handed_bytes;
use tautline_proto::stream::Outgoing;
use tautline_proto::time::Span;

use crate::common::{collect, departure, outgoing};

#[test]
fn launch_times_reach_all_destinations_and_are_reported() {
    let local = || DirectLink::open(&UdpOptions::receiver("127.0.0.1:0".parse().unwrap())).unwrap();
    let mut receivers = [local(), local()];
    let lead = Span::from_micros(300);
    let launch = LaunchOptions {
        clock: LaunchClock::Monotonic,
        lead,
        minimum: Span::ZERO,
        ahead: Span::ZERO,
    };
    let to = receivers.iter().map(|receiver| receiver.local()).collect();
    let mut sender = DirectLink::open(&UdpOptions {
        launch: Some(launch),
        transmit_stamp_every: 2,
        batch: 3,
        ..UdpOptions::sender(to)
    })
    .unwrap();
    let (event_sender, LinkReports { mut departures, .. }) = event_channel(16);
    sender.notify(event_sender);
    let capture = now();
    for number in 0..7_u8 {
        let mut datagram = [number; 10];
        let due = capture + Span::from_millis(i64::from(number));
        let instants = departure(capture, due);
        let handed_at = Some(4);
        assert!(sender.queue(&Outgoing { instants, handed_at, ..outgoing(&mut datagram) }));
        if number % 3 == 2 {
            sender.flush();
        }
    }
    sender.flush();
    let reported: Vec<_> = std::iter::from_fn(|| departures.pop().ok()).collect();
    assert_eq!(reported.len(), 7);
    for receiver in &mut receivers {
        for (number, (got, left)) in collect(receiver, 7).iter().zip(&reported).enumerate() {
            assert_eq!(left.launched, (left.due + lead).max(left.handed), "{number}");
            let field = handed_bytes(left.handed - capture, left.launched - left.handed);
            assert_eq!(got.bytes[..4], [number as u8; 4]);
            assert_eq!(got.bytes[4..], field);
        }
    }
    let mut stamps = 0;
    let until = now() + Span::from_secs(10);
    while stamps < 4 && now() < until {
        sender.transmit_stamps(&mut |stamp| {
            assert!(stamp.left >= stamp.handed);
            stamps += 1;
        });
    }
    let counted = sender.counters();
    assert_eq!(
        (stamps, counted.sent, counted.send_errors, counted.dropped_by_queue),
        (4, 14, 0, 0)
    );
}
