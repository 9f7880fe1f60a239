//! Under test: sender and receiver when packets become longer and shorter in the middle of a stream.

use tautline_proto::time::{Frames, Span};
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::{Change, World};

#[test]
fn a_packet_time_that_changes_is_not_heard() {
    let seed = 21;
    let mut scenario = Scenario::on(Preset::Wired, seed);
    scenario.latency = Span::from_millis(30);
    let mut world = World::new(scenario);
    world.run(Span::from_secs(2));
    for round in 0..6 {
        for packet in [6, 960, 72, 7, 480, 50, 48] {
            world.change(Change::Packet(Frames::new(packet))).unwrap();
            // Never a whole number of packets.
            world.run(Span::from_micros(700_007 + 1_301 * round));
        }
    }
    let heard = &world.finish()[0];
    let told = format!("wired, seed {seed}: {heard}");
    assert!(heard.first_wrong.is_none() && heard.spoilt.is_empty(), "{told}");
    assert_eq!((heard.counters.lost, heard.counters.late), (0, 0), "{told}");
    assert_eq!((heard.counters.missing_frames, heard.counters.resyncs), (0, 0), "{told}");
    assert!(heard.error_at(1.0).unwrap() < Span::from_micros(60), "{told}");
    assert!(heard.blocks > 30_000, "{told}");
}
