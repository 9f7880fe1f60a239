//! Compares methods of choosing a latency on the same arrivals (docs/internals/decisions, 0012).
//! Then plays five minutes of every preset with the current one (docs/performance.md). Prints two
//! tables.
//!
//! ```text
//! cargo run --release -p tautline-sim --example depths
//! ```
#![expect(clippy::print_stdout, reason = "it prints a table")]

use std::collections::VecDeque;

use tautline_proto::target_delay::{Depth, DepthConfig, LossTarget};
use tautline_proto::time::{LocalTime, Span};
use tautline_sim::clock::TrueTime;
use tautline_sim::link::{Path, PathModel};
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::trace::Trace;
use tautline_sim::world::World;

/// Takes the transit time of each packet; returns the target delay every 20 ms.
trait Way {
    fn name(&self) -> &'static str;
    fn take(&mut self, transit: f64);
    fn choose(&mut self, millis: i64) -> f64;
}

struct Ours(Depth);

impl Way for Ours {
    fn name(&self) -> &'static str {
        "two memories, 12 and 100 s"
    }
    fn take(&mut self, transit: f64) {
        self.0.observe(Span::from_nanos((transit * 1e6) as i64));
    }
    fn choose(&mut self, millis: i64) -> f64 {
        self.0.poll(LocalTime::ZERO + Span::from_millis(millis), false);
        self.0.offset().as_millis_f64()
    }
}

/// Quantile of a packet window.
struct Window {
    name: &'static str,
    length: usize,
    kept: VecDeque<f64>,
}

impl Way for Window {
    fn name(&self) -> &'static str {
        self.name
    }
    fn take(&mut self, transit: f64) {
        self.kept.push_back(transit);
        if self.kept.len() > self.length {
            self.kept.pop_front();
        }
    }
    fn choose(&mut self, _: i64) -> f64 {
        let mut kept: Vec<f64> = self.kept.iter().copied().collect();
        let rank = kept.len() - 1 - LossTarget::DEFAULT.allowed(kept.len() as u64) as usize;
        *kept.select_nth_unstable_by(rank, f64::total_cmp).1
    }
}

/// Our quantile of a histogram that decays per packet. NetEQ's factor of 0.983 per 20 ms packet is
/// 0.99915 per 1 ms packet.
struct Forgetting {
    bins: Vec<f64>,
    factor: f64,
}

impl Way for Forgetting {
    fn name(&self) -> &'static str {
        "forgetting by a factor"
    }
    fn take(&mut self, transit: f64) {
        self.bins.iter_mut().for_each(|count| *count *= self.factor);
        let bin = ((transit / 0.02) as usize).min(self.bins.len() - 1);
        self.bins[bin] += 1.0;
    }
    fn choose(&mut self, _: i64) -> f64 {
        let all: f64 = self.bins.iter().sum();
        let mut beyond = 0.0;
        let bin = self.bins.iter().rposition(|count| {
            beyond += count;
            beyond > all * 1e-4
        });
        (bin.unwrap_or(0) + 1) as f64 * 0.02
    }
}

/// Peak envelope of Roc Toolkit. It rises immediately to 1.2 times the peak jitter or 3 times the
/// mean. It falls by a factor of 0.794, at most every 5 s, if the target is below 1/1.7 of it. The
/// peak decays by 1/60000 per packet.
struct Envelope {
    minimum: f64,
    mean: f64,
    peak: f64,
    kept: f64,
    lowered: i64,
}

impl Way for Envelope {
    fn name(&self) -> &'static str {
        "envelope of the peaks"
    }
    fn take(&mut self, transit: f64) {
        self.minimum = self.minimum.min(transit);
        let jitter = transit - self.minimum;
        self.mean += (jitter - self.mean) / 1000.0;
        self.peak = jitter.max(self.peak * (1.0 - 1.0 / 60_000.0));
    }
    fn choose(&mut self, millis: i64) -> f64 {
        let wanted = (1.2 * self.peak).max(3.0 * self.mean);
        if wanted > self.kept {
            self.kept = wanted;
        } else if self.kept > 1.7 * wanted && millis - self.lowered > 5_000 {
            (self.kept, self.lowered) = (self.kept * 0.794, millis);
        }
        self.minimum + self.kept
    }
}

fn ways() -> Vec<Box<dyn Way>> {
    let config = DepthConfig {
        loss_target: LossTarget::DEFAULT,
        takes: Span::ZERO,
        minimum: Span::ZERO,
        longest: Span::from_secs(5),
        start: Span::from_millis(5),
    };
    let window = |name, length| Window { name, length, kept: VecDeque::new() };
    vec![
        Box::new(Ours(Depth::new(config))),
        Box::new(window("one window of 12 s", 12_000)),
        Box::new(window("one window of 100 s", 100_000)),
        Box::new(Forgetting { bins: vec![0.0; 15_000], factor: 0.983_f64.powf(1.0 / 20.0) }),
        Box::new(Envelope { minimum: f64::MAX, mean: 0.0, peak: 0.0, kept: 0.0, lowered: 0 }),
    ]
}

fn run(way: &mut dyn Way, path: PathModel, seconds: i64) -> String {
    let mut path = Path::new(path, 1);
    let (mut offset, mut late, mut count, mut sum, mut moves) = (5.0, 0, 0, 0.0, 0);
    let mut down = None;
    for millis in 0..seconds * 1000 {
        let sent = TrueTime::from_nanos(millis * 1_000_000);
        let mut arrived = None;
        path.carry(266, sent, |at| arrived = arrived.or(Some(at)));
        if let Some(at) = arrived {
            let transit = at.since(sent).as_millis_f64();
            if millis >= 1000 {
                count += 1;
                late += u32::from(transit > offset);
            }
            way.take(transit);
        }
        if millis % 20 == 19 {
            let chosen = way.choose(millis);
            moves += u32::from((chosen - offset).abs() > 0.1);
            offset = chosen;
        }
        sum += offset;
        if millis >= 28_000 && offset < 1.5 {
            down = down.or(Some(millis - 28_000));
        }
    }
    let down =
        down.map_or("–".into(), |millis| format!("{:.0} s", f64::from(millis as i32) / 1e3));
    let (share, mean) = (f64::from(late) / f64::from(count), sum / (seconds * 1000) as f64);
    format!("{:.4} % | {mean:.2} ms | {moves} | {down}", share * 100.0)
}

fn places() {
    println!("\n| place | after 1 s | 10 s | 300 s | late in 10 s | later | moves | advised |");
    println!("|---|---|---|---|---|---|---|---|");
    for preset in Preset::ALL {
        let mut scenario = Scenario::one_way(preset.path(), 7);
        scenario.auto = Some(LossTarget::DEFAULT);
        let mut world = World::new(scenario);
        let mut after = |seconds| {
            world.run(Span::from_secs(seconds));
            world.received().next().map_or((Span::ZERO, 0), |received| {
                (received.offsets.last().map_or(Span::ZERO, |last| last.1), received.counters.late)
            })
        };
        let (one, ten, end) = (after(1), after(9), after(290));
        let millis = |span: Span| format!("{:.2} ms", span.as_millis_f64());
        for received in world.finish() {
            let moves = received.journal.increases + received.journal.decreases;
            println!(
                "| {} | {} | {} | {} | {} | {} | {moves} | {} |",
                preset.name(),
                millis(one.0),
                millis(ten.0),
                millis(end.0),
                ten.1,
                end.1 - ten.1,
                received.advised.map_or("–".into(), millis)
            );
        }
    }
}

fn main() {
    let spikes = Trace::read(include_str!("../traces/spikes.csv")).ok().map(Trace::once);
    let networks = [
        ("spikes", PathModel { trace: spikes, ..PathModel::ideal(Span::ZERO) }, 60),
        ("switch-under-load", Preset::SwitchUnderLoad.path(), 300),
        ("wifi-5ghz", Preset::Wifi5Ghz.path(), 300),
        ("wifi-bad", Preset::WifiBad.path(), 300),
    ];
    println!(
        "| network | way | late | waited on average | moves by 0.1 ms | down after the spikes |"
    );
    println!("|---|---|---|---|---|---|");
    for (network, path, seconds) in networks {
        for mut way in ways() {
            let reported = run(way.as_mut(), path.clone(), seconds);
            let down = reported.rsplit('|').next().unwrap_or("").to_owned();
            let reported =
                if network == "spikes" { reported } else { reported.replace(&down, " ") };
            println!("| {network} | {} | {reported} |", way.name());
        }
    }
    places();
}
