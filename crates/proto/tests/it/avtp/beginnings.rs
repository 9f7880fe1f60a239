//! Packets before the first block: the socket opens before the card runs.

use super::*;

impl Road {
    /// Packets arrive `after` they were sent; no blocks.
    fn arrive(&mut self, periods: i64, after: Span) {
        for _ in 0..periods {
            let first = self.blocks * PERIOD.count();
            let capture = START + RATE.span_of(Frames::new(first));
            let block: Vec<f32> = (first..first + PERIOD.count()).map(sample).collect();
            let now = capture + RATE.span_of(PERIOD);
            let Self { sender, receiver, packets, .. } = self;
            sender.push(&block, BlockTimes { capture, taken: now, now }, |packet| {
                receiver.handle(packet.datagram, now + after, now + after);
                *packets += 1;
            });
            self.blocks += 1;
        }
    }

    fn end(&mut self) {
        for _ in 0..40 {
            self.pull(START + RATE.span_of(Frames::new((self.blocks + 1) * PERIOD.count())));
        }
    }
}

#[test]
fn packets_before_the_first_block_are_played_or_counted() {
    for encapsulation in [Encapsulation::Ethernet, Encapsulation::Udp] {
        for periods in [1, 5, 17, 18, 19, 27, 40] {
            let mut road = Road::over(encapsulation, SampleFormat::L16);
            road.arrive(periods, Span::ZERO);
            road.play(200, |_, _| true);
            road.end();
            let counters = *road.receiver.counters();
            let reported = format!("{periods} periods, {encapsulation:?}: {counters:?}");
            // Frames due then were captured 20 ms earlier.
            let due =
                ((periods + 2) * PERIOD.count() - RATE.frames_nearest(LATENCY).count()).max(0);
            assert_eq!(counters.before_start as i64, due / PDU.count(), "{reported}");
            assert_eq!(
                road.not_received().iter().filter(|frame| **frame < 9600).count(),
                0,
                "{reported}"
            );
            let of_all = (
                counters.received as i64,
                counters.lost,
                counters.late,
                counters.underrun_discarded,
            );
            assert_eq!(of_all, (road.packets, 0, 0, 0), "{reported}");
            assert_eq!(road.passages + counters.before_start, counters.received, "{reported}");
        }
    }
}
