//! Redundancy on real sockets: lost packets are played nevertheless.

use crate::common::lab::Lab;
use crate::common::network::Cable;
use crate::common::program::{Call, taut, words};
use crate::common::sound::{FileCoding, Shape, Sound};
use crate::common::{Folder, PATIENT, shared};

const SHAPE: Shape = Shape { coding: FileCoding::L16, ..Shape::STEREO_24 };
/// A receiver that learns the format may miss the first packets.
const TOLD: &str = "--rate 48000 --channels 2 --format l16";

/// Bursts of more than 40 packets exceed the budget of 40 ms less than once per day.
#[test]
fn burst_loss_of_20_percent_is_repaired() {
    shared(|| {
        let mut lab = Lab::start("--loss 20% --burst 3 --seed 5 --back ideal");
        let sent = Sound::noise(SHAPE, 15_000, 20);
        sent.write(&lab.folder.file("sent.wav"));
        let redundancy = "--redundancy fec:6 --redundancy-budget 40ms";
        let patient = PATIENT.join(" ");
        let send = format!("--input file:sent.wav --format l16 {redundancy} {patient}");
        let carried = lab.carry(&send, &format!("{patient} {TOLD}"));
        let (lost, repaired) = (carried.relayed.there("lost"), carried.received.count("repaired"));
        assert!((2_400..=3_600).contains(&lost), "{carried}");
        // The relay also counts packets before the first played one and after the last.
        assert!(repaired <= lost && repaired + 100 >= lost, "{repaired} of {lost}: {carried}");
        assert_eq!(carried.received.count("lost") + carried.received.count("late"), 0, "{carried}");
        lab.received().is_exactly(&sent);
    });
}

/// Copies that used all of the latency's 20 ms were late behind a path of 8 ms.
#[test]
fn copies_leave_early_enough_for_a_long_path() {
    shared(|| {
        let mut lab = Lab::start("--delay 8ms --loss 5% --seed 7 --back ideal");
        let send = "--input tone:997 --duration 4s --latency 20ms --redundancy red:1 --ptime 1ms \
                    --no-stall-monitor";
        let carried = lab.carry(send, "--no-stall-monitor");
        let (lost, repaired) = (carried.received.count("lost"), carried.received.count("repaired"));
        // Copies are late until the first reports; afterwards one in twenty is lost itself.
        assert!(repaired > lost, "{repaired} repaired, {lost} lost: {carried}");
    });
}

fn at(place: &crate::common::network::Namespace, folder: &Folder, line: &str) -> Call {
    taut(words(line)).in_folder(folder.path()).within(place)
}

#[test]
fn of_two_networks_one_may_break_and_nothing_is_missed() {
    shared(|| {
        let Some(cable) = Cable::lay() else { return };
        let Some([left, right]) = cable.lay_another() else { return };
        let folder = Folder::new();
        let sent = Sound::noise(SHAPE, 3000, 18);
        sent.write(&folder.file("sent.wav"));
        let recv = format!(
            "recv --from rtp://0.0.0.0:5004 --output file:heard.wav --exit-on-bye --report json {TOLD}"
        );
        let recv = at(&cable.right, &folder, &recv).and(PATIENT).start().listening();
        let send = format!(
            "send --input file:sent.wav --to rtp://{}:5004 --to rtp://{}:5004 --format l16 --redundancy \
         paths:{},{} --report json",
            cable.right.address, right.address, cable.left.interface, left.interface
        );
        let send = at(&cable.left, &folder, &send).and(PATIENT).start();
        while cable.right.arrived() < 500 {}
        cable.left.breaks();
        let sent_report = send.end().report();
        let report = recv.end().report();
        for counter in ["lost", "late", "missing_frames", "xruns"] {
            assert_eq!(report.count(counter), 0, "{counter} in {:#}", report.0);
        }
        Sound::read(&folder.file("heard.wav")).is_exactly(&sent);
        let lost = |index: &str| report.stream(&format!("/paths/{index}/lost")).as_u64().unwrap();
        let (one, other) = (lost("0"), lost("1"));
        assert!(one.min(other) == 0 && one.max(other) > 1000, "{:#}", report.0);
        assert!(sent_report.count("send_errors") > 0, "{:#}", sent_report.0);
    });
}

#[test]
fn of_two_networks_to_a_group_one_may_break_from_the_first() {
    shared(|| {
        let Some(cable) = Cable::lay() else { return };
        let Some([left, right]) = cable.lay_another() else { return };
        let folder = Folder::new();
        let sent = Sound::noise(SHAPE, 1500, 19);
        sent.write(&folder.file("sent.wav"));
        cable.right.breaks();
        let recv = format!(
            "recv --from rtp://239.69.77.8:5004?iface={},{} --output file:heard.wav --exit-on-bye \
         --report json {TOLD}",
            cable.right.interface, right.interface
        );
        let recv = at(&cable.right, &folder, &recv).and(PATIENT).start().listening();
        let send = format!(
            "send --input file:sent.wav --to rtp://239.69.77.8:5004 --format l16 --redundancy paths:{},{}",
            cable.left.interface, left.interface
        );
        at(&cable.left, &folder, &send).and(PATIENT).run().well();
        let report = recv.end().report();
        assert_eq!(report.stream("/latency/basis"), "clock", "{:#}", report.0);
        Sound::read(&folder.file("heard.wav")).is_exactly(&sent);
    });
}

#[test]
fn each_of_two_networks_has_its_own_count() {
    shared(|| {
        let Some(cable) = Cable::lay() else { return };
        let Some([left, right]) = cable.lay_another() else { return };
        if !cable.right.loses(10, 5004) {
            return;
        }
        let folder = Folder::new();
        let recv = format!(
            "recv --from rtp://239.69.77.9:5004?iface={},{} --output null: --exit-on-bye --report json",
            cable.right.interface, right.interface
        );
        let recv = at(&cable.right, &folder, &recv).and(PATIENT).start().listening();
        let send = format!(
            "send --input tone:997 --duration 2s --to rtp://239.69.77.9:5004 --redundancy \
         fec:2+paths:{},{}",
            cable.left.interface, left.interface
        );
        at(&cable.left, &folder, &send).and(PATIENT).run().well();
        let report = recv.end().report();
        let paths = report.stream("/paths").as_array().unwrap();
        let count =
            |name: &str| paths.iter().map(|path| path[name].as_u64().unwrap()).collect::<Vec<_>>();
        assert_eq!(paths.len(), 2, "{:#}", report.0);
        let names: Vec<_> = paths.iter().map(|path| path["interface"].as_str().unwrap()).collect();
        for interface in [&cable.right.interface, &right.interface] {
            assert!(names.contains(&interface.as_str()), "{names:?}");
        }
        let (received, first) = (count("received"), count("first"));
        assert_eq!(
            received.iter().sum::<u64>(),
            report.count("packets_received"),
            "{:#}",
            report.0
        );
        assert!(
            first.iter().zip(&received).all(|(first, received)| first <= received),
            "{paths:?}"
        );
        assert!(count("lost").iter().all(|lost| (100..400).contains(lost)), "{paths:?}");
        assert_eq!(report.count("lost"), 0, "{:#}", report.0);
    });
}
