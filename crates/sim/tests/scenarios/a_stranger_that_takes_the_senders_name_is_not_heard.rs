//! Under test: a stranger that sends under the SSRC of the stream from another address, which every
//! member of a group can: on the stream's own numbers and times, or on others. The stream is heard
//! whole and in time; every packet of the stranger is foreign.

use tautline_proto::packetizer::Identity;
use tautline_proto::time::{Frames, Span};
use tautline_sim::clock::TrueTime;
use tautline_sim::fault::{Intruder, SenderFault, place};
use tautline_sim::heard::Heard;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::{IDENTITY, play};

fn at(millis: i64) -> TrueTime {
    TrueTime::from_nanos(millis * 1_000_000)
}

/// What of a stream of so many seconds is heard.
fn heard(change: impl FnOnce(&mut Scenario), seconds: i64) -> Heard {
    let mut scenario = Scenario::on(Preset::Wired, 15);
    change(&mut scenario);
    play(scenario, Span::from_secs(seconds)).remove(0)
}

fn stranger(sequence: u16, timestamp: u32, sends: (i64, i64)) -> Intruder {
    let identity = Identity { stream: IDENTITY.stream, sequence, timestamp };
    Intruder { identity, from: place(1, 9), sends: (at(sends.0), at(sends.1)) }
}

#[test]
fn a_stranger_that_takes_the_senders_name_is_not_heard() {
    for (sequence, timestamp) in [(30_000, 0x6666_0000), (IDENTITY.sequence, IDENTITY.timestamp)] {
        let told = heard(|s| s.intruder = Some(stranger(sequence, timestamp, (5_000, 15_000))), 20);
        assert!(told.first_wrong.is_none() && told.silences.is_empty(), "{told}");
        assert!(told.spoilt.is_empty(), "{told}");
        let counters = &told.counters;
        assert_eq!(
            (counters.foreign, counters.duplicate, counters.doubted),
            (10_000, 0, 0),
            "{told}"
        );
        assert_eq!((counters.lost, counters.late, counters.resyncs), (0, 0, 0), "{told}");
    }
}

#[test]
fn a_sender_that_moved_is_followed_after_fifty_milliseconds() {
    let told = heard(|s| s.faults = vec![(at(5_000), SenderFault::Moves(place(1, 7)))], 10);
    // What lacks is one hole.
    assert!(told.first_wrong.is_none() && told.spoilt.len() == 1, "{told}");
    assert!(told.longest_spoilt() <= Frames::new(52 * 48), "{told}");
    let counters = &told.counters;
    // Its packets of that time are foreign: nobody knows yet that it moved.
    assert!((49..=52).contains(&counters.foreign), "{told}");
    assert_eq!((counters.lost, counters.resyncs), (counters.foreign, 0), "{told}");
}
