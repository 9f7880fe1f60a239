//! A two-way call over links of 100 to 500 kbit/s, from the start and after a cut.

use tautline_dsp::format::SampleFormat;
use tautline_proto::congestion::CodingLimits;
use tautline_proto::latency::DEFAULT_LATENCY;
use tautline_proto::stream::Coding;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::Channels;
use tautline_sim::clock::TrueTime;
use tautline_sim::link::{Bottleneck, Loss, PathModel};
use tautline_sim::scenario::Scenario;
use tautline_sim::world::duplex::Duplex;

const RATES: [u64; 5] = [100_000, 150_000, 200_000, 300_000, 500_000];
const QUEUES: [usize; 4] = [4_000, 8_000, 16_000, 32_000];
/// Minimum share of each second played as captured.
const UNDERSTOOD: f64 = 0.95;
/// Seconds after a cut to find the new capacity, and the minimum share that sound then uses. At 100
/// kbit/s, headers and feedback use the rest.
const FOUND: usize = 4;
const USED: [f64; 5] = [0.12, 0.25, 0.35, 0.35, 0.35];

fn scenario(path: PathModel, seed: u64) -> Scenario {
    let opus = Coding::OPUS.usual_for(Channels::STEREO).at_bitrate(25_000);
    Scenario {
        adapts: Some(CodingLimits {
            codings: vec![Coding::OPUS, Coding::OPUS_VOICE],
            ptimes: (Span::from_micros(2500), Span::from_millis(20)),
            max_bitrate: None,
            after_loss: false,
        }),
        ..Scenario::call(opus, Frames::new(960), path, seed)
    }
}

fn narrow(rate: u64, queue: usize) -> PathModel {
    let bottleneck = Some(Bottleneck { rate, queue });
    PathModel { bottleneck, ..PathModel::ideal(Span::from_millis(20)) }
}

fn second(second: i64) -> TrueTime {
    TrueTime::from_nanos(second * 1_000_000_000)
}

fn understood(silences: &[(TrueTime, TrueTime)], seconds: i64) -> Vec<f64> {
    let within = |from: TrueTime, to: TrueTime| {
        let parts = silences.iter().map(|(begin, end)| {
            (*end).min(to).since((*begin).max(from)).max(Span::ZERO).as_millis_f64()
        });
        1.0 - parts.sum::<f64>() / 1000.0
    };
    (0..seconds).map(|at| within(second(at), second(at + 1))).collect()
}

struct Outcome {
    shares: [Vec<f64>; 2],
    waits: Vec<(TrueTime, Span)>,
    /// Bitrate sent by the first end, per second.
    bits: Vec<u32>,
    reported: String,
}

fn call(path: PathModel, seconds: i64, seed: u64) -> Outcome {
    outcome([scenario(path.clone(), seed), scenario(path, seed + 1)], seconds)
}

fn outcome(scenarios: [Scenario; 2], seconds: i64) -> Outcome {
    let mut call = Duplex::new(scenarios);
    let (mut reported, mut all_bits) = (String::new(), Vec::new());
    for second in 0..seconds {
        call.run(Span::from_secs(1));
        let format = call.worlds[0].sends();
        all_bits.push(format.coding().bitrate().unwrap_or(u32::MAX));
        let bits = format.coding().bitrate().unwrap_or(0) / 1000;
        reported += &format!("{second}:{}{bits}k/{} ", format.coding_name(), format.ptime());
    }
    let waits = call.waits();
    let shares = call.worlds.map(|world| {
        let received = world.finish().remove(0);
        understood(&received.silences, seconds)
    });
    Outcome { shares, waits, bits: all_bits, reported }
}

fn p95(waits: &[(TrueTime, Span)]) -> Span {
    let mut all: Vec<Span> = waits.iter().map(|(_, wait)| *wait).collect();
    all.sort_unstable();
    all[all.len() * 95 / 100]
}

/// Seconds with too little captured sound, except two seconds from each of `disturbed`.
fn not_understood(outcome: &Outcome, disturbed: &[usize]) -> Vec<(usize, usize)> {
    let excused = |second: usize| disturbed.iter().any(|from| (*from..from + 2).contains(&second));
    let bad = |(end, shares): (usize, &Vec<f64>)| {
        let bad =
            shares.iter().enumerate().filter(|(at, share)| **share < UNDERSTOOD && !excused(*at));
        bad.map(|(at, _)| (end, at)).collect::<Vec<_>>()
    };
    outcome.shares.iter().enumerate().flat_map(bad).collect()
}

/// A call without `--format`: samples until a heavy loss.
fn default_call(path: &PathModel, seconds: i64, seed: u64) -> Outcome {
    let samples = Coding::from(SampleFormat::L24);
    let limits = CodingLimits {
        codings: vec![samples, Coding::OPUS, Coding::OPUS_VOICE],
        ptimes: (Span::from_micros(2500), Span::from_millis(20)),
        max_bitrate: None,
        after_loss: true,
    };
    let scenario = |seed| Scenario {
        adapts: Some(limits.clone()),
        ..Scenario::call(samples, Frames::new(120), path.clone(), seed)
    };
    outcome([scenario(seed), scenario(seed + 1)], seconds)
}

#[test]
fn default_call_keeps_its_samples_without_heavy_loss() {
    let loss = Loss::random(0.1);
    let outages = vec![(second(6), second(9))];
    let path = PathModel { loss, outages, ..PathModel::ideal(Span::from_millis(20)) };
    let outcome = default_call(&path, 20, 1);
    assert!(outcome.bits.iter().all(|bits| *bits == u32::MAX), "{}", outcome.reported);
}

#[test]
fn thin_link_call_is_intelligible_2_s_after_start_and_cut() {
    let maximum = Span::from_millis(100);
    for (rate, used) in RATES.into_iter().zip(USED) {
        for queue in QUEUES {
            for seed in [1, 11] {
                let outcome = call(narrow(rate, queue), 12, seed);
                let reported =
                    format!("{rate} bit/s, {queue} bytes, seed {seed}: {}", outcome.reported);
                assert_eq!(not_understood(&outcome, &[0]), [], "{reported}");
                let wait = p95(&outcome.waits);
                assert!(wait <= maximum, "{wait} in the queue; {reported}");
            }
            let rates = vec![(second(12), rate)];
            let path = PathModel { rates, ..narrow(1_000_000, queue) };
            let outcome = call(path, 24, 1);
            let reported = format!(
                "cut to {rate} bit/s, {queue} bytes: {:.2?} {}",
                outcome.shares[0], outcome.reported
            );
            assert_eq!(not_understood(&outcome, &[0, 12]), [], "{reported}");
            let minimum = outcome.bits[12 + FOUND..].iter().min().expect("seconds");
            assert!(
                f64::from(*minimum) >= used * rate as f64,
                "{minimum} bit/s are sent; {reported}"
            );
            let wait = p95(&outcome.waits);
            println!("{rate} bit/s, queue of {queue} bytes: {wait} in it (p95)");
            assert!(wait <= maximum, "{wait} in the queue; {reported}");
        }
    }
}

/// A receiver knows the path only once it has the sender's clock. With the first hundred packets
/// late, it would miss a quarter of a second.
#[test]
fn call_over_a_long_path_begins_with_few_late_packets() {
    for delay in [25, 50, 100, 200] {
        let path = PathModel::ideal(Span::from_millis(delay));
        let samples = Coding::from(SampleFormat::L24);
        let scenario = |seed| Scenario {
            latency: DEFAULT_LATENCY,
            ..Scenario::call(samples, Frames::new(120), path.clone(), seed)
        };
        let mut call = Duplex::new([scenario(3), scenario(4)]);
        call.run(Span::from_secs(5));
        for world in call.worlds {
            let received = world.finish().remove(0);
            assert!(received.counters.late <= 20, "{delay} ms: {received}");
        }
    }
}
