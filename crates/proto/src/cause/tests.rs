use super::*;
use crate::ledger::{Origin, Outcome, SenderInstants};
use crate::time::MediaTime;

fn at(micros: i64) -> LocalTime {
    LocalTime::from_nanos(1_000_000_000 + micros * 1_000)
}

const SCHEDULE: Schedule = Schedule {
    packing_age: Span::from_millis(1),
    takes: Span::from_millis(2),
    period: Span::from_millis(1),
};

/// Captured at 0 with a latency of 5 ms. Times in microseconds.
fn packet([handed, arrival, read]: [i64; 3]) -> PacketTrace {
    let sender = SenderInstants {
        taken: at(1_000),
        packed: at(1_000),
        handed: at(handed),
        launched: at(handed),
    };
    PacketTrace {
        media: MediaTime::ZERO,
        origin: Some(Origin { capture: at(0), sender: Some(sender) }),
        reference: Some(at(0)),
        arrival: at(arrival),
        read: at(read),
        taken: at(read),
        written: at(read),
        resample: Span::ZERO,
        dac: at(5_000),
        outcome: Outcome::Late,
    }
}

/// The same without sender times.
fn silent(instants: [i64; 3]) -> PacketTrace {
    PacketTrace { origin: None, ..packet(instants) }
}

fn causes() -> Causes {
    let mut causes = Causes::new(SCHEDULE);
    (0..100).for_each(|index| causes.observe(&packet([1_010, 1_210 + index, 1_900])));
    causes
}

fn judged(passage: &PacketTrace) -> Late {
    causes().judge(passage, |_, _| false)
}

#[test]
fn a_packet_that_left_late_is_the_senders() {
    assert_eq!(judged(&packet([4_000, 4_200, 4_900])), Late::Sender);
    assert_eq!(judged(&packet([4_000, 4_900, 5_500])), Late::Sender);
}

#[test]
fn a_packet_that_left_in_time_and_took_long_is_the_networks() {
    assert_eq!(judged(&packet([1_010, 4_200, 4_900])), Late::Network);
    assert_eq!(judged(&packet([1_500, 4_200, 4_900])), Late::Network);
}

#[test]
fn a_packet_that_lay_here_in_time_is_the_receivers() {
    assert_eq!(judged(&packet([1_010, 1_210, 6_000])), Late::Receiver);
    // In time, had it been read at the next wake-up.
    assert_eq!(judged(&packet([1_010, 3_100, 9_000])), Late::Receiver);
}

#[test]
fn packet_read_before_its_turn_is_not_the_receivers_fault() {
    // Its turn by the sender's clock is at 3000. The packet missed it, so the clock is wrong.
    assert_eq!(judged(&packet([1_010, 2_900, 3_500])), Late::Network);
    assert_eq!(judged(&packet([2_700, 2_900, 3_500])), Late::Sender);
    // Without a delay, the receiver must have been early.
    assert_eq!(judged(&packet([1_010, 1_300, 1_900])), Late::Receiver);
}

#[test]
fn without_sender_times_neither_sender_nor_network_is_blamed() {
    let mut causes = Causes::new(SCHEDULE);
    causes.observe(&silent([0, 1_210, 1_900]));
    let late = silent([0, 4_200, 4_900]);
    assert_eq!(causes.judge(&late, |_, _| false), Late::Unattributed);
    let captured = Some(Origin { capture: at(0), sender: None });
    let late = PacketTrace { origin: captured, ..late };
    assert_eq!(causes.judge(&late, |_, _| false), Late::Unattributed);
    assert!(causes.would_catch(Late::Unattributed) > Some(Span::from_millis(6)));
    assert_eq!(causes.gaps(2, 0, 0), Gaps { late_unattributed: 2, ..Gaps::default() });
    assert_eq!(causes.judge(&silent([0, 1_300, 6_000]), |_, _| false), Late::Receiver);
}

#[test]
fn latency_too_short_for_the_path_counts_as_network() {
    let mut causes = Causes::new(SCHEDULE);
    let slow = packet([1_010, 9_000, 9_500]);
    causes.observe(&slow);
    assert_eq!(causes.judge(&slow, |_, _| false), Late::Network);
    assert_eq!(causes.would_catch(Late::Network), Some(Span::from_micros(9_020) + SCHEDULE.takes));
    assert_eq!(causes.would_catch(Late::Sender), None);
}

#[test]
fn latency_used_up_by_the_device_counts_as_too_short() {
    // A JACK server takes 3.9 of 5 ms; packets leave 1 ms old.
    let takes = Span::from_micros(3_900);
    let mut causes = Causes::new(Schedule { takes, ..SCHEDULE });
    let quick = packet([1_010, 1_210, 1_900]);
    causes.observe(&quick);
    // Twice the fastest; even the fastest is too slow.
    for late in [quick, packet([1_010, 1_410, 1_900])] {
        assert_eq!(causes.judge(&late, |_, _| false), Late::TooShort);
    }
    let needs = causes.would_catch(Late::TooShort).expect("a longer latency helps");
    assert!((needs - takes - Span::from_micros(1_410)).abs() < Span::from_micros(20), "{needs}");
    assert_eq!(causes.judge(&packet([1_010, 6_000, 6_900]), |_, _| false), Late::Network);
}

#[test]
fn sender_is_not_blamed_if_the_latency_has_no_room_for_a_network() {
    // JACK at 32 frames: 2 ms at the card, packets of 0.667 ms. Of 3 ms, 0.333 ms remain.
    let [packing_age, takes] = [667, 2_000].map(Span::from_micros);
    let schedule = Schedule { packing_age, takes, period: packing_age };
    let of_3_ms = |instants| PacketTrace { dac: at(3_000), ..packet(instants) };
    let judged = |departed: i64, arrived: i64| {
        let mut causes = Causes::new(schedule);
        causes.observe(&of_3_ms([680, 750, 900]));
        causes.judge(&of_3_ms([departed, arrived, arrived + 100]), |_, _| false)
    };
    assert_eq!(judged(1_200, 1_270), Late::TooShort, "departs 0.5 ms late");
    assert_eq!(judged(700, 1_660), Late::TooShort, "0.96 ms on the network");
    assert_eq!(judged(1_700, 1_770), Late::Sender, "late with the recommended latency too");
    assert_eq!(judged(700, 1_700), Late::Network, "late with the recommended latency too");
}

#[test]
fn local_faults_need_no_longer_latency() {
    let mut causes = causes();
    causes.judge(&packet([1_010, 1_210, 6_000]), |_, _| false);
    assert_eq!(causes.would_catch(Late::Receiver), None);
}

#[test]
fn slower_path_is_judged_by_its_present_delay() {
    let mut causes = causes();
    let later = |seconds: i64, [handed, arrival, read]: [i64; 3]| {
        let on = seconds * 1_000_000;
        let PacketTrace { media, .. } = packet([0; 3]);
        let sender = SenderInstants {
            taken: at(on),
            packed: at(on),
            handed: at(on + handed),
            launched: at(on + handed),
        };
        let origin = Some(Origin { capture: at(on), sender: Some(sender) });
        PacketTrace {
            media,
            origin,
            reference: Some(at(on)),
            dac: at(on + 5_000),
            ..packet([on + handed, on + arrival, on + read])
        }
    };
    // 2 ms on the network are normal now.
    (1..100).for_each(|second| causes.observe(&later(second, [1_010, 3_010, 3_500])));
    assert_eq!(causes.judge(&later(100, [2_010, 4_110, 4_500]), |_, _| false), Late::Sender);
}

#[test]
fn losses_within_a_stall_are_the_hosts() {
    let mut causes = causes();
    let stalled = |from: LocalTime, to: LocalTime| from <= at(3_000) && at(2_000) <= to;
    assert_eq!(causes.judge(&packet([4_000, 4_200, 4_900]), stalled), Late::HostStalled);
    causes.judge(&packet([1_010, 4_200, 4_900]), |_, _| false);
    let gaps = causes.gaps(2, 0, 0);
    assert_eq!(gaps, Gaps { host_stalled: 1, late_network: 1, ..Gaps::default() });
}

#[test]
fn packets_late_without_a_stall_are_not_its_fault() {
    let mut causes = Causes::new(SCHEDULE);
    // Of 5 ms, the device takes 2, packing 1 and the network 3.
    let slow = packet([1_010, 4_010, 4_900]);
    let later = PacketTrace { arrival: slow.arrival + Span::from_millis(250), ..slow };
    causes.observe(&slow);
    assert_eq!(
        causes.judge(&slow, |_, _| true),
        Late::HostStalled,
        "all so far was in it, perhaps"
    );
    causes.observe(&later);
    assert_eq!(causes.judge(&later, |_, _| true), Late::Network);
    // With half of that on the network, the stall was the cause.
    causes.observe(&packet([1_010, 2_510, 2_900]));
    assert_eq!(causes.judge(&slow, |_, _| true), Late::HostStalled);
}

#[test]
fn packet_held_longer_than_any_stall_is_the_networks() {
    let mut causes = causes();
    causes.observe(&packet([1_010, 251_300, 251_900]));
    let held = |millis: i64| packet([1_010, 1_210 + 1_000 * millis, 1_900 + 1_000 * millis]);
    assert_eq!(causes.judge(&held(200), |_, _| true), Late::HostStalled);
    assert_eq!(causes.judge(&held(250), |_, _| true), Late::HostStalled);
    assert_eq!(causes.judge(&held(251), |_, _| true), Late::Network);
    assert_eq!(causes.judge(&held(6_400), |_, _| true), Late::Network);
}

#[test]
fn the_doors_together_are_all_that_was_late_or_lost() {
    let mut causes = causes();
    for passage in [[4_000, 4_200, 4_900], [1_010, 4_200, 4_900], [1_010, 1_210, 6_000]] {
        causes.judge(&packet(passage), |_, _| false);
    }
    causes.lose(4, 0);
    let all = Gaps {
        late_sender: 1,
        late_network: 1,
        late_unattributed: 0,
        late_too_short: 0,
        late_receiver: 1,
        host_stalled: 4,
        lost: 4,
        discarded: 2,
    };
    assert_eq!(causes.gaps(3, 10, 2), all);
    // More drops than gaps.
    assert_eq!(causes.gaps(3, 10, 99), Gaps { lost: 0, discarded: 6, ..all });
    // The ring was full for two late packets.
    assert_eq!(causes.gaps(5, 10, 2), Gaps { late_network: 3, ..all });
    // Three packets lost in a stall arrived late.
    causes.lose(0, 3);
    assert_eq!(causes.gaps(3, 7, 2), Gaps { host_stalled: 1, ..all });
}
