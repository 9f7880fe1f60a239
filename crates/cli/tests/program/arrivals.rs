//! Packet arrivals on real sockets: adaptive latency, and the causes of gaps.

use std::fmt::Write;

use crate::common::host::timed;
use crate::common::lab::Lab;
use crate::common::messages;
use crate::common::{Onlooker, shared};

#[test]
fn network_losses_are_counted_at_the_network_only() {
    shared(|| {
        let mut lab = Lab::start("--loss 5% --seed 7 --back ideal");
        let patient = "--period 240 --periods 32";
        let send = format!("--input tone:997 --duration 3s --latency 400ms {patient}");
        let carried = lab.carry(&send, &format!("{patient} --no-stall-monitor"));
        carried.received.adds_up();
        let lost = carried.received.count("lost");
        assert!(lost > 90, "{carried}");
        assert_eq!(carried.received.cause("lost"), lost, "{carried}");
    });
}

/// The simulator (`auto_latency_covers_spikes_and_falls_within_30_seconds`) and the lab
/// guest check the sizes.
#[test]
fn auto_latency_rises_with_spikes() {
    shared(|| {
        let mut record = String::from("delay_us every 1ms\n");
        for milli in 0..4_000 {
            let spike = 6_000 - 1_000 * (milli % 500);
            writeln!(record, "{}", spike.max(1_000)).unwrap();
        }
        let mut lab = Lab::with_file("--trace record.csv --back ideal", "record.csv", &record);
        let carried = lab.carry("--input tone:997 --duration 4s", "--latency auto");
        carried.received.adds_up();
        assert!(carried.received.notes().iter().any(|note| note.contains(messages::LATENCY_AUTO)));
        let greatest = carried.received.nanos("/latency/auto/max_ns");
        assert!(greatest >= 8_000_000, "{carried}");
    });
}

mod exclusive {
    use super::*;

    #[test]
    fn full_socket_drops_count_as_discarded_the_rest_as_receiver() {
        timed(|| {
            let (lab, onlooker) = (Lab::straight(), Onlooker::new());
            let recv = lab.recv_to("null:", "--latency 20ms");
            let send = "--input tone:997 --ptime 125us --latency 20ms --duration 5s";
            let send = lab.send_call(send).and(["--to", &onlooker.address()]).start();
            onlooker.handle(1_500);
            recv.signal("-STOP");
            // More than 2 s: a late sender catches up with older packets.
            onlooker.handle(2_300);
            recv.signal("-CONT");
            send.end().well();
            let received = recv.end().report();
            received.adds_up();
            // Its buffer holds 0.25 to 0.5 s at 8000 packets per second.
            let (discarded, dropped) =
                (received.cause("discarded"), received.count("socket_drops"));
            assert!(dropped > 4_000, "{:#}", received.0);
            assert_eq!(discarded, dropped.min(received.count("lost")), "{:#}", received.0);
            assert!(discarded > 4_000, "{:#}", received.0);
            assert!(received.cause("late_receiver") > 500, "{:#}", received.0);
            // The host may have stalled for a tenth of the 16 000 packets.
            assert!(received.cause("host_stalled") < 1_600, "{:#}", received.0);
            assert!(
                received.notes().iter().any(|note| note.contains(messages::STOPPED_FOR_2)),
                "{:#}",
                received.0
            );
        });
    }
}
