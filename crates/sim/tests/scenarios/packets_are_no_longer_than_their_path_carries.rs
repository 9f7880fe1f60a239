//! Path MTU probing when routers drop long datagrams without an error.

use tautline_proto::time::{Frames, Span};
use tautline_sim::clock::TrueTime;
use tautline_sim::link::PathModel;
use tautline_sim::received::Received;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::World;

const BEFORE: Span = Span::from_secs(10);
const PACKETS: Frames = Frames::new(960);

fn path(black_hole: Option<usize>) -> PathModel {
    PathModel { black_hole, ..PathModel::ideal(Span::from_millis(20)) }
}

/// A minute of 20 ms packets with 2880 bytes. Returns the final packet length.
fn minute(path: PathModel) -> (Frames, Received) {
    let mut scenario = Scenario::one_way(path, 1);
    (scenario.format.packet, scenario.latency) = (PACKETS, Span::from_millis(100));
    scenario.probes_path = true;
    let mut world = World::new(scenario);
    world.run(Span::from_secs(60));
    (world.format().packet, world.finish().remove(0))
}

#[test]
fn packets_become_as_long_as_the_path_carries_and_none_is_lost() {
    // Encrypted packets of 5, 10 and 20 ms take 768, 1488 and 2928 bytes.
    for (black_hole, packet) in [(Some(1_280), 240), (Some(1_500), 480), (None, 960)] {
        let (packets, received) = minute(path(black_hole));
        let reported = format!("{black_hole:?}: {packets}, {received}");
        assert_eq!(packets, Frames::new(packet), "{reported}");
        assert_eq!((received.counters.lost, received.counters.late), (0, 0), "{reported}");
        assert!(received.first_wrong.is_none() && received.silences.is_empty(), "{reported}");
        assert!(received.counters.received > 2_900, "{reported}");
    }
}

#[test]
fn packets_shrink_within_a_second_of_a_new_black_hole() {
    let changes = vec![(TrueTime::ZERO.after(BEFORE), path(Some(1_280)))];
    let (packets, received) = minute(PathModel { changes, ..path(None) });
    let reported = format!("{packets}, {received}: {:?}", received.silences);
    assert_eq!(packets, Frames::new(240), "{reported}");
    let [(from, until)] = received.silences[..] else { panic!("one gap: {reported}") };
    assert!(until.since(from) < Span::from_secs(1), "{reported}");
}
