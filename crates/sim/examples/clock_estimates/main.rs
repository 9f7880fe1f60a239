//! Compares methods of estimating a peer's clock from the same report exchanges, on every preset:
//! `cargo run --release -p tautline-sim --example clock_estimates`.
//!
//! Prints the tables of docs/internals/decisions/0010-clock-estimate.md: true error (median, 99 %,
//! maximum) in three stretches of time. `-- figure` prints docs/figures/clock-estimate.svg.

mod exchanges;
mod figure;
mod rivals;

use tautline_proto::clock::{ClockEstimator, ClockMapping, Exchange};
use tautline_proto::time::{LocalTime, Span, WallTime};
use tautline_sim::clock::TrueTime;
use tautline_sim::preset::Preset;

use exchanges::Talk;
use rivals::{KalmanOnMinima, LoopOnMinima, Overlap};

trait Estimate {
    fn observe(&mut self, exchange: Exchange);
    /// `None` before the first exchange.
    fn wall(&self, local: LocalTime) -> Option<WallTime>;
    fn uncertainty(&self, _: LocalTime) -> Option<Span> {
        None
    }
}

#[derive(Default)]
struct Ours(ClockEstimator, Option<ClockMapping>);

impl Estimate for Ours {
    fn observe(&mut self, exchange: Exchange) {
        self.1 = self.0.observe(exchange).or(self.1);
    }

    fn wall(&self, local: LocalTime) -> Option<WallTime> {
        self.1.map(|mapping| mapping.wall(local))
    }

    fn uncertainty(&self, local: LocalTime) -> Option<Span> {
        self.1?.uncertainty_at(local)
    }
}

type Make = fn() -> Box<dyn Estimate>;

const STRETCHES: [(i64, i64); 3] = [(1, 10), (10, 60), (60, 120)];
const SEEDS: u64 = 10;

#[derive(Default)]
struct Errors {
    spans: [Vec<i64>; 3],
    untrue: usize,
    unsure: Vec<i64>,
}

fn run(preset: Preset, wander: f64, make: Make) -> Errors {
    let mut errors = Errors::default();
    for seed in 0..SEEDS {
        let mut talk = Talk::new(preset.path(), wander, seed);
        let mut estimate = make();
        let step = Span::from_millis(20);
        let mut at = TrueTime::ZERO;
        while at < TrueTime::from_nanos(120_000_000_000) {
            at = at.after(step);
            talk.run(at, |exchange| estimate.observe(exchange));
            let (local, truth) = talk.clocks(at);
            let Some(wall) = estimate.wall(local) else { continue };
            let error = (wall - truth).abs();
            if let Some(unsure) = estimate.uncertainty(local) {
                errors.untrue += usize::from(error > unsure);
                errors.unsure.push(unsure.as_nanos());
            }
            let second = at.as_nanos() / 1_000_000_000;
            let stretch = STRETCHES.iter().position(|(from, to)| (*from..*to).contains(&second));
            if let Some(stretch) = stretch {
                errors.spans[stretch].push(error.as_nanos());
            }
        }
    }
    errors
}

fn share(sorted: &[i64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).map_or(f64::NAN, |nanos| *nanos as f64 / 1e3)
}

#[expect(clippy::print_stdout, reason = "it prints a table")]
fn main() {
    if std::env::args().nth(1).as_deref() == Some("figure") {
        return print!("{}", figure::svg());
    }
    let rivals: [(&str, Make); 4] = [
        ("overlap of bounds", || Box::new(Overlap::default())),
        ("minima, Kalman", || Box::new(KalmanOnMinima::default())),
        ("minima, PI loop", || Box::new(LoopOnMinima::default())),
        ("weighted by excess, Kalman", || Box::new(Ours::default())),
    ];
    println!("error in us by true time: p50 / p99 / max, {SEEDS} seeds each");
    for wander in [0.01, 0.1] {
        for preset in Preset::ALL {
            println!("{}, wander {wander} ppm/√s", preset.name());
            for (name, make) in rivals {
                let mut errors = run(preset, wander, make);
                print!("  {name:<23}");
                for (spans, (from, to)) in errors.spans.iter_mut().zip(STRETCHES) {
                    spans.sort_unstable();
                    let [mid, maximum, max] = [0.5, 0.99, 1.0].map(|at| share(spans, at));
                    print!(" | {from}–{to} s {mid:8.1} {maximum:8.1} {max:8.1}");
                }
                errors.unsure.sort_unstable();
                if !errors.unsure.is_empty() {
                    let [mid, maximum] = [0.5, 0.99].map(|at| share(&errors.unsure, at));
                    print!(" | reported ±{mid:.0} ±{maximum:.0}, exceeded {} times", errors.untrue);
                }
                println!();
            }
        }
    }
}
