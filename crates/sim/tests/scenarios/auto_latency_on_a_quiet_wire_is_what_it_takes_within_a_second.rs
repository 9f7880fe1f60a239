//! Under test: the latency that follows arrivals, on one switch with nothing else on it. Held
//! against what packets and cards take by the models themselves.

use tautline_proto::target_delay::LossTarget;
use tautline_proto::time::Span;
use tautline_sim::card::CardModel;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::{HostModel, Scenario};
use tautline_sim::world::World;

/// A packet of 1 ms; 200 µs of wire and 2 µs of sending; a device's ring of 2 ms, one period of which
/// is for packets that come just after a wake-up.
const ALWAYS: Span = Span::from_micros(1_000 + 202 + 2_000);
/// Quantiles of the wire's jitter, half of a normal distribution of 5 µs.
const Q99: Span = Span::from_micros(13);
const Q9999: Span = Span::from_micros(20);
/// What it may be above: a bin of 20 µs, the servo's slack of 50 and the half band of 50, and how
/// much less than half of the round trip the clocks are known to.
const ABOVE: Span = Span::from_micros(160);

fn offset(world: &World) -> Span {
    let offsets = world.heard().next().map(|heard| heard.offsets.as_slice());
    offsets.and_then(<[_]>::last).map_or(Span::ZERO, |(_, offset)| *offset)
}

#[test]
fn auto_latency_on_a_quiet_wire_is_what_it_takes_within_a_second() {
    let seed = 11;
    let mut scenario = Scenario::on(Preset::Wired, seed);
    scenario.auto = Some(LossTarget::DEFAULT);
    scenario.latency = Span::from_millis(50);
    let mut world = World::new(scenario);
    world.run(Span::from_secs(1));
    let soon = offset(&world);
    assert!(soon >= ALWAYS + Q99 && soon <= ALWAYS + Q99 + ABOVE, "wired, seed {seed}: {soon}");
    world.run(Span::from_secs(99));
    let evident = offset(&world);
    let within = evident >= ALWAYS + Q9999 && evident <= ALWAYS + Q9999 + ABOVE;
    assert!(within, "wired, seed {seed}: {evident}");
    let heard = &world.finish()[0];
    assert_eq!((heard.counters.late, heard.counters.lost), (0, 0), "wired, seed {seed}: {heard}");
}

#[test]
fn it_is_so_whatever_the_phase_between_packets_and_periods() {
    // 50 ppm go through all phases in twenty seconds.
    for (seed, ppm) in [(12, 50.0), (13, -50.0)] {
        let mut scenario = Scenario::on(Preset::Wired, seed);
        scenario.auto = Some(LossTarget::DEFAULT);
        scenario.receivers[0].host = HostModel::with_card(CardModel::off_by(ppm));
        let mut world = World::new(scenario);
        world.run(Span::from_secs(300));
        let told = format!("wired, {ppm} ppm, seed {seed}");
        // The resampler reads a quarter of a millisecond ahead.
        let ahead = Span::from_micros(250);
        assert!(offset(&world) <= ALWAYS + Q9999 + ABOVE + ahead, "{told}: {}", offset(&world));
        let heard = &world.finish()[0];
        assert!(heard.counters.late <= 30, "{told}: {heard}");
        assert_eq!(heard.counters.lost, 0, "{told}: {heard}");
    }
}
