//! Zones that play announcements of several stations. Each run repeats from its seed.

use tautline_proto::time::Span;
use tautline_sim::zones::{ZonesOutcome, ZonesScenario, play_zones};

fn quantile(spans: &mut [Span], per_mille: usize) -> Span {
    spans.sort_unstable();
    spans.get((spans.len() * per_mille / 1000).min(spans.len() - 1)).copied().unwrap_or(Span::MAX)
}

/// No announcement is lost or doubled, and zones change together.
fn check(seeds: impl Iterator<Item = u64>) -> String {
    let (mut all, mut wrong) = (ZonesOutcome::default(), Vec::new());
    for seed in seeds {
        let outcome = play_zones(&ZonesScenario::random(seed));
        let faults = [outcome.lost.len(), outcome.doubled.len(), outcome.unrestored.len()];
        if faults != [0, 0, 0] {
            wrong.push(format!("seed {seed}: {outcome}"));
        }
        all.expected += outcome.expected;
        all.due += outcome.due;
        all.late += outcome.late;
        all.replays_refused += outcome.replays_refused;
        all.start_skews.extend(outcome.start_skews);
        all.duck_skews.extend(outcome.duck_skews);
        all.restore_skews.extend(outcome.restore_skews);
    }
    assert_eq!(wrong, [""; 0], "{} runs are wrong", wrong.len());
    let mut report = all.to_string();
    let skews = [&mut all.start_skews, &mut all.duck_skews, &mut all.restore_skews];
    for (name, skews) in ["start", "duck", "restore"].into_iter().zip(skews) {
        let [p50, p999, max] = [500, 999, 1000].map(|it| quantile(skews, it));
        report += &format!("\n{name}: p50 {p50}, p99.9 {p999}, maximum {max} of {}", skews.len());
        assert!(p50 <= Span::from_micros(100) && p999 <= Span::from_micros(500), "{report}");
    }
    assert!(all.expected > 0 && all.due > 0 && all.replays_refused > 0, "{report}");
    report
}

#[test]
fn announcements_are_neither_lost_nor_doubled() {
    println!("{}", check(1..=40));
}

#[test]
#[ignore = "soak: a thousand runs"]
fn announcements_of_1000_runs_are_neither_lost_nor_doubled() {
    println!("{}", check(1..=1000));
}
