//! The carried 32-bit number is used only if it counts packets.

use super::*;

fn carried(number: impl Fn(u32) -> u32) -> impl Fn(i64, &mut [u8]) {
    move |packet, bytes| bytes[..4].copy_from_slice(&number(packet as u32).to_be_bytes())
}

#[test]
fn foreign_carried_number_falls_back_to_the_own_number() {
    // Constant, or counting three listeners.
    let others: [fn(u32) -> u32; 3] = [|_| 0, |_| u32::MAX, |packet| 3 * packet];
    for (kind, number) in others.into_iter().enumerate() {
        let number = carried(number);
        let mut road = Road::over(Encapsulation::Udp, SampleFormat::L16);
        // Single packets, and more than the own number covers.
        let lost = |packet: i64| [1, 700].contains(&packet) || (1700..2000).contains(&packet);
        road.play(500, |packet, bytes| {
            number(packet, bytes);
            !lost(packet)
        });
        let counters = *road.receiver.counters();
        let counted = (counters.lost, counters.duplicate, counters.resyncs, counters.on_probation);
        assert_eq!(counted, (302, 0, 0, 0), "{kind}: {counters:?}");
        let cost = |packet: i64| 6 * packet..6 * packet + 54;
        let not_received = road.not_received();
        let meant = |frame: &i64| {
            cost(1).contains(frame) || cost(700).contains(frame) || (10_200..12_048).contains(frame)
        };
        assert!(not_received.iter().all(meant), "{kind}: {not_received:?}");
        road.pause(46, true);
        road.play(500, |packet, bytes| {
            number(packet, bytes);
            true
        });
        let counters = *road.receiver.counters();
        let counted = (counters.lost, counters.duplicate, counters.resyncs, counters.on_probation);
        assert_eq!(counted, (302, 0, 1, 1), "{kind}: {counters:?}");
    }
}

#[test]
fn carried_number_counts_any_outage() {
    for lost in [257, 3001, 60_000] {
        let mut road = Road::over(Encapsulation::Udp, SampleFormat::L16);
        road.play(lost / 8 + 500, |packet, _| !(800..800 + lost).contains(&packet));
        let counters = road.receiver.counters();
        assert_eq!((counters.lost as i64, counters.duplicate), (lost, 0), "{counters:?}");
        let not_received = road.not_received();
        let meant = 4800..4800 + 6 * lost + 96;
        assert!(not_received.iter().all(|frame| meant.contains(frame)), "{lost}: {not_received:?}");
    }
}
