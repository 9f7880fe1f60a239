//! Under test: the causes of gaps, each planted alone: a sender that stands still, a network that
//! holds packets, a receiving program that does not run, a host that does not run at all, a network
//! that loses. Each is counted under its name and no other.

use tautline_proto::cause::Gaps;
use tautline_proto::time::Span;
use tautline_sim::heard::Heard;
use tautline_sim::link::{Holds, Jitter, Loss};
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::play;

/// Now and then for longer than a latency of 5 ms can cover.
const HOLDS: Option<Holds> =
    Some(Holds { every: Span::from_secs(2), length: Jitter::Uniform(Span::from_millis(18)) });

/// A minute of a quiet wire with something planted.
fn minute(seed: u64, plant: impl Fn(&mut Scenario)) -> Heard {
    let mut scenario = Scenario::on(Preset::Wired, seed);
    // Cards that outlast what is planted: nothing is captured or played twice.
    scenario.sender.card.periods = 40;
    plant(&mut scenario);
    play(scenario, Span::from_secs(60)).remove(0)
}

/// Packets that were not heard at their turn.
fn missed(heard: &Heard) -> u64 {
    heard.counters.late + heard.counters.lost + heard.counters.unheard
}

/// That all gaps are what `cause` takes out of them, and are some.
fn all_at(cause: impl Fn(&mut Gaps) -> &mut u64, heard: &Heard, seed: u64) {
    let told = format!("wired, seed {seed}: {heard}");
    let mut gaps = heard.gaps;
    let count = core::mem::take(cause(&mut gaps));
    assert_eq!(count, missed(heard), "{told}");
    assert_eq!(gaps, Gaps::default(), "{told}");
    assert!(count >= 20, "{told}");
}

#[test]
fn a_sender_that_stands_still_is_late_by_itself() {
    let heard = minute(21, |scenario| scenario.sender.freezes = HOLDS);
    all_at(|gaps| &mut gaps.late_sender, &heard, 21);
}

#[test]
fn a_network_that_holds_packets_is_late() {
    let heard = minute(22, |scenario| scenario.receivers[0].there.holds = HOLDS);
    all_at(|gaps| &mut gaps.late_network, &heard, 22);
}

#[test]
fn a_receiving_program_that_does_not_run_is_late() {
    let heard = minute(23, |scenario| {
        scenario.receivers[0].host.freezes = HOLDS;
        scenario.witness = false;
    });
    all_at(|gaps| &mut gaps.late_receiver, &heard, 23);
}

#[test]
fn a_host_that_stands_still_answers_for_what_it_misses() {
    let heard = minute(24, |scenario| scenario.receivers[0].host.freezes = HOLDS);
    all_at(|gaps| &mut gaps.host_stalled, &heard, 24);
}

#[test]
fn what_a_network_loses_is_lost() {
    let heard = minute(25, |scenario| scenario.receivers[0].there.loss = Loss::random(0.01));
    all_at(|gaps| &mut gaps.lost, &heard, 25);
}

#[test]
fn several_causes_at_once_add_up() {
    let heard = minute(26, |scenario| {
        scenario.sender.freezes = HOLDS;
        scenario.receivers[0].there.holds = HOLDS;
        scenario.receivers[0].there.loss = Loss::random(0.01);
        scenario.receivers[0].host.freezes = HOLDS;
    });
    let Gaps { late_sender, late_network, late_receiver, host_stalled, lost, discarded } =
        heard.gaps;
    let told = format!("wired, seed 26: {heard}");
    let sum = late_sender + late_network + late_receiver + host_stalled + lost + discarded;
    assert_eq!(sum, missed(&heard), "{told}");
    assert!([late_sender, late_network, host_stalled, lost].iter().all(|n| *n >= 20), "{told}");
}
