//! Unexpected packet lengths, and reordering.

use super::*;

#[test]
fn packets_of_unexpected_length_play() {
    // Class B, whole periods, and lengths that do not divide a period.
    for frames in [12, 48, 5, 7, 1] {
        for encapsulation in [Encapsulation::Ethernet, Encapsulation::Udp] {
            let mut road = Road::over(encapsulation, SampleFormat::L24);
            road.talk(Frames::new(frames));
            road.play(1000, |_, _| true);
            assert_eq!(road.not_received(), [], "{frames} frames, {encapsulation:?}");
            let counters = road.receiver.counters();
            assert_eq!((counters.resyncs, counters.lost, counters.invalid), (0, 0, 0));
        }
    }
}

#[test]
fn packet_length_change_loses_nothing() {
    let mut road = Road::over(Encapsulation::Ethernet, SampleFormat::L16);
    road.play(300, |_, _| true);
    for frames in [12, 6] {
        road.pause(20, false);
        road.talk(Frames::new(frames));
        let before = road.received.len();
        road.play(300, |_, _| true);
        assert_eq!(road.receiver.counters().lost, 0, "{frames}");
        let received = &road.received[before + 50 * PERIOD.as_len()..];
        assert!(received.iter().all(|(_, frame)| frame.is_some()), "{frames}");
    }
}

#[test]
fn reordered_packets_are_played_completely() {
    for encapsulation in [Encapsulation::Ethernet, Encapsulation::Udp] {
        let mut road = Road::over(encapsulation, SampleFormat::L24);
        road.play(10, |_, _| true);
        let mut waits: Option<Vec<u8>> = None;
        road.carry(600, |receiver, packet, datagram, now| {
            if packet % 2 == 1 {
                waits = Some(datagram.to_vec());
                return;
            }
            receiver.handle(datagram, now, now);
            if let Some(waited) = waits.take() {
                receiver.handle(&waited, now, now);
            }
        });
        assert_eq!(road.not_received(), [], "{encapsulation:?}");
        let counters = road.receiver.counters();
        assert_eq!((counters.lost, counters.resyncs, counters.invalid), (0, 0, 0));
        assert_eq!(counters.reordered, 600 * 8 / 2 - 1, "{encapsulation:?}");
    }
}

impl Road {
    /// Restarts with this packet length, unannounced.
    fn talk(&mut self, packet: Frames) {
        let identity = Identity { stream: STREAM, sequence: 9, timestamp: 0 };
        let format = StreamFormat { packet, ..*self.sender.format() };
        self.sender = Packetizer::new(config(self.wire, format, identity, self.latency, self.wall));
    }
}
