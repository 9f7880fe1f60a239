use super::*;
use crate::faults::Harm;
use crate::ledger::{Origin, Outcome, SenderInstants};
use crate::time::MediaTime;
use crate::units::{Channels, Rate};

const DEVICE: Settings = Settings {
    rate: Rate::HZ_48000,
    channels: Channels::STEREO,
    period: Frames::new(48),
    periods: 2,
};

fn arrivals() -> Arrivals {
    Arrivals::new(ArrivalsConfig {
        loss_target: LossTarget::DEFAULT,
        device: DEVICE,
        packing_age: Span::from_millis(1),
        start: Span::from_millis(50),
        longest: Span::from_millis(500),
    })
}

fn at(millis: i64) -> LocalTime {
    LocalTime::ZERO + Span::from_millis(millis)
}

/// Arrives `transit` microseconds after capture; plays after 5 ms.
fn packet(millis: i64, transit: i64) -> PacketTrace {
    let (capture, arrival) = (at(millis), at(millis) + Span::from_micros(transit));
    let handed = capture + Span::from_micros(1_010);
    let sender = Some(SenderInstants { taken: handed, packed: handed, handed, launched: handed });
    PacketTrace {
        media: MediaTime::from_frames(48 * millis),
        origin: Some(Origin { capture, sender }),
        reference: Some(capture),
        arrival,
        read: arrival,
        taken: arrival,
        written: arrival,
        resample: Span::ZERO,
        dac: capture + Span::from_millis(5),
        outcome: if transit > 3_000 { Outcome::Late } else { Outcome::Played },
    }
}

fn standing(millis: i64, (late, lost, xruns): (u64, u64, u64)) -> StreamTotals {
    let mut faults = Faults::NONE;
    let harm = Harm { lost: lost as u32, ..Harm::default() };
    faults.add(at(millis - 10), at(millis), harm);
    StreamTotals { at: at(millis), late, lost, xruns, faults, ..StreamTotals::default() }
}

fn never(_: LocalTime, _: LocalTime) -> bool {
    false
}

/// One second of packets with a transit of 1.2 ms.
fn after_a_second() -> Arrivals {
    let mut arrivals = arrivals();
    for millis in 0..1_000 {
        arrivals.enter(&packet(millis, 1_200));
        if millis % 20 == 19 {
            arrivals.stand(standing(millis, (0, 0, 0)), never);
            arrivals.poll(at(millis), false);
        }
    }
    arrivals
}

#[test]
fn needed_latency_is_that_of_packets_and_device() {
    let arrivals = after_a_second();
    let needed = arrivals.needed().unwrap();
    // Transit, ring, and little more than 0.1 ms.
    assert!(needed > Span::from_micros(3_200) && needed < Span::from_micros(3_330), "{needed}");
    assert_eq!(arrivals.advised(), Some(Span::from_micros(3_300)));
}

#[test]
fn advised_latency_includes_repair_above_the_loss_target() {
    let mut arrivals = after_a_second();
    let budget = Span::from_millis(10);
    arrivals.set_repair(budget, 50_000_000);
    assert_eq!(arrivals.advised(), Some(Span::from_micros(13_300)));
    // Packet, ring and budget.
    assert_eq!(arrivals.repair_takes(), Some(Span::from_millis(13)));
    arrivals.set_repair(budget, 50_000);
    assert_eq!(arrivals.advised(), Some(Span::from_micros(3_300)));
    arrivals.set_repair(Span::ZERO, 50_000_000);
    assert_eq!(arrivals.advised(), Some(Span::from_micros(3_300)));
    assert_eq!(arrivals.repair_takes(), None);
}

#[test]
fn late_packets_raise_the_need_of_the_next_status() {
    let mut arrivals = after_a_second();
    (1_000..1_010).for_each(|millis| arrivals.enter(&packet(millis, 9_000)));
    arrivals.stand(standing(1_019, (10, 0, 0)), never);
    assert!(arrivals.poll(at(1_019), false) > Span::from_millis(11));
}

#[test]
fn packets_sent_in_an_outage_need_no_latency() {
    let mut arrivals = after_a_second();
    let (needed, advised) = (arrivals.needed(), arrivals.advised());
    // No packet arrives for 2 s; then a queue delivers all at once, and the last ones in time.
    let queued = |millis| packet(millis, (3_000 - millis) * 1_000 + 1_200);
    (1_000..3_000).for_each(|millis| arrivals.enter(&queued(millis)));
    arrivals.stand(standing(3_019, (1_998, 0, 0)), never);
    arrivals.poll(at(3_019), false);
    assert_eq!((arrivals.needed(), arrivals.advised()), (needed, advised));
    // Sent after the outage, so the network is slower now.
    (3_002..3_012).for_each(|millis| arrivals.enter(&packet(millis, 9_000)));
    arrivals.stand(standing(3_039, (2_008, 0, 0)), never);
    assert!(arrivals.poll(at(3_039), false) > Span::from_millis(11));
}

#[test]
fn pause_of_less_than_a_second_is_jitter() {
    let mut arrivals = after_a_second();
    let queued = |millis| packet(millis, (1_900 - millis) * 1_000 + 1_200);
    (1_000..1_900).for_each(|millis| arrivals.enter(&queued(millis)));
    arrivals.stand(standing(1_919, (898, 0, 0)), never);
    assert!(arrivals.poll(at(1_919), false) > Span::from_millis(100));
}

#[test]
fn packets_late_in_an_underrun_need_no_latency() {
    let mut arrivals = after_a_second();
    let before = arrivals.needed();
    (1_000..1_010).for_each(|millis| arrivals.enter(&packet(millis, 9_000)));
    arrivals.stand(standing(1_019, (10, 0, 1)), never);
    arrivals.poll(at(1_019), false);
    assert_eq!(arrivals.needed(), before);
    arrivals.finish(never);
    assert_eq!(arrivals.gaps().late_network, 10);
}

#[test]
fn packets_late_by_a_step_do_not_raise_the_latency() {
    let step = Some(LateRun { from: at(4_000), to: at(4_040) });
    let by_step = packet(1_000, 3_020_000);
    let stepped = |millis| StreamTotals { step, ..standing(millis, (1, 0, 0)) };
    let needed = after_a_second().advised();
    // The network caused the last one; the others are before and with the step.
    let mut arrivals = after_a_second();
    arrivals.enter(&by_step);
    arrivals.stand(standing(4_000, (0, 0, 0)), never);
    arrivals.stand(stepped(4_050), never);
    assert_eq!(arrivals.advised(), needed);
    arrivals.enter(&by_step);
    arrivals.stand(stepped(4_060), never);
    assert_eq!(arrivals.advised(), needed);
    arrivals.enter(&packet(4_060, 9_000));
    arrivals.stand(stepped(4_080), never);
    assert!(arrivals.advised() > Some(Span::from_millis(11)), "{:?}", arrivals.advised());
}

#[test]
fn late_packet_is_judged_after_the_stall_monitor_reports() {
    let mut arrivals = after_a_second();
    arrivals.enter(&packet(1_000, 9_000));
    arrivals.stand(standing(1_010, (1, 0, 0)), never);
    arrivals.stand(standing(1_020, (1, 0, 0)), |from, to| from <= at(1_005) && at(1_002) <= to);
    assert_eq!(arrivals.gaps(), Gaps { host_stalled: 1, ..Gaps::default() });
}

#[test]
fn stall_is_no_excuse_if_another_clock_measured_the_path() {
    let mut arrivals = arrivals();
    (0..500).for_each(|millis| arrivals.enter(&PacketTrace { origin: None, ..packet(millis, 0) }));
    for millis in 500..1_000 {
        arrivals.enter(&packet(millis, 9_000));
        arrivals.stand(standing(millis, (millis as u64 - 499, 0, 0)), |_, _| true);
    }
    arrivals.finish(|_, _| true);
    assert_eq!(arrivals.gaps(), Gaps { late_network: 500, ..Gaps::default() });
}

#[test]
fn packets_lost_in_a_stall_are_the_hosts_and_others_are_not() {
    let mut arrivals = after_a_second();
    arrivals.stand(standing(1_010, (0, 3, 0)), never);
    arrivals.stand(standing(1_020, (0, 8, 0)), |from, to| from <= at(1_005) && at(1_002) <= to);
    arrivals.finish(never);
    assert_eq!(arrivals.gaps(), Gaps { host_stalled: 3, lost: 5, ..Gaps::default() });
}

#[test]
fn stall_causes_only_the_losses_that_it_overlaps() {
    let mut faults = Faults::NONE;
    for (from, to, lost, underrun_discarded) in
        [(900, 905, 7, 0), (940, 945, 2, 1), (980, 985, 30, 4)]
    {
        faults.add(at(from), at(to), Harm { lost, underrun_discarded, ..Harm::default() });
    }
    let mut arrivals = after_a_second();
    let underrun_discarded = 5;
    arrivals
        .stand(StreamTotals { underrun_discarded, faults, ..standing(1_000, (0, 39, 0)) }, never);
    arrivals.finish(|from, to| from <= at(942) && at(938) <= to);
    let gaps = arrivals.gaps();
    assert_eq!((gaps.lost, gaps.host_stalled, gaps.late_receiver), (37, 3, 4));
}

#[test]
fn arrivals_by_another_clock_are_not_mixed_with_those_before() {
    let mut arrivals = arrivals();
    for millis in 0..2_000 {
        let passage = match millis < 1_000 {
            true => PacketTrace { outcome: Outcome::Played, ..packet(millis, 6_000) },
            false => PacketTrace { origin: None, ..packet(millis, 0) },
        };
        arrivals.enter(&passage);
        if millis % 20 == 19 {
            arrivals.poll(at(millis), false);
        }
    }
    // One packet plus the ring.
    assert_eq!(arrivals.needed(), Some(Span::from_millis(3)));
    assert_eq!(arrivals.advised(), Some(Span::from_millis(3)));
}
