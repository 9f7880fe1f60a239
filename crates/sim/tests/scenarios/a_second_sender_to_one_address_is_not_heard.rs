//! Under test: the choice of the source where two senders send to one address for ten seconds: the
//! one that was there first is heard whole, and the other is counted as foreign.

use tautline_proto::packet::StreamId;
use tautline_proto::packetizer::Identity;
use tautline_proto::time::Span;
use tautline_sim::clock::TrueTime;
use tautline_sim::fault::{Intruder, place};
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::play;

#[test]
fn a_second_sender_to_one_address_is_not_heard() {
    let mut scenario = Scenario::on(Preset::Wired, 13);
    let at = |seconds: i64| TrueTime::from_nanos(seconds * 1_000_000_000);
    let identity = Identity { stream: StreamId(0xBAD), sequence: 1, timestamp: 5 };
    scenario.intruder = Some(Intruder { identity, from: place(1, 9), sends: (at(20), at(30)) });
    let told = &play(scenario, Span::from_secs(50))[0];
    assert!(told.first_wrong.is_none() && told.silences.is_empty(), "{told}");
    assert!(told.spoilt.is_empty() && told.loudest <= 1.0, "{told}");
    let counters = &told.counters;
    assert_eq!((counters.foreign, counters.invalid), (10_000, 0), "{told}");
    assert_eq!((counters.lost, counters.late, counters.doubted), (0, 0, 0), "{told}");
    assert_eq!(counters.resyncs, 0, "{told}");
}
