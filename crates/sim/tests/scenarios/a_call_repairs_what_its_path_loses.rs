//! Calls with random loss both ways: with `--redundancy auto`, and with the default.

use tautline_dsp::format::SampleFormat;
use tautline_proto::congestion::CodingLimits;
use tautline_proto::counters::Counters;
use tautline_proto::redundancy::Redundancy;
use tautline_proto::stream::Coding;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::Channels;
use tautline_sim::clock::TrueTime;
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

/// A call without `--format`: samples in packets of 2.5 ms, which are repeated whole.
fn of_samples(path: &PathModel, seconds: i64, how: impl Fn(&mut Scenario)) -> [Received; 2] {
    let samples = Coding::from(SampleFormat::L24);
    let ends = [3, 4].map(|seed| {
        let mut end = Scenario {
            adapts: Some(CodingLimits {
                codings: vec![samples, Coding::OPUS, Coding::OPUS_VOICE],
                ptimes: (Span::from_micros(2500), Span::from_millis(20)),
                max_bitrate: None,
                after_loss: true,
            }),
            ..Scenario::call(samples, Frames::new(120), path.clone(), seed)
        };
        how(&mut end);
        end
    });
    let mut call = Duplex::new(ends);
    call.run(Span::from_secs(seconds));
    call.worlds.map(|world| world.finish().remove(0))
}

fn usual(end: &mut Scenario) {
    (end.redundancy, end.repairs_after_loss) = (Redundancy::Auto, true);
}

/// Packets lost in both directions.
fn lost(received: &[Received; 2]) -> u64 {
    received.iter().map(|one| one.counters.lost).sum()
}

#[test]
fn auto_repairs_long_packets_after_the_first_reported_loss() {
    let path = PathModel { loss: Loss::random(0.1), ..PathModel::ideal(Span::from_millis(20)) };
    let after =
        |seconds| lost(&of_samples(&path, seconds, |end| end.redundancy = Redundancy::Auto));
    let (two, ten) = (after(2), after(10));
    println!("10 % lost: {two} packets missed in 2 s, {} in the next 8 s", ten - two);
    // A second loses 80 of 800; copies leave one in a hundred.
    assert!(two <= 100, "{two}");
    assert!(ten - two <= 2 * 64, "{ten} - {two}");
}

#[test]
fn default_call_repairs_an_audible_loss() {
    let path = PathModel { loss: Loss::random(0.02), ..PathModel::ideal(Span::from_millis(20)) };
    let after = |seconds| of_samples(&path, seconds, usual);
    let (begin, end) = (lost(&after(7)), after(30));
    let later = lost(&end) - begin;
    println!("2 % lost: {begin} packets missed in 7 s, {later} in the next 23 s");
    // Of 18 400 packets, 368 are lost, and copies leave one in fifty of them.
    assert!(begin >= 30 && later <= 20, "{begin} and {later}");
    for one in end {
        assert_eq!(one.first_wrong, None, "{one}");
    }
}

#[test]
fn default_call_without_audible_loss_is_as_without_redundancy() {
    for loss in [Loss::NONE, Loss::random(0.001)] {
        let path = PathModel { loss, ..PathModel::ideal(Span::from_millis(20)) };
        let off = of_samples(&path, 20, |_| ());
        let usual = of_samples(&path, 20, usual);
        for (off, usual) in off.iter().zip(&usual) {
            assert_eq!((off.digest, off.bytes), (usual.digest, usual.bytes), "{usual}");
            assert_eq!(off.offsets, usual.offsets);
        }
    }
}

/// If copies make the loss worse, the call adapts.
#[test]
fn default_call_adapts_if_its_copies_do_not_fit() {
    for rate in [2_100_000, 2_300_000, 2_450_000, 3_500_000] {
        let bottleneck = Some(Bottleneck { rate, queue: 16_000 });
        let loss = Loss::random(0.02);
        let path = PathModel { bottleneck, loss, ..PathModel::ideal(Span::from_millis(20)) };
        let after = |seconds| lost(&of_samples(&path, seconds, usual));
        let (begin, later) = (after(20), after(40));
        println!(
            "{rate} bit/s: {begin} packets missed in 20 s, {} in the next 20 s",
            later - begin
        );
        // Without redundancy and adaptation: 320 or more.
        assert!(later - begin <= 240, "{rate} bit/s: {begin}, {later}");
    }
}

/// Copies need a constant time, so an adaptive latency settles.
#[test]
fn latency_of_constant_redundancy_settles() {
    let l16 = Coding::from(SampleFormat::L16);
    for (coding, frames) in [(l16, 48), (Coding::from(SampleFormat::L24), 120)] {
        for loss in [Loss::NONE, Loss::random(0.02)] {
            let way = Span::from_millis(20);
            let path = PathModel { loss, ..PathModel::ideal(way) };
            let ends = [5, 6].map(|seed| Scenario {
                redundancy: Redundancy::Copies(1),
                ..Scenario::call(coding, Frames::new(frames), path.clone(), seed)
            });
            let mut call = Duplex::new(ends);
            call.run(Span::from_secs(120));
            for received in call.worlds.map(|world| world.finish().remove(0)) {
                let half = received
                    .offsets
                    .partition_point(|(at, _)| at.since(TrueTime::ZERO) < Span::from_secs(60));
                let kept = received.offsets[half - 1..].iter().map(|(_, offset)| *offset);
                let (shortest, longest) = (kept.clone().min().unwrap(), kept.max().unwrap());
                let advised = received.advised.expect("packets arrived");
                println!("{coding:?}: {shortest} to {longest}, {advised} advised");
                // The path, 10 ms for copies, and the devices.
                assert!(longest <= way + Span::from_millis(20), "{received}");
                assert!(advised <= longest + Span::from_millis(1), "{received}");
            }
        }
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
