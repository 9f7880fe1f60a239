//! Under test: a sender whose sequence numbers begin anew while its timestamps go on, and one whose
//! program starts anew under its old name or another.

use tautline_proto::packet::StreamId;
use tautline_proto::packetizer::Identity;
use tautline_proto::time::Span;
use tautline_sim::clock::TrueTime;
use tautline_sim::fault::SenderFault;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::{IDENTITY, play};

#[test]
fn a_sequence_that_restarts_is_followed_within_a_second() {
    let anew = |ssrc| {
        SenderFault::Restarts(Identity {
            stream: StreamId::from(ssrc),
            sequence: 9,
            timestamp: 0x7777_0000,
        })
    };
    let faults = [
        SenderFault::SequenceRestarts(1),
        SenderFault::SequenceRestarts(40_000),
        anew(IDENTITY.stream.ssrc()),
        anew(0xFEED),
    ];
    for fault in faults {
        let mut scenario = Scenario::on(Preset::Wired, 12);
        let cause = TrueTime::from_nanos(20_000_000_000);
        scenario.faults = vec![(cause, fault)];
        let told = &play(scenario, Span::from_secs(40))[0];
        assert!(told.first_wrong.is_none() && told.loudest <= 1.0, "{fault:?}: {told}");
        assert!(told.heard_until(Span::from_secs(40)), "{fault:?}: {told}");
        for (_, back) in &told.silences {
            assert!(back.since(cause) < Span::from_secs(1), "{fault:?}: {told}");
        }
        let counters = &told.counters;
        let goes_on = matches!(fault, SenderFault::SequenceRestarts(_));
        assert_eq!(counters.resyncs, u64::from(!goes_on), "{fault:?}: {told}");
        if goes_on {
            // All packets came, and the sound goes on as they do.
            assert_eq!((counters.missing_frames, counters.doubted), (0, 0), "{fault:?}: {told}");
            assert!(told.silences.is_empty(), "{fault:?}: {told}");
        }
        assert_eq!((counters.lost, counters.late), (0, 0), "{fault:?}: {told}");
        let renamed =
            matches!(fault, SenderFault::Restarts(Identity { stream: StreamId(0xFEED), .. }));
        assert_eq!(counters.foreign > 0, renamed, "{fault:?}: {told}");
    }
}
