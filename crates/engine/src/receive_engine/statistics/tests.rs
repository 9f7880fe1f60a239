//! Latency, its source and uncertainty.

use super::*;
use tautline_proto::time::{LocalTime, MediaTime};

use crate::monitor::levels::levels;
use crate::receive_engine::summary::tests::status;

fn at(millis: i64) -> LocalTime {
    LocalTime::ZERO + Span::from_millis(millis)
}

fn passage(total: Option<Span>) -> PacketTrace {
    let (arrival, dac) = (at(1_000), at(1_010));
    let capture = total.map(|total| dac - total);
    PacketTrace {
        media: MediaTime::ZERO,
        origin: capture.map(|capture| tautline_proto::ledger::Origin { capture, sender: None }),
        reference: capture,
        arrival,
        read: arrival,
        taken: arrival,
        written: arrival,
        resample: Span::ZERO,
        dac,
        outcome: tautline_proto::ledger::Outcome::Played,
    }
}

fn play(statistics: &mut Statistics, passage: &PacketTrace) {
    if statistics.probe(passage) {
        statistics.promise(passage);
    }
}

#[test]
fn placement_basis_is_known_without_measurements() {
    for probes in [Probes::Off, Probes::OneIn64] {
        let mut statistics = Statistics::new(probes, levels(0).1);
        play(&mut statistics, &passage(None));
        assert_eq!(statistics.basis(), Some(Basis::Arrival));
        play(&mut statistics, &passage(Some(Span::from_millis(20))));
        let mut status = status(990);
        status.stream.basis = Some(Basis::Arrival);
        statistics.status = Some(status);
        assert_eq!(statistics.basis(), Some(Basis::Clock), "{probes}");
    }
}

#[test]
fn clock_known_during_playback_stays_known() {
    let mut statistics = Statistics::new(Probes::All, levels(0).1);
    let with = |basis| {
        let mut status = status(990);
        status.stream.basis = Some(basis);
        Some(status)
    };
    statistics.status = with(Basis::Clock);
    play(&mut statistics, &passage(Some(Span::from_millis(20))));
    statistics.status = with(Basis::Arrival);
    assert_eq!(statistics.basis(), Some(Basis::Clock));
}

#[test]
fn packets_without_a_capture_time_are_counted_separately() {
    let mut statistics = Statistics::new(Probes::All, levels(0).1);
    (0..3).for_each(|_| play(&mut statistics, &passage(None)));
    assert_eq!((statistics.basis(), statistics.unmapped), (Some(Basis::Arrival), 3));
    assert_eq!(statistics.latency().0.count(), 0);
}

#[test]
fn latency_source_is_device_or_due_unless_found_in_sound() {
    for source in [TimestampSource::Device, TimestampSource::Due] {
        let mut statistics = Statistics::new(Probes::All, levels(0).1);
        statistics.timestamp_source = source;
        statistics.promise(&passage(Some(Span::from_millis(20))));
        assert_eq!(statistics.by(), source.name());
        let (media, measured) = (MediaTime::ZERO, Span::from_millis(20));
        statistics.found(FoundPacket { media, measured, error: Span::ZERO });
        assert_eq!(statistics.by(), "sound");
    }
}

#[test]
fn the_recent_latency_is_that_of_the_newest_packets() {
    let mut statistics = Statistics::new(Probes::All, levels(0).1);
    assert_eq!(statistics.recent(), None);
    for millis in (0..1_000).map(|_| 5).chain((0..31).map(|_| 20)) {
        let (media, measured) = (MediaTime::ZERO, Span::from_millis(millis));
        statistics.found(FoundPacket { media, measured, error: Span::ZERO });
    }
    let found = (Span::from_millis(20), LatencyMethod::Sound);
    assert_eq!(statistics.recent(), Some(found));
    assert_eq!(statistics.latency().0.median(), Some(Span::from_millis(5)));
}

#[test]
fn observers_see_a_whole_second_of_a_long_device_buffer() {
    let mut statistics = Statistics::new(Probes::All, levels(0).1);
    statistics.observed.look(at(0), true, || true);
    for millis in (1_000..5_000).step_by(10) {
        let (written, dac) = (at(millis), at(millis + 1_500));
        let arrival = at(millis - 300);
        let passage = PacketTrace { arrival, read: arrival, written, dac, ..passage(None) };
        play(&mut statistics, &passage);
    }
    let received: Vec<_> =
        statistics.observed.packets(at(5_000)).map(|passage| passage.dac).collect();
    assert_eq!((received[0], received.len()), (at(4_000), 101));
}

#[test]
fn latency_after_a_change_is_that_of_the_last_packets() {
    let mut statistics = Statistics::new(Probes::All, levels(0).1);
    let plays = |statistics: &mut Statistics, millis| {
        (0..100).for_each(|_| play(statistics, &passage(Some(Span::from_millis(millis)))));
    };
    plays(&mut statistics, 8);
    plays(&mut statistics, 8);
    assert_eq!(statistics.changed_latency(), None);
    statistics.is_changed = true;
    plays(&mut statistics, 9);
    assert_eq!(statistics.changed_latency(), Some(Span::from_millis(9)));
    let median = statistics.latency().0.median().unwrap();
    assert!(median < Span::from_micros(8_500), "{median}");
}

#[test]
fn packets_of_a_late_device_are_not_the_worst() {
    let mut statistics = Statistics::new(Probes::All, levels(0).1);
    let buffered = |millis: i64| {
        let (taken, written) = (at(1_000 + millis), at(1_000 + millis));
        PacketTrace { taken, written, dac: at(1_100), ..passage(None) }
    };
    let late_device = PacketTrace { dac: at(960), ..buffered(20) };
    let outcome = tautline_proto::ledger::Outcome::Late;
    let late = PacketTrace { dac: at(1_009), outcome, ..buffered(10) };
    (1..=9).for_each(|millis| statistics.enter(&buffered(millis), None));
    [late_device, late].iter().for_each(|passage| statistics.enter(passage, None));
    let worst: Vec<_> =
        statistics.worst.iter().map(|it| it.stage(Stage::Buffer).unwrap()).collect();
    let expected = [10, 1, 2, 3, 4, 5, 6, 7, 8, 9].map(Span::from_millis);
    assert_eq!(worst, expected);
}
