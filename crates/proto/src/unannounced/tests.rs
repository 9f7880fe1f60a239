use super::*;

const TAKES: Span = Span::from_millis(2);
const DEFAULT: Span = Span::from_millis(5);

fn at(millis: i64) -> LocalTime {
    LocalTime::ZERO + Span::from_millis(millis)
}

fn millis(millis: i64) -> Span {
    Span::from_millis(millis)
}

#[test]
fn first_packet_reports_its_need_equal_ones_do_not() {
    let mut machine = Unannounced::new(TAKES);
    let need = machine.observe_length(millis(20), DEFAULT).unwrap();
    assert_eq!(need, Need { latency: millis(23), packet: millis(20), apart: Span::ZERO });
    assert_eq!(machine.observe_length(millis(20), DEFAULT), None);
    assert_eq!(machine.observe_length(millis(40), need.latency).unwrap().latency, millis(43));
}

#[test]
fn short_packets_need_nothing() {
    let mut machine = Unannounced::new(TAKES);
    assert_eq!(machine.observe_length(millis(1), DEFAULT), None);
    assert_eq!(machine.observe_length(millis(3), DEFAULT), None);
}

#[test]
fn single_late_run_does_not_raise_the_latency() {
    let mut machine = Unannounced::new(TAKES);
    machine.observe_length(millis(1), DEFAULT);
    for freeze in 0..10 {
        for packet in 0..24 {
            let arrival = at(freeze * 1_500 + packet);
            assert_eq!(machine.observe_late(arrival, millis(36), DEFAULT), None);
        }
    }
}

#[test]
fn third_late_run_in_2_s_raises_latency_with_margin() {
    let mut machine = Unannounced::new(TAKES);
    machine.observe_length(millis(1), DEFAULT);
    assert_eq!(machine.observe_late(at(0), millis(9), DEFAULT), None);
    assert_eq!(machine.observe_late(at(900), millis(5), DEFAULT), None);
    let need = machine.observe_late(at(1_800), millis(7), DEFAULT).unwrap();
    assert_eq!(need, Need { latency: millis(13), packet: millis(1), apart: millis(8) });
    // Already included.
    assert_eq!(machine.observe_late(at(1_900), millis(12), need.latency), None);
}

#[test]
fn packets_late_by_a_device_stall_need_no_latency() {
    let mut machine = Unannounced::new(TAKES);
    machine.observe_length(millis(1), DEFAULT);
    for late in 0..100 {
        assert_eq!(machine.observe_late(at(100 * late), millis(1), DEFAULT), None);
    }
}

#[test]
fn another_sender_is_measured_afresh() {
    let mut machine = Unannounced::new(TAKES);
    machine.observe_length(millis(20), DEFAULT);
    machine.observe_late(at(0), millis(50), DEFAULT);
    machine.observe_late(at(30), millis(50), DEFAULT);
    machine.forget();
    assert_eq!(machine.observe_late(at(60), millis(50), DEFAULT), None);
    assert_eq!(machine.observe_length(millis(10), DEFAULT).unwrap().packet, millis(10));
}

#[test]
fn transits_beyond_all_reason_saturate() {
    let mut machine = Unannounced::new(TAKES);
    machine.observe_late(at(0), Span::MAX, DEFAULT);
    machine.observe_late(at(30), Span::MAX, DEFAULT);
    let need = machine.observe_late(at(60), Span::MAX, DEFAULT).unwrap();
    assert!(need.latency > Span::from_secs(1_000_000), "{need:?}");
}
