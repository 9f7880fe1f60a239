//! Two receivers of one stream with different card rates: on the sender's machine, and through
//! networks with RTCP only.

use crate::common::host::steady;
use crate::common::program::{taut, words};
use crate::common::report::Report;
use crate::common::sound::{Shape, Sound};
use crate::common::{Folder, PATIENT, free_udp_ports, loopback};

/// Median playout delay by this host's clock, independent of the estimate of the sender's clock.
fn received(report: &Report) -> i64 {
    assert_eq!(report.stream("/latency/method"), "sound", "{:#}", report.0);
    // Removes the receiver's clock estimate from the latency. Both run on one clock here.
    report.nanos("/latency/measured/p50_ns") - report.nanos("/clock/offset_ns")
}

mod exclusive {
    use super::*;

    #[test]
    fn two_receivers_on_loaded_switches_play_together() {
        steady(|| {
            let folder = Folder::new();
            Sound::noise(Shape::STEREO_24, 20_000, 2).quieter().write(&folder.file("sent.wav"));
            let call = |line: String| taut(words(&line)).in_folder(folder.path());
            let ends = [("-100", 1), ("100", 2)].map(|(ppm, seed)| {
            let (address, listen) = (loopback(), free_udp_ports());
            let relay = format!(
                "lab impair --listen rtp://127.0.0.1:{listen} --to {address} --preset switch-under-load \
                 --seed {seed} --report json"
            );
            let relay = call(relay).start().wait_for("taut: relaying ");
            let recv =
                format!("recv --from {address} --exit-on-bye --report json --output virtual:?ppm={ppm}");
            (format!("rtp://127.0.0.1:{listen}"), relay, call(recv).and(PATIENT).start().listening())
        });
            let line = format!(
                "send --input file:sent.wav --to {} --to {} --report json",
                ends[0].0, ends[1].0
            );
            call(line).and(PATIENT).run().well();
            let reports = ends.map(|(_, relay, recv)| {
                let report = recv.end().report();
                relay.signal("-INT");
                relay.end().well();
                report
            });
            let apart = received(&reports[0]) - received(&reports[1]);
            let reported = format!("{:#} {:#}", reports[0].0, reports[1].0);
            let mut unsure = 0;
            for report in &reports {
                assert_eq!(report.stream("/clock/source"), "rtcp", "{reported}");
                assert!(report.nanos("/clock/round_trip_ns") >= 400_000, "not relayed: {reported}");
                unsure += report.nanos("/latency/uncertainty_max_ns");
            }
            println!("{apart} ns apart, {unsure} ns unsure");
            assert!(apart.abs() <= unsure, "{apart} ns: {reported}");
            assert!(apart.abs() < 200_000, "{apart} ns: {reported}");
        });
    }
}
