//! Under test: two senders that drew the same SSRC (RFC 3550, section 8.2) and are heard from one
//! place, as by a relay, for five seconds. What is heard meanwhile cannot be known; after it, sound is back at once.

use tautline_proto::counters::Counters;
use tautline_proto::packetizer::Identity;
use tautline_proto::time::Span;
use tautline_sim::clock::TrueTime;
use tautline_sim::fault::{Intruder, home};
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::{IDENTITY, play};

#[test]
fn two_senders_of_one_name_spoil_no_more_than_the_time_of_both() {
    for (sequence, timestamp) in [(30_000, 0x6666_0000), (IDENTITY.sequence, IDENTITY.timestamp)] {
        let mut scenario = Scenario::on(Preset::Wired, 14);
        let at = |seconds: i64| TrueTime::from_nanos(seconds * 1_000_000_000);
        let (begins, ends) = (at(20), at(25));
        let identity = Identity { stream: IDENTITY.stream, sequence, timestamp };
        scenario.intruder = Some(Intruder { identity, from: home()[0], sends: (begins, ends) });
        let told = &play(scenario, Span::from_secs(45))[0];
        assert!(told.loudest <= 1.0 && told.heard_until(Span::from_secs(45)), "{told}");
        for (from, to) in &told.silences {
            assert!(*from >= begins.after(Span::from_millis(-20)), "{told}");
            assert!(to.since(ends) < Span::from_secs(1), "{told}");
        }
        let counters = &told.counters;
        // Each datagram of the one that is not heard has one name: in five seconds 5000 were sent.
        let Counters { doubted, duplicate, late, early, reordered, .. } = *counters;
        assert_eq!(doubted + duplicate + late + early + reordered, 5000, "{told}");
        // Every datagram was taken for one or the other, the last of which may be under way.
        let carried = told.carried.len() as u64;
        assert!((carried - 1..=carried).contains(&(counters.received + doubted)), "{told}");
        assert_eq!(counters.foreign, 0, "{told}");
    }
}
