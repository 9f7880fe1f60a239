//! Due positions and their uncertainty, by the known clocks.

use tautline_proto::clock::{Choice, ClockMapping, ReadingOutcome};
use tautline_proto::placement::{Basis, Cards, Due, Placement};
use tautline_proto::time::{Frames, LocalTime, MediaPoint, MediaTime, Span, WallTime};
use tautline_proto::units::Rate;

const RATE: Rate = Rate::HZ_48000;
const OFFSET: Span = Span::from_millis(5);
/// Sender's wall clock minus ours.
const WALL: Span = Span::from_secs(1_000_000);

fn at(micros: i64) -> LocalTime {
    LocalTime::from_nanos(2_000_000_000) + Span::from_micros(micros)
}

fn wall(micros: i64) -> WallTime {
    WallTime::of_local(at(micros), WALL)
}

fn frame(index: i64) -> MediaTime {
    MediaTime::from_frames(index)
}

/// Knows the capture time of a frame every millisecond.
fn captured(clock: Option<ClockMapping>) -> Placement {
    let mut placement = Placement::new(RATE, OFFSET);
    if let Some(clock) = clock {
        placement.set_clock(clock);
    }
    for milli in 0..500 {
        let reading = placement.observe_capture(frame(milli * 48), wall(milli * 1000));
        assert_eq!(reading, ReadingOutcome::Agreed);
        placement.observe_arrival(frame(milli * 48), Frames::new(48), at(milli * 1000 + 3000));
    }
    placement
}

fn exchanged() -> ClockMapping {
    ClockMapping::known(WALL, Span::from_micros(80))
}

fn same_host() -> ClockMapping {
    Choice::default().same_host(WALL, at(0)).expect("the first mapping")
}

fn nanos_of(point: MediaPoint, from: MediaPoint) -> i64 {
    ((point - from).as_f64() * 1e9 / f64::from(RATE.hertz())).round() as i64
}

#[test]
fn a_frame_is_due_the_link_offset_after_its_capture() {
    let mut placement = captured(Some(exchanged()));
    assert_eq!(placement.link_offset(), OFFSET);
    let captured = placement.capture(frame(480)).expect("the clock is mapped");
    assert!((captured - at(10_000)).abs() <= Span::from_nanos(10), "{captured:?}");
    for offset in [OFFSET, Span::from_millis(9)] {
        placement.set_link_offset(offset);
        let presentation = placement.presentation(frame(480)).expect("the clock is mapped");
        assert_eq!(presentation, captured + offset);
        let due = placement.due(presentation).expect("the clock is mapped");
        let away = nanos_of(due.point, MediaPoint { frame: frame(480), fraction: 0 });
        assert!(away.abs() <= 1, "{away} ns");
        assert_eq!((due.basis, due.cards), (Basis::Clock, Cards::Apart));
        assert_eq!(due.uncertainty, Span::from_micros(80));
    }
    assert_eq!(placement.local(wall(77)), Some(at(77)));
}

#[test]
fn without_a_clock_the_fastest_arrival_dates_the_last_frame() {
    let placement = captured(None);
    assert_eq!((placement.capture(frame(480)), placement.local(wall(0))), (None, None));
    // The packet left at least 1 ms after its first frame, and arrived 3 ms later.
    let presentation = placement.presentation(frame(480)).expect("packets came");
    let away = presentation - (at(10_000 + 2000) + OFFSET);
    assert!(away.abs() < Span::from_micros(1), "{away}");
    let due = placement.due(presentation).expect("packets came");
    let away = nanos_of(due.point, MediaPoint { frame: frame(480), fraction: 0 });
    assert!(away.abs() <= 1, "{away} ns");
    assert_eq!((due.basis, due.precision), (Basis::Arrival, None));
}

#[test]
fn next_run_uses_its_own_captures_and_the_same_clock() {
    let mut placement = captured(Some(exchanged()));
    placement.begin_run(frame(0), frame(0), false);
    assert_eq!((placement.presentation(frame(0)), placement.due(at(0))), (None, None));
    assert_eq!(placement.local(wall(5)), Some(at(5)));
    placement.observe_capture(frame(0), wall(0));
    let presentation = placement.presentation(frame(0)).expect("one is enough");
    assert_eq!(presentation, at(0) + OFFSET);
    let begins = at(0) + RATE.span_of(Frames::new(1000)) + Span::from_nanos(10_417);
    placement.begin_run(frame(1000), frame(900), true);
    placement.observe_capture(frame(1000), wall(0) + (begins - at(0)));
    assert_eq!(placement.presentation(frame(1000)), Some(begins + OFFSET));
    assert_eq!(placement.presentation(frame(0)), Some(at(0) + OFFSET));
    let due = |placement: &Placement| placement.due(begins + OFFSET).expect("known").point;
    assert_eq!(due(&placement).frame, frame(1000));
    assert!(!placement.take_next_run(frame(899)) && placement.moved() == Span::MAX);
    assert!(due(&placement).fraction > 0);
    assert!(placement.take_next_run(frame(900)) && !placement.take_next_run(frame(2000)));
    assert_eq!(due(&placement), MediaPoint::from(frame(1000)));
    placement.forget_all();
    assert_eq!((placement.local(wall(5)), placement.presentation(frame(0))), (None, None));
    assert_eq!(placement.link_offset(), OFFSET);
}

#[test]
fn waiting_runs_use_their_own_captures_to_their_end() {
    let begins = |run: i64| wall(0) + RATE.span_of(Frames::new(1000 * run)) + part(run);
    let received = |run: i64| at(0) + (begins(run) - wall(0)) + OFFSET;
    for runs in 1..=5 {
        let mut placement = captured(Some(exchanged()));
        placement.begin_run(frame(0), frame(0), false);
        placement.observe_capture(frame(0), begins(0));
        for run in 1..=runs {
            placement.begin_run(frame(1000 * run), frame(1000 * run - 100), true);
            placement.observe_capture(frame(1000 * run), begins(run));
        }
        // With more than four runs, the last one uses the newest line.
        let off = |run: i64| if run < 3 { Span::ZERO } else { part(runs) - part(run) };
        for run in 0..=runs {
            let presentation = placement.presentation(frame(1000 * run)).expect("known");
            let away = presentation - (received(run) + off(run));
            assert!(away.abs() <= Span::from_nanos(1), "{run} of {runs}: {away}");
        }
        let mut taken = 0;
        for place in 0..1000 * runs {
            let due = placement.due(received(taken) + off(taken)).expect("known").point;
            let away = nanos_of(due, frame(1000 * taken).into());
            assert!(away.abs() <= 1, "{runs}: {away} ns at {place}");
            let ends = place == 1000 * (taken + 1) - 100 && taken < runs.min(3);
            assert_eq!(placement.take_next_run(frame(place)), ends, "{runs}: at {place}");
            taken += i64::from(ends);
        }
    }
    let mut placement = captured(Some(exchanged()));
    placement.begin_run(frame(100_000), frame(90_000), true);
    placement.begin_run(frame(200_000), frame(190_000), true);
    placement.observe_capture(frame(200_000), wall(7_000_000));
    assert!(placement.take_next_run(frame(195_000)) && !placement.take_next_run(frame(300_000)));
    assert_eq!(placement.presentation(frame(200_000)), Some(at(7_000_000) + OFFSET));
    placement.begin_run(frame(300_000), frame(290_000), true);
    placement.begin_run(frame(400_000), frame(390_000), false);
    placement.observe_capture(frame(400_000), wall(9_000_000));
    assert!(!placement.take_next_run(frame(500_000)), "none waits");
    assert_eq!(placement.presentation(frame(400_000)), Some(at(9_000_000) + OFFSET));
}

fn part(eighths: i64) -> Span {
    RATE.span_of(Frames::new(1)).times(eighths).divided(8)
}

#[test]
fn fast_card_is_measured_by_captures_and_by_arrivals() {
    for mapped in [true, false] {
        let mut placement = Placement::new(RATE, OFFSET);
        if mapped {
            // Only a measured mapping has a rate.
            placement.set_clock(same_host());
        }
        assert_eq!(placement.card_rate(), None);
        for milli in 0..60_000 {
            // 100 ppm.
            let media = frame(milli * 48 + milli * 48 / 10_000);
            placement.observe_capture(media, wall(milli * 1000));
            placement.observe_arrival(media, Frames::new(48), at(milli * 1000 + 3000));
        }
        let rate = placement.card_rate().expect("a minute was seen").rate.as_f64();
        assert!((rate - 100.0).abs() < 2.0, "mapped {mapped}: {rate}");
    }
}

#[test]
fn cards_of_one_clock_go_by_the_newest_frame_alone() {
    let mut placement = captured(Some(same_host()));
    let due = |placement: &Placement, micros| placement.due(at(micros)).expect("mapped");
    assert_eq!(due(&placement, 500_000).cards, Cards::Apart);
    placement.set_one_clock(true);
    // 40 µs off. Later readings of earlier frames do not count.
    placement.observe_capture(frame(24_000), wall(500_040));
    placement.observe_capture(frame(23_952), wall(499_000));
    placement.observe_capture(frame(24_000), wall(500_010));
    let Due { point, cards, basis, uncertainty, precision } = due(&placement, 505_040);
    let newest = MediaPoint { frame: frame(24_000), fraction: 0 };
    assert!(nanos_of(point, newest).abs() < 30, "{point:?}");
    assert_eq!((cards, basis, uncertainty), (Cards::OneClock, Basis::Clock, Span::ZERO));
    assert_eq!(precision, Some(Span::ZERO));
    // Valid for one second.
    assert_eq!(due(&placement, 1_505_000).cards, Cards::OneClock);
    assert_eq!(due(&placement, 1_505_100).cards, Cards::Unseen);
    placement.set_clock(exchanged());
    assert_eq!(due(&placement, 505_040).cards, Cards::Apart);
}

#[test]
fn a_timeline_that_jumps_back_is_the_newest_once_it_is_believed() {
    let mut placement = captured(Some(same_host()));
    placement.set_one_clock(true);
    let readings = [0, 1].map(|milli| {
        // The sender restarts its count.
        placement.observe_capture(frame(milli * 48), wall(600_000 + milli * 1000))
    });
    assert_eq!(readings, [ReadingOutcome::Doubted, ReadingOutcome::Jumped]);
    let due = placement.due(at(606_000)).expect("mapped");
    assert!(nanos_of(due.point, MediaPoint { frame: frame(48), fraction: 0 }).abs() < 30);
}

#[test]
fn tolerance_is_the_uncertainty_and_a_frame() {
    let due = |basis, micros| Due {
        point: MediaPoint { frame: frame(0), fraction: 0 },
        uncertainty: Span::from_micros(micros),
        precision: None,
        basis,
        cards: Cards::Apart,
    };
    let frame = RATE.frame_length();
    let tolerance = |basis, micros| due(basis, micros).tolerance(frame) - frame.frames(1);
    assert_eq!(tolerance(Basis::Clock, 80), Span::from_micros(80));
    assert_eq!(tolerance(Basis::Arrival, 80), Span::from_micros(1080));
    // An eighth of the uncertainty, at most 4 ms, plus two frames.
    let strays = |basis, micros| due(basis, micros).strays(frame) - frame.frames(2);
    assert_eq!(strays(Basis::Clock, 80), Span::from_micros(10));
    assert_eq!(strays(Basis::Clock, 100_000), Span::from_millis(4));
    assert_eq!(strays(Basis::Arrival, 80), Span::from_micros(330));
}
