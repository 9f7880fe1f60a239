//! Verifies claims about jitter, loss and drifting cards in simulated time, for `scripts/bench`.
//! Prints a line per claim, with fields between bars.
//!
//! ```text
//! cargo run --release -p tautline-sim --example claims
//! ```

use std::io::Write as _;

use tautline_proto::redundancy::Redundancy;
use tautline_proto::target_delay::LossTarget;
use tautline_proto::time::Span;
use tautline_proto::units::Ppm;
use tautline_sim::card::CardModel;
use tautline_sim::clock::{ClockEvent, TrueTime};
use tautline_sim::link::{Loss, PathModel};
use tautline_sim::preset::Preset;
use tautline_sim::received::Received;
use tautline_sim::scenario::{HostModel, Scenario};
use tautline_sim::world::{World, play};

const SEED: u64 = 1;
const TEN_MINUTES: Span = Span::from_secs(600);

struct Claim {
    what: String,
    wanted: String,
    found: String,
    met: bool,
}

/// Quantile `share` of the absolute errors.
fn at(errors: &[Span], share: f64) -> Span {
    let mut errors: Vec<Span> = errors.iter().map(|error| error.abs()).collect();
    errors.sort_unstable();
    let rank = (errors.len() as f64 * share) as usize;
    errors.get(rank.min(errors.len().saturating_sub(1))).copied().unwrap_or(Span::MAX)
}

fn drift() -> Vec<Claim> {
    let places = [
        (Preset::Wired, -500.0),
        (Preset::SwitchUnderLoad, 500.0),
        (Preset::Wifi5Ghz, -500.0),
        (Preset::Wan, 500.0),
        (Preset::Satellite, -500.0),
    ];
    let claim = |(preset, ppm): (Preset, f64)| {
        let scenario = Scenario::drifting(preset, ppm, SEED);
        let latency = scenario.latency;
        let Received { counters, errors, starved, .. } = play(scenario, TEN_MINUTES).remove(0);
        let (settled, lost) = (&errors[errors.len() / 20..], counters.lost);
        let damaged = counters.missing_frames.saturating_sub(48 * lost) + starved.as_len() as u64;
        Claim {
            what: format!("{}: a card {ppm:+} ppm off at {latency}", preset.name()),
            wanted: "0 frames dropped or repeated".into(),
            found: format!(
                "{damaged}; in time to {} (p50), {} (p99)",
                at(settled, 0.5),
                at(settled, 0.99)
            ),
            met: damaged == 0,
        }
    };
    places.into_iter().map(claim).collect()
}

fn step() -> Claim {
    let mut scenario = Scenario::on(Preset::Wired, SEED);
    let step = TrueTime::from_nanos(30_000_000_000);
    scenario.receivers[0].host = HostModel {
        card_events: vec![(step, ClockEvent::Rate(Ppm::from_f64(-60.0)))],
        ..HostModel::with_card(CardModel::off_by(40.0))
    };
    let received = play(scenario, Span::from_secs(60)).remove(0);
    let after =
        |seconds: usize| at(&received.errors[received.errors.len() - 1000 * seconds..], 1.0);
    Claim {
        what: "wired: a card steps by 100 ppm".into(),
        wanted: "< 50 µs ten seconds later".into(),
        found: format!("{} at most, {} at the step", after(20), after(30)),
        met: after(20) < Span::from_micros(50),
    }
}

fn in_step((preset, median, tail): (Preset, i64, i64)) -> Claim {
    let received = play(Scenario::two_apart(preset, SEED), TEN_MINUTES);
    let settled = |received: &Received| received.errors[30_000..].to_vec();
    let apart: Vec<Span> =
        settled(&received[0]).iter().zip(settled(&received[1])).map(|(a, b)| *a - b).collect();
    let (p50, p999) = (at(&apart, 0.5), at(&apart, 0.999));
    Claim {
        what: format!("{}: two receivers, clocks 100 and cards 200 ppm apart", preset.name()),
        wanted: format!("< {median} µs (p50), < {tail} µs (p99.9) apart"),
        found: format!("{p50}, {p999}"),
        met: p50 < Span::from_micros(median) && p999 < Span::from_micros(tail),
    }
}

fn repaired(loss: Loss, redundancy: Redundancy, budget: i64, mtu: usize) -> Received {
    let path = PathModel { loss, mtu, ..Preset::Wired.path() };
    let mut scenario = Scenario::one_way(path, SEED);
    (scenario.redundancy, scenario.budget) = (redundancy, Span::from_millis(budget));
    scenario.latency = Span::from_millis(4 + budget);
    play(scenario, TEN_MINUTES).remove(0)
}

fn random_loss() -> Claim {
    let received = repaired(Loss::random(0.05), Redundancy::Auto, 10, 1500);
    let longest = received.holes.keys().next_back().copied().unwrap_or(0);
    let packets = received.carried.len() as f64;
    Claim {
        what: "5 % random loss, --redundancy auto within 10 ms".into(),
        wanted: "no gap over one packet".into(),
        found: format!(
            "longest {longest} frames; {} of {packets} packets stay lost; {:.0} bytes a packet",
            received.counters.lost,
            received.bytes as f64 / packets
        ),
        met: longest <= 48,
    }
}

fn bursts((redundancy, budget, mtu): (Redundancy, i64, usize)) -> Claim {
    let received = repaired(Loss::bursts(0.2, 3.0), redundancy, budget, mtu);
    let (lost, bound) = (received.counters.lost, received.beyond_repair(budget as usize));
    Claim {
        what: format!("20 % loss in bursts of 3, {redundancy} within {budget} ms"),
        wanted: format!("≤ 1.2 × the {bound} beyond repair"),
        found: format!(
            "{lost} lost; {:.0} bytes a packet",
            received.bytes as f64 / received.carried.len() as f64
        ),
        met: lost as f64 <= 1.2 * bound as f64,
    }
}

fn auto_latency() -> Claim {
    let mut scenario = Scenario::on(Preset::Wired, SEED);
    scenario.auto = Some(LossTarget::DEFAULT);
    scenario.latency = Span::from_millis(50);
    let mut world = World::new(scenario);
    let mut offset_after = |seconds: i64| {
        world.run(Span::from_secs(seconds));
        let offsets = world.received().next().map(|received| received.offsets.clone());
        offsets.and_then(|offsets| offsets.last().map(|(_, offset)| *offset)).unwrap_or(Span::MAX)
    };
    let (soon, evident) = (offset_after(1), offset_after(99));
    // A packet, the wire with 99 % of its jitter, and a ring of two periods.
    let needed = Span::from_micros(1_000 + 202 + 13 + 2_000);
    Claim {
        what: "wired: --latency auto, from 50 ms".into(),
        wanted: format!("{needed} and 160 µs in a second"),
        found: format!("{soon} after 1 s, {evident} after 100 s"),
        met: soon <= needed + Span::from_micros(160),
    }
}

fn main() -> std::io::Result<()> {
    let mut claims = drift();
    claims.push(step());
    claims.extend([(Preset::SwitchUnderLoad, 100, 500), (Preset::Wired, 20, 100)].map(in_step));
    claims.push(random_loss());
    let (copies, code) = (Redundancy::Copies, Redundancy::Code);
    let cases =
        [(copies(2), 3, 1500), (copies(8), 10, 1500), (copies(19), 20, 9000), (code(8), 40, 1500)];
    claims.extend(cases.map(bursts));
    claims.push(auto_latency());
    let mut out = std::io::stdout().lock();
    for Claim { what, wanted, found, met } in claims {
        writeln!(out, "{what} | {wanted} | {found} | {}", if met { "met" } else { "missed" })?;
    }
    Ok(())
}
