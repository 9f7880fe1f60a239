//! Lost packets and their repair.

use tautline_proto::cause::Gaps;
use tautline_proto::counters::Counters;
use tautline_proto::redundancy::Redundancy;
use tautline_proto::target_delay::LossTarget;
use tautline_proto::time::Span;
use tautline_sim::link::{Holds, Jitter, Loss, PathModel};
use tautline_sim::preset::Preset;
use tautline_sim::received::Received;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::{World, play};

// Bursts of three packets on average, 20 % loss, budgets of 3 to 40 ms. A packet is beyond repair
// if every datagram within its budget was lost.
//
// At 20 ms, half of the repairable packets depend on a single datagram. Nearly every datagram must
// copy every packet, hence jumbo frames. At 40 ms a code is sufficient.

fn with_bursts(seed: u64, redundancy: Redundancy, budget: i64, mtu: usize) -> Received {
    let path = PathModel { loss: Loss::bursts(0.2, 3.0), mtu, ..Preset::Wired.path() };
    let mut scenario = Scenario::one_way(path, seed);
    scenario.network = "wired with bursts";
    (scenario.redundancy, scenario.budget) = (redundancy, Span::from_millis(budget));
    scenario.latency = Span::from_millis(4 + budget);
    play(scenario, Span::from_secs(600)).remove(0)
}

#[test]
fn bursts_leave_little_more_than_no_redundancy_could_bridge() {
    let (copies, code) = (Redundancy::Copies, Redundancy::Code);
    let cases =
        [(copies(2), 3, 1500), (copies(8), 10, 1500), (copies(19), 20, 9000), (code(8), 40, 1500)];
    for (seed, (redundancy, budget, mtu)) in (31..).zip(cases) {
        let received = with_bursts(seed, redundancy, budget, mtu);
        let (lost, bound) = (received.counters.lost, received.beyond_repair(budget as usize));
        let packets = received.carried.len() as f64;
        println!(
            "{redundancy} within {budget} ms: {lost} lost, {bound} beyond repair, of {packets}; {:.0} \
             bytes a packet",
            received.bytes as f64 / packets
        );
        let reported =
            format!("wired with bursts, {redundancy}, {budget} ms, seed {seed}: {received}");
        assert!(
            lost as f64 <= 1.2 * bound as f64,
            "{lost} lost, {bound} beyond repair: {reported}"
        );
        assert!(received.counters.late == 0 && received.first_wrong.is_none(), "{reported}");
    }
}

/// Real twin: `copies_leave_early_enough_for_a_long_path`.
#[test]
fn copies_leave_early_enough_for_a_long_path() {
    for (seed, way) in [(41, 8), (42, 14), (43, 30)] {
        let way = Span::from_millis(way);
        let path = PathModel { loss: Loss::random(0.02), ..PathModel::ideal(way) };
        let mut scenario = Scenario::one_way(path, seed);
        scenario.redundancy = Redundancy::Copies(1);
        scenario.latency = way + Span::from_millis(12);
        let received = play(scenario, Span::from_secs(60)).remove(0);
        let Counters { repaired, lost, late, .. } = received.counters;
        let reported = format!("{way}, seed {seed}: {received}");
        // Copies are late until the first reports; afterwards one in fifty is lost itself.
        assert!(repaired > 1_000 && lost < 100 && late == 0, "{reported}");
    }
}

// Each cause of gaps alone: sender stall, network hold, program stall, host stall, and loss. Each
// counts under its own cause only.

/// Some holds exceed a latency of 5 ms.
const HOLDS: Option<Holds> =
    Some(Holds { every: Span::from_secs(2), length: Jitter::Uniform(Span::from_millis(18)) });

fn minute(seed: u64, plant: impl Fn(&mut Scenario)) -> Received {
    let mut scenario = Scenario::on(Preset::Wired, seed);
    // The cards outlast the fault, so no sound is captured or played twice.
    scenario.sender.card.periods = 40;
    plant(&mut scenario);
    play(scenario, Span::from_secs(60)).remove(0)
}

fn missed(received: &Received) -> u64 {
    received.counters.late + received.counters.lost + received.counters.underrun_discarded
}

fn all_at(cause: impl Fn(&mut Gaps) -> &mut u64, received: &Received, seed: u64) {
    let reported = format!("wired, seed {seed}: {received}");
    let mut gaps = received.gaps;
    let count = core::mem::take(cause(&mut gaps));
    assert_eq!(count, missed(received), "{reported}");
    assert_eq!(gaps, Gaps::default(), "{reported}");
    assert!(count >= 20, "{reported}");
}

#[test]
fn stalled_sender_is_reported_as_late() {
    let received = minute(21, |scenario| scenario.sender.freezes = HOLDS);
    all_at(|gaps| &mut gaps.late_sender, &received, 21);
}

#[test]
fn a_network_that_holds_packets_is_late() {
    let received = minute(22, |scenario| scenario.receivers[0].there.holds = HOLDS);
    all_at(|gaps| &mut gaps.late_network, &received, 22);
}

#[test]
fn a_receiving_program_that_does_not_run_is_late() {
    let received = minute(23, |scenario| {
        scenario.receivers[0].host.freezes = HOLDS;
        scenario.stall_monitor = false;
    });
    all_at(|gaps| &mut gaps.late_receiver, &received, 23);
}

#[test]
fn stalled_host_is_blamed_for_missed_packets() {
    let received = minute(24, |scenario| scenario.receivers[0].host.freezes = HOLDS);
    all_at(|gaps| &mut gaps.host_stalled, &received, 24);
}

#[test]
fn network_losses_are_counted() {
    let received = minute(25, |scenario| scenario.receivers[0].there.loss = Loss::random(0.01));
    all_at(|gaps| &mut gaps.lost, &received, 25);
}

#[test]
fn several_causes_at_once_add_up() {
    let received = minute(26, |scenario| {
        scenario.sender.freezes = HOLDS;
        scenario.receivers[0].there.holds = HOLDS;
        scenario.receivers[0].there.loss = Loss::random(0.01);
        scenario.receivers[0].host.freezes = HOLDS;
    });
    let Gaps { late_sender, late_network, host_stalled, lost, discarded, .. } = received.gaps;
    let late = late_sender + late_network + received.gaps.late_receiver;
    let reported = format!("wired, seed 26: {received}");
    let sum = late + received.gaps.late_too_short + host_stalled + lost + discarded;
    assert_eq!(sum, missed(&received), "{reported}");
    assert!([late_sender, late_network, host_stalled, lost].iter().all(|n| *n >= 20), "{reported}");
}

#[test]
fn every_lost_packet_is_one_gap_of_its_length() {
    let seed = 2;
    let mut scenario = Scenario::on(Preset::Wired, seed);
    let there = &mut scenario.receivers[0].there;
    *there = PathModel { loss: Loss::random(0.05), ..Preset::Wired.path() };
    let received = &play(scenario, Span::from_secs(600))[0];
    let lost = received.counters.lost;
    assert!((28_000..32_000).contains(&lost), "seed {seed}: {received}");
    assert_eq!(received.counters.missing_frames, 48 * lost, "seed {seed}: {received}");
    // The concealer learns during the first 10 ms.
    let concealed = received.counters.concealed_frames;
    assert!((48 * (lost - 10)..=48 * lost).contains(&concealed), "seed {seed}: {received}");
    let gaps: i64 = received.holes.iter().map(|(length, count)| length * *count as i64).sum();
    assert_eq!(gaps as u64, 48 * lost, "seed {seed}: {received}");
    // A loss changes its own frames and the cross-fade of 48 frames after it. Some predictions are
    // exactly right.
    let damaged: i64 = received.damaged.iter().map(|(length, count)| length * *count as i64).sum();
    let packets = damaged as f64 / (48 * lost) as f64;
    assert!((1.8..=2.0).contains(&packets), "seed {seed}: {packets}, {received}");
    assert!(received.first_wrong.is_none(), "seed {seed}: {received}");
}

#[test]
fn five_percent_loss_leaves_gaps_of_at_most_one_packet() {
    let (seed, budget) = (21, Span::from_millis(10));
    let path = PathModel { loss: Loss::random(0.05), ..Preset::Wired.path() };
    let mut scenario = Scenario::one_way(path, seed);
    scenario.network = "wired with 5 % loss";
    (scenario.redundancy, scenario.budget) = (Redundancy::Auto, budget);
    // Without loss, 4 ms are sufficient.
    scenario.latency = Span::from_millis(4) + budget;
    let received = &play(scenario, Span::from_secs(3600))[0];
    let packets = received.carried.len() as f64;
    let lost = received.counters.lost;
    // Rule of three: no loss in n packets means below 3/n with 95 % confidence. A few losses add 3.
    println!(
        "{lost} of {packets} packets stayed lost: {:.1e}, by 95 % less than {:.1e}; {} repaired; {:.0} \
         bytes a packet; gaps by frames {:?}",
        lost as f64 / packets,
        (lost as f64 + 3.0 + 1.7 * (lost as f64).sqrt()) / packets,
        received.counters.repaired,
        received.bytes as f64 / packets,
        received.holes,
    );
    let reported = format!("wired with 5 % loss, seed {seed}: {received}");
    assert!(received.counters.repaired > 170_000, "{reported}");
    assert!(received.holes.keys().all(|frames| *frames <= 48), "{:?}: {reported}", received.holes);
    assert!(received.counters.late == 0 && received.first_wrong.is_none(), "{reported}");
}

// Automatic redundancy without loss, with single losses, and with bursts. Reports are lost too.

/// Bytes of a plain packet, and of a symbol with header.
const PLAIN: f64 = 184.0;
const SYMBOL: f64 = 144.0;

/// Symbols per packet after six minutes, averaged over one.
fn symbols(seed: u64, loss: Loss) -> f64 {
    let path = PathModel { loss, ..Preset::Wired.path() };
    let mut scenario = Scenario::one_way(path, seed);
    scenario.network = "wired with losses";
    (scenario.redundancy, scenario.budget) = (Redundancy::Auto, Span::from_millis(10));
    scenario.latency = Span::from_millis(14);
    let mut world = World::new(scenario);
    let mut sent = |span| {
        world.run(span);
        let received = world.received().next().expect("one receiver");
        (received.bytes as f64, received.carried.len() as f64)
    };
    let before = sent(Span::from_secs(360));
    let after = sent(Span::from_secs(60));
    ((after.0 - before.0) / (after.1 - before.1) - PLAIN) / SYMBOL
}

#[test]
fn automatic_redundancy_matches_the_losses() {
    let cases = [
        (61, Loss::NONE, 0.0..0.01),
        (62, Loss::random(0.02), 0.9..1.3),
        (63, Loss::bursts(0.05, 3.0), 1.5..5.0),
    ];
    for (seed, loss, expected) in cases {
        let symbols = symbols(seed, loss);
        println!("seed {seed}, {loss:?}: {symbols:.2} symbols a packet");
        assert!(expected.contains(&symbols), "wired, seed {seed}, {loss:?}: {symbols}");
    }
}

// Two networks with independent losses. Redundancy repairs packets that both lose, even with 20 %
// in bursts.

fn by_two_networks(seed: u64, loss: Loss, redundancy: Redundancy, seconds: i64) -> Received {
    let path = PathModel { loss, ..Preset::Wired.path() };
    let mut scenario = Scenario::one_way(path.clone(), seed);
    scenario.network = "wired twice, with losses";
    let other = PathModel { delay: Span::from_millis(2), ..path };
    scenario.receivers[0].also_there = Some(other);
    (scenario.redundancy, scenario.budget) = (redundancy, Span::from_millis(20));
    scenario.latency = Span::from_millis(26);
    play(scenario, Span::from_secs(seconds)).remove(0)
}

#[test]
fn two_networks_lose_only_common_losses() {
    for (seed, loss) in [(41, Loss::random(0.05)), (42, Loss::bursts(0.2, 3.0))] {
        let received = by_two_networks(seed, loss, Redundancy::Off, 600);
        let (lost, bound) = (received.counters.lost, received.beyond_repair(0));
        println!("off: {lost} lost of {}, {bound} on both networks", received.carried.len());
        // The run ends before the last packets' turn.
        assert!(
            bound > 1000 && (bound - 8..=bound).contains(&lost),
            "seed {seed}: {lost}, {bound}"
        );
        assert!(received.counters.duplicate > 300_000, "seed {seed}: {received}");
        assert!(received.first_wrong.is_none(), "seed {seed}: {received}");
    }
}

#[test]
fn two_networks_and_a_code_lose_nothing() {
    for (seed, loss) in [(43, Loss::random(0.05)), (44, Loss::bursts(0.2, 3.0))] {
        let received = by_two_networks(seed, loss, Redundancy::Code(4), 600);
        let reported = format!("wired twice, seed {seed}: {received}");
        println!("fec:4: {} lost, {} repaired", received.counters.lost, received.counters.repaired);
        assert!(received.counters.repaired > 1000, "{reported}");
        assert_eq!((received.counters.lost, received.counters.late), (0, 0), "{reported}");
        assert_eq!((received.holes.len(), received.first_wrong), (0, None), "{reported}");
    }
}

#[test]
fn a_quiet_wire_plays_every_frame_of_an_hour_in_time() {
    let seed = 1;
    let received = &play(Scenario::on(Preset::Wired, seed), Span::from_secs(3600))[0];
    assert!(
        received.first_wrong.is_none() && received.damaged.is_empty(),
        "seed {seed}: {received}"
    );
    assert!(received.error_at(1.0).unwrap() < Span::from_micros(60), "seed {seed}: {received}");
    assert!(received.blocks > 3_599_000, "seed {seed}: {received}");
}

// Determinism of the simulator, on the preset with the most random events.

fn played(seed: u64) -> Vec<(u64, Counters)> {
    let mut scenario = Scenario::on(Preset::WifiBad, seed);
    scenario.receivers.extend_from_within(..);
    scenario.latency = Span::from_millis(60);
    scenario.redundancy = Redundancy::Auto;
    scenario.budget = Span::from_millis(20);
    scenario.auto = Some(LossTarget::DEFAULT);
    let received = play(scenario, Span::from_secs(20));
    received.iter().map(|received| (received.digest, received.counters)).collect()
}

#[test]
fn the_same_seed_plays_the_same() {
    let (one, again, other) = (played(5), played(5), played(6));
    assert_eq!(one, again, "wifi-bad, seed 5");
    for (number, (one, other)) in one.iter().zip(&other).enumerate() {
        assert_ne!(one.0, other.0, "wifi-bad, seeds 5 and 6, receiver {number}");
        assert!(one.1.repaired > 0, "wifi-bad, seed 5, receiver {number}: {:?}", one.1);
    }
    assert_ne!(one[0].0, one[1].0, "wifi-bad, seed 5");
}

// Jitter of 10 ms in both directions: the clocks are known to ± 5 ms only.

#[test]
fn jitter_of_the_network_blames_neither_sender_nor_receiver() {
    for seed in 40..43 {
        let path = PathModel {
            jitter: Jitter::Uniform(Span::from_millis(10)),
            ..PathModel::ideal(Span::from_millis(1))
        };
        let mut scenario = Scenario::one_way(path, seed);
        scenario.latency = Span::from_millis(10);
        let received = play(scenario, Span::from_secs(10)).remove(0);
        let Gaps { late_sender, late_receiver, late_network, .. } = received.gaps;
        let reported = format!("seed {seed}: {received}");
        assert!(late_network >= 1_000, "{reported}");
        // A packet that was hardly delayed has no other cause.
        assert!(late_sender == 0 && 100 * late_receiver <= late_network, "{reported}");
    }
}
