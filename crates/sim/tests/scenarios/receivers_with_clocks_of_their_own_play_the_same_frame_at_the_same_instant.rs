//! Under test: receivers of one stream whose hosts' clocks start and run differently, on a switch
//! with other traffic. What each is off by, by true time, is what they can be apart.

use tautline_proto::time::{LocalTime, Span};
use tautline_sim::clock::ClockError;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::{ReceiverModel, Scenario};
use tautline_sim::world::play;

/// A place may be found some 0.2 ms beside where it should be, before the clocks are known well. It is
/// corrected once they are, which here takes a minute and a half at most.
#[test]
fn receivers_with_clocks_of_their_own_play_the_same_frame_at_the_same_instant() {
    for seed in 1..=16 {
        let mut scenario = Scenario::on(Preset::SwitchUnderLoad, seed);
        scenario.latency = Span::from_millis(10);
        let one = scenario.receivers[0].clone();
        let with_clock = |(start, ppm): (i64, f64)| {
            let mut receiver: ReceiverModel = one.clone();
            receiver.host.clock = ClockError::quartz(LocalTime::from_nanos(start), ppm);
            receiver
        };
        let clocks = [(0, 0.0), (7_000_000_000, 30.0), (123_456_789, -30.0), (1, 12.5)];
        scenario.receivers = clocks.map(with_clock).to_vec();
        for (number, heard) in play(scenario, Span::from_secs(120)).iter().enumerate() {
            let told = format!("receiver {number}, seed {seed}: {heard}");
            assert!(heard.error_at(0.999).unwrap() < Span::from_micros(500), "{told}");
            assert!(heard.error_at(0.5).unwrap() < Span::from_micros(100), "{told}");
            // The last half minute, in blocks of 1 ms.
            let settled = &heard.errors[heard.errors.len() - 30_000..];
            let worst = settled.iter().map(|error| error.abs()).max().unwrap();
            assert!(worst < Span::from_micros(100), "{worst}: {told}");
            assert!(heard.first_wrong.is_none(), "{told}");
        }
    }
}
