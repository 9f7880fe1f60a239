use super::*;

fn place(text: &str, network: u32) -> Endpoint {
    Endpoint::new(text.parse().unwrap(), network)
}

fn at(millis: i64) -> LocalTime {
    LocalTime::ZERO + Span::from_secs(60) + Span::from_millis(millis)
}

const LATENCY: Span = Span::from_millis(20);

/// Finds or admits the sender.
fn come(senders: &mut Senders, ssrc: u32, from: Endpoint, millis: i64) -> Option<usize> {
    let stream = StreamId::from(ssrc);
    let known = senders.find(stream, from, at(millis));
    known.or_else(|| senders.admit(stream, from, at(millis)))
}

#[test]
fn senders_differ_by_address_and_name() {
    let mut senders = Senders::new(4);
    let (one, other) = (place("10.0.0.1:5004", 2), place("10.0.0.2:5004", 2));
    for round in 0..3 {
        let arrived = [(7, one), (7, other), (8, one), (1, one)];
        let places = arrived.map(|(ssrc, from)| come(&mut senders, ssrc, from, round));
        assert_eq!(places, [Some(0), Some(1), Some(2), Some(3)], "round {round}");
    }
    for (ssrc, from, found) in [(1, one, 3), (7, other, 1), (7, one, 0), (8, one, 2), (8, one, 2)] {
        assert_eq!(come(&mut senders, ssrc, from, 3), Some(found));
    }
}

#[test]
fn moved_or_two_network_sender_keeps_its_place() {
    let mut senders = Senders::new(4);
    let home = place("10.0.0.1:5004", 2);
    assert_eq!(come(&mut senders, 7, home, 0), Some(0));
    assert_eq!(come(&mut senders, 7, place("10.1.0.1:5004", 3), 1), Some(0), "another network");
    assert_eq!(come(&mut senders, 7, home, 2), Some(0));
    assert_eq!(come(&mut senders, 7, place("10.0.0.9:5004", 2), 60), Some(0), "it moved");
    assert_eq!(come(&mut senders, 7, place("10.0.0.3:5004", 2), 61), Some(1), "while that sends");
}

#[test]
fn sender_without_a_place_is_counted_and_placed_later() {
    let mut senders = Senders::new(2);
    let home = place("10.0.0.1:5004", 2);
    for millis in 0..10 {
        assert_eq!(come(&mut senders, 1, home, millis), Some(0));
        assert_eq!(come(&mut senders, 2, home, millis), Some(1));
        assert_eq!(come(&mut senders, 3, place("10.0.0.2:9", 2), millis), None);
    }
    let Unplaced { packets, from } = senders.unplaced();
    assert_eq!((packets, from), (10, Some(place("10.0.0.2:9", 2))));
    let over = |senders: &Senders, millis, goodbye| {
        [0, 1].map(|place| senders.is_over(place, at(millis), goodbye, LATENCY))
    };
    // Packets before the goodbye still play.
    assert_eq!(over(&senders, 129, true), [false, false]);
    assert_eq!(over(&senders, 130, true), [true, true]);
    assert_eq!(over(&senders, 3009, false), [false, false]);
    assert_eq!(over(&senders, 3010, false), [true, true]);
    senders.leave(0);
    assert_eq!(come(&mut senders, 2, home, 131), Some(1), "the other keeps its own");
    assert_eq!(come(&mut senders, 3, place("10.0.0.2:9", 2), 131), Some(0));
}

#[test]
fn a_stray_packet_gives_its_place_back_soon() {
    let mut senders = Senders::new(1);
    assert_eq!(come(&mut senders, 1, place("10.0.0.1:5004", 2), 0), Some(0));
    assert!(!senders.is_over(0, at(250), false, LATENCY));
    assert!(senders.is_over(0, at(251), false, LATENCY));
    assert_eq!(come(&mut senders, 1, place("10.0.0.1:5004", 2), 252), Some(0));
    assert!(!senders.is_over(0, at(600), false, LATENCY), "two packets are a stream");
}

#[test]
fn thousand_senders_in_any_order_are_found() {
    let mut senders = Senders::new(1000);
    let from = |n: u32| place(&format!("10.0.{}.{}:{}", n / 200, n % 200 + 1, 1024 + n), 2);
    let mut places = vec![None; 3000];
    for round in 0..3_u32 {
        for n in (0..1000).map(|n| round * 1000 + n * 389 % 1000) {
            places[n as usize] = come(&mut senders, n.wrapping_mul(2_654_435_761), from(n), 1);
            assert!(places[n as usize].is_some());
        }
        let mut taken: Vec<_> = (0..1000).map(|n| places[(round * 1000 + n) as usize]).collect();
        for (n, place) in (round * 1000..).zip(&taken) {
            let stream = StreamId::from(n.wrapping_mul(2_654_435_761));
            assert_eq!(senders.find(stream, from(n), at(2)), *place);
        }
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken.len(), 1000, "each its own");
        taken.iter().flatten().for_each(|place| senders.leave(*place));
        assert_eq!(senders.count(), 0);
    }
}
