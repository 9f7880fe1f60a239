//! The wire thread on real sockets.

use crate::common::{collect, departure, outgoing, sender_to};
use rtrb::Consumer;
use tautline_io::clock::now;
use tautline_io::link::Link;
use tautline_io::link::destinations::Destinations;
use tautline_io::link::direct::DirectLink;
use tautline_io::link::event_queue::{LinkReports, event_channel};
use tautline_io::link::threaded::{Spacing, ThreadedLink, WireOptions};
use tautline_io::thread::Scheduler;
use tautline_io::udp::UdpOptions;
use tautline_proto::ledger::Departure;
use tautline_proto::packet::handed_bytes;
use tautline_proto::stream::Outgoing;
use tautline_proto::time::{LocalTime, Span};

fn receiver_options() -> UdpOptions {
    UdpOptions::receiver("127.0.0.1:0".parse().unwrap())
}

fn ringed(options: &UdpOptions, ring_packets: usize) -> (ThreadedLink, std::net::SocketAddr) {
    let direct = DirectLink::open(options).unwrap();
    let local = direct.local();
    let wire =
        WireOptions { scheduler: Scheduler::Other, ring_packets, spacing: Spacing::default() };
    (ThreadedLink::start(direct, wire).unwrap(), local)
}

fn recording_sender(to: std::net::SocketAddr) -> (ThreadedLink, Consumer<Departure>) {
    spacing_sender(to, Spacing::default())
}

fn spacing_sender(
    to: std::net::SocketAddr,
    spacing: Spacing,
) -> (ThreadedLink, Consumer<Departure>) {
    let options = UdpOptions::sender(vec![to]);
    let mut direct = DirectLink::open(&options).unwrap();
    let (event_sender, LinkReports { departures, .. }) = event_channel(64);
    direct.notify(event_sender);
    let wire = WireOptions::below(Scheduler::Fifo(50), options.ring_packets());
    (ThreadedLink::start(direct, WireOptions { spacing, ..wire }).unwrap(), departures)
}

#[test]
fn late_packets_respect_the_hand_over_limit() {
    let mut receiver = DirectLink::open(&receiver_options()).unwrap();
    let spacing = Spacing { together: 2, lead: Span::ZERO };
    let (mut sender, mut departures) = spacing_sender(receiver.local(), spacing);
    for number in 0..6_u8 {
        assert!(sender.queue(&outgoing(&mut [number; 60])));
    }
    sender.flush();
    let got = collect(&mut receiver, 6);
    assert_eq!(got.len(), 6);
    let mut handed: Vec<_> = (0..6).map(|_| departed(&mut departures).handed).collect();
    handed.dedup();
    assert_eq!(handed.len(), 3, "each hand-over has an instant of its own");
}

#[test]
fn limited_hand_over_never_mixes_two_periods() {
    let mut receiver = DirectLink::open(&receiver_options()).unwrap();
    let spacing = Spacing { together: 3, lead: Span::ZERO };
    let (mut sender, mut departures) = spacing_sender(receiver.local(), spacing);
    let start = now() + Span::from_millis(20);
    for number in 0..12_u8 {
        let mut datagram = [number; 60];
        let due = start + Span::from_micros(125 * i64::from(number));
        let instants = departure(start, due);
        let packet = Outgoing { instants, ..outgoing(&mut datagram) };
        assert!(sender.queue(&packet));
        if number % 4 == 3 {
            sender.flush();
        }
    }
    collect(&mut receiver, 12);
    let left: Vec<_> = (0..12).map(|_| departed(&mut departures)).collect();
    let handed: Vec<usize> =
        left.chunk_by(|one, next| one.handed == next.handed).map(<[Departure]>::len).collect();
    assert_eq!(handed, [3, 1, 3, 1, 3, 1], "{left:?}");
}

#[test]
fn packets_of_one_period_leave_at_their_own_times() {
    let mut receiver = DirectLink::open(&receiver_options()).unwrap();
    let (mut sender, mut departures) = recording_sender(receiver.local());
    let start = now() + Span::from_millis(2);
    let dues: Vec<LocalTime> = (0..5).map(|n| start + Span::from_millis(n)).collect();
    for (number, due) in dues.iter().enumerate() {
        let instants = departure(start, *due);
        let mut datagram = [number as u8; 10];
        let handed_at = Some(4);
        assert!(sender.queue(&Outgoing { instants, handed_at, ..outgoing(&mut datagram) }));
    }
    sender.flush();
    let got = collect(&mut receiver, 5);
    let left: Vec<_> = (0..5).map(|_| departed(&mut departures)).collect();
    for (number, ((due, got), left)) in dues.iter().zip(&got).zip(left).enumerate() {
        assert_eq!(left.due, *due);
        assert!(left.handed >= *due, "{number} left {} early", *due - left.handed);
        assert!(got.arrival + got.uncertainty >= left.handed);
        let field = handed_bytes(left.handed - start, Span::ZERO);
        assert_eq!(got.bytes[..4], [number as u8; 4]);
        assert_eq!(got.bytes[4..], field);
    }
}

#[test]
fn packets_within_1_ms_leave_together_up_to_a_frame() {
    let mut receiver = DirectLink::open(&receiver_options()).unwrap();
    let (mut sender, mut departures) = recording_sender(receiver.local());
    let start = now() + Span::from_millis(20);
    for number in 0..16_u8 {
        let due = start + Span::from_micros(125 * i64::from(number));
        let mut datagram = [number; 60];
        let instants = departure(start, due);
        assert!(sender.queue(&Outgoing { instants, ..outgoing(&mut datagram) }));
    }
    sender.flush();
    collect(&mut receiver, 16);
    let left: Vec<_> = (0..16).map(|_| departed(&mut departures)).collect();
    let mut steps: Vec<LocalTime> = left.iter().map(|departure| departure.handed).collect();
    steps.dedup();
    assert!(steps.len() <= 2, "{left:?}");
    let begun = left.iter().filter(|d| steps.contains(&d.handed) && d.handed >= d.due).count();
    assert!(begun >= steps.len(), "none leaves before the first of its step is due: {left:?}");
}

#[test]
fn the_last_packet_is_counted_though_nothing_follows_it() {
    let receiver = DirectLink::open(&receiver_options()).unwrap();
    let (mut sender, _departures) = recording_sender(receiver.local());
    sender.queue(&outgoing(&mut [1]));
    sender.flush();
    let until = now() + Span::from_secs(10);
    while sender.counters().sent == 0 {
        assert!(now() < until);
        std::thread::yield_now();
    }
}

#[test]
fn a_later_hand_over_wakes_a_wire_thread_that_has_nothing_to_do() {
    let mut receiver = DirectLink::open(&receiver_options()).unwrap();
    let (mut sender, _departures) = recording_sender(receiver.local());
    for number in 0..20 {
        sender.queue(&outgoing(&mut [number]));
        sender.flush();
        assert_eq!(collect(&mut receiver, 1)[0].bytes, [number]);
    }
}

#[test]
fn arrivals_come_through_the_ring_in_order_with_their_stamps() {
    let (mut receiver, to) = ringed(&receiver_options(), 64);
    let mut sender = sender_to(to);
    let before = now();
    for number in 0..30u8 {
        sender.queue(&outgoing(&mut vec![number; usize::from(number) + 1]));
    }
    sender.flush();
    let got = collect(&mut receiver, 30);
    for (number, got) in got.iter().enumerate() {
        assert_eq!(got.bytes, vec![number as u8; number + 1]);
        assert_eq!(got.source.socket_address().unwrap().port(), sender.local().port());
        assert!(before <= got.arrival + got.uncertainty && got.arrival <= got.read);
    }
    assert_eq!(receiver.counters().ring_drops, 0);
}

#[test]
fn unfetched_datagrams_are_dropped_and_counted() {
    let (mut receiver, to) = ringed(&receiver_options(), 4);
    let mut sender = sender_to(to);
    for number in 0..10 {
        sender.queue(&outgoing(&mut [number]));
    }
    sender.flush();
    while receiver.counters().received < 10 {
        std::thread::yield_now();
    }
    assert_eq!(receiver.counters().ring_drops, 6);
    let bytes: Vec<_> = collect(&mut receiver, 4).into_iter().map(|got| got.bytes).collect();
    assert_eq!(bytes, [[0], [1], [2], [3]]);
}

#[test]
fn a_full_ring_drops_and_counts() {
    let receiver = DirectLink::open(&receiver_options()).unwrap();
    let (mut sender, _) = ringed(&UdpOptions::sender(vec![receiver.local()]), 2);
    let hour = now() + Span::from_secs(3600);
    let mut queue = || {
        let instants = departure(now(), hour);
        sender.queue(&Outgoing { instants, ..outgoing(&mut [1]) })
    };
    assert_eq!([queue(), queue(), queue()], [true, true, false]);
    assert_eq!(sender.counters().dropped, 1);
}

#[test]
fn too_long_packet_is_dropped_by_the_wire_thread() {
    let mut receiver = DirectLink::open(&receiver_options()).unwrap();
    let (mut sender, _) = ringed(&UdpOptions::sender(vec![receiver.local()]), 8);
    assert!(!sender.queue(&outgoing(&mut [0; 2000])));
    sender.queue(&outgoing(&mut [5]));
    sender.flush();
    assert_eq!(collect(&mut receiver, 1)[0].bytes, [5]);
    assert_eq!(sender.counters().dropped, 1);
}

#[test]
fn stamps_of_sampled_packets_come_back_through_the_ring() {
    let mut receiver = DirectLink::open(&receiver_options()).unwrap();
    let options =
        UdpOptions { transmit_stamp_every: 1, ..UdpOptions::sender(vec![receiver.local()]) };
    let (mut sender, _) = ringed(&options, 8);
    sender.queue(&outgoing(&mut [1]));
    sender.flush();
    let arrival = &collect(&mut receiver, 1)[0];
    let mut left = None;
    while left.is_none() {
        sender.transmit_stamps(&mut |stamp| left = Some(stamp));
        std::thread::yield_now();
    }
    let left = left.unwrap();
    assert!(left.handed <= left.left);
    assert!(left.left - left.uncertainty <= arrival.arrival + arrival.uncertainty);
}

#[test]
fn the_wire_thread_sends_to_the_destinations_it_is_given_later() {
    let mut receivers = [0; 2].map(|_| DirectLink::open(&receiver_options()).unwrap());
    let (mut sender, _) = ringed(&UdpOptions::sender(vec![receivers[0].local()]), 16);
    assert!(sender.queue(&outgoing(&mut [1])));
    sender.flush();
    assert_eq!(collect(&mut receivers[0], 1)[0].bytes, [1]);
    let other = Destinations::new(&[receivers[1].local()]).unwrap();
    assert!(sender.set_destinations(&other));
    assert!(sender.queue(&outgoing(&mut [2])));
    sender.flush();
    assert_eq!(collect(&mut receivers[1], 1)[0].bytes, [2]);
    assert_eq!(crate::common::drain(&mut receivers[0]), 0);
}

fn departed(departures: &mut Consumer<Departure>) -> Departure {
    let until = now() + Span::from_secs(10);
    loop {
        if let Ok(left) = departures.pop() {
            return left;
        }
        assert!(now() < until, "its departure was not reported");
        std::thread::yield_now();
    }
}

#[test]
fn unpredicted_packet_leaves_on_time() {
    let mut receiver = DirectLink::open(&receiver_options()).unwrap();
    let lead = Span::from_micros(300);
    let spacing = Spacing { together: 1, lead };
    let (mut sender, mut departures) = spacing_sender(receiver.local(), spacing);
    let mut due = now();
    let mut state = 9_u32;
    let mut random = || {
        // Xorshift (Marsaglia 2003).
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    for number in 0..400_u32 {
        // Steady, then a pause, a burst, or an unexpected overdue packet.
        due = match number % 20 {
            0 => now() + Span::from_micros(i64::from(random() % 10_000) - 5000),
            1 => due,
            _ => due + Span::from_micros(250),
        };
        let mut datagram = number.to_be_bytes();
        let instants = departure(due, due);
        let (handed_at, again) = (None, None);
        assert!(sender.queue(&Outgoing { datagram: &mut datagram, instants, handed_at, again }));
        sender.flush();
        if random() % 2 == 0 {
            assert_eq!(collect(&mut receiver, 1).len(), 1, "{number}");
            let left = departed(&mut departures);
            assert!(left.handed >= due + lead, "{number} left {} early", due + lead - left.handed);
        } else {
            let mut other = [0; 60];
            assert!(sender.queue(&Outgoing { datagram: &mut other, instants, handed_at, again }));
            sender.flush();
            assert_eq!(collect(&mut receiver, 2).len(), 2, "{number} and one more");
            (0..2).for_each(|_| assert_eq!(departed(&mut departures).due, due));
        }
    }
}
