//! Calls with `--redundancy auto` and 5 % random loss both ways.

use tautline_dsp::format::SampleFormat;
use tautline_proto::congestion::CodingLimits;
use tautline_proto::counters::Counters;
use tautline_proto::redundancy::Redundancy;
use tautline_proto::stream::Coding;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::Channels;
use tautline_sim::link::{Bottleneck, Loss, PathModel};
use tautline_sim::received::Received;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::duplex::Duplex;

fn scenario(coding: Coding, packet: i64, path: PathModel, seed: u64) -> Scenario {
    Scenario {
        redundancy: Redundancy::Auto,
        adapts: Some(CodingLimits {
            codings: vec![coding],
            ptimes: (Span::from_micros(2500), Span::from_millis(20)),
            max_bitrate: None,
            after_loss: false,
        }),
        ..Scenario::call(coding.usual_for(Channels::STEREO), Frames::new(packet), path, seed)
    }
}

fn lossy(rate: u64) -> PathModel {
    let bottleneck = Some(Bottleneck { rate, queue: 16_000 });
    PathModel { bottleneck, loss: Loss::random(0.05), ..PathModel::ideal(Span::from_millis(20)) }
}

/// Plays a minute. Returns the sound of both ends, and the 95 % quantile of queueing delays.
fn call(scenarios: [Scenario; 2]) -> ([Received; 2], Span, String) {
    let mut call = Duplex::new(scenarios);
    let mut reported = String::new();
    for second in 0..60 {
        call.run(Span::from_secs(1));
        let format = call.worlds[0].sends();
        let bits = format.coding().bitrate().unwrap_or(0) / 1000;
        reported += &format!("{second}:{}{bits}k/{} ", format.coding_name(), format.ptime());
    }
    let mut waits: Vec<Span> = call.waits().iter().map(|(_, wait)| *wait).collect();
    waits.sort_unstable();
    let wait = waits[waits.len() * 95 / 100];
    (call.worlds.map(|world| world.finish().remove(0)), wait, reported)
}

#[test]
fn lost_packets_of_samples_come_back() {
    let l16 = Coding::from(SampleFormat::L16);
    let ends = [7, 8].map(|seed| scenario(l16, 48, lossy(1_000_000_000), seed));
    let (received, ..) = call(ends);
    for received in received {
        let Counters { repaired, lost, late, .. } = received.counters;
        println!("packets of 1 ms: {repaired} repaired, {lost} lost");
        assert!(repaired > 2_500 && late == 0 && received.first_wrong.is_none(), "{received}");
        assert!(lost <= 10, "{received}");
    }
}

#[test]
fn redundancy_takes_its_bits_from_the_rate_of_the_path() {
    for rate in [100_000, 150_000, 200_000, 300_000, 500_000, 2_000_000] {
        let ends = [7, 8].map(|seed| {
            let mut end = scenario(Coding::OPUS.at_bitrate(25_000), 960, lossy(rate), seed);
            let limits = end.adapts.as_mut().expect("it follows its path");
            limits.codings.push(Coding::OPUS_VOICE);
            end
        });
        let (reports, wait, reported) = call(ends);
        for report in reports {
            let Counters { received, repaired, lost, .. } = report.counters;
            println!(
                "{rate} bit/s: {received} received, {repaired} repaired, {lost} lost, {wait} in the queue (p95)"
            );
            let reported = format!("{rate} bit/s: {report}; {reported}");
            assert!(wait <= Span::from_millis(25), "{wait} in the queue; {reported}");
            match rate {
                // Only speech fits, with its own copies.
                100_000 => assert_eq!(repaired, 0, "{reported}"),
                ..300_000 => {}
                300_000 => assert!(repaired > 4 * lost, "{reported}"),
                _ => assert!(repaired > 20 * lost, "{reported}"),
            }
        }
    }
}
