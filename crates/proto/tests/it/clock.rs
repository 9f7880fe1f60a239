//! Mapping of media time to the sender's clock, from frequent or rare readings.

use proptest::prelude::*;
use tautline_proto::clock::{MediaClock, ReadingOutcome};
use tautline_proto::time::{Frames, MediaTime, Span, WallTime};
use tautline_proto::units::{Ppm, Rate};

const START: WallTime = WallTime::from_unix_nanos(1_700_000_000_000_000_000);

fn truth(media: MediaTime, drift: Ppm) -> WallTime {
    START + drift.unstretch(Rate::HZ_48000.span_of(media - MediaTime::ZERO))
}

/// Maximum error after settling, with readings every `apart`.
fn worst(drift: Ppm, apart: Span, mut noise: impl FnMut(i64) -> Span) -> Span {
    let mut clock = MediaClock::new(Rate::HZ_48000);
    let step = Rate::HZ_48000.frames_within(apart);
    let mut worst = Span::ZERO;
    for reading in 0..2000 {
        let media = MediaTime::from_frames(step.count() * reading);
        let taken = clock.observe(media, truth(media, drift) + noise(reading));
        assert_eq!(taken, ReadingOutcome::Agreed);
        if reading > 1000 {
            let error = clock.wall(media).expect("just read") - truth(media, drift);
            worst = worst.max(error.abs());
        }
    }
    worst
}

#[test]
fn a_card_of_100_ppm_is_followed_however_long_its_packets_are() {
    for micros in [125, 1000, 5000, 20_000] {
        for ppm in [-100.0, 100.0] {
            let off = worst(Ppm::from_f64(ppm), Span::from_micros(micros), |_| Span::ZERO);
            assert!(off <= Span::from_micros(10), "{ppm} ppm, every {micros} us: {off}");
        }
    }
}

#[test]
fn a_card_of_500_ppm_is_followed_without_a_lag() {
    for micros in [1000, 500_000] {
        for ppm in [-500.0, 500.0] {
            let off = worst(Ppm::from_f64(ppm), Span::from_micros(micros), |_| Span::ZERO);
            assert!(off <= Span::from_micros(1), "{ppm} ppm, every {micros} us: {off}");
        }
    }
}

#[test]
fn a_card_of_100_ppm_is_followed_by_reports_alone() {
    let off = worst(Ppm::from_f64(100.0), Span::from_millis(500), |_| Span::ZERO);
    assert!(off <= Span::from_micros(1), "{off}");
}

#[test]
fn stamps_that_jitter_by_50_us_come_through_with_less_than_5() {
    let jitter = |reading: i64| Span::from_micros((reading * 7919) % 101 - 50);
    let off = worst(Ppm::from_f64(-80.0), Span::from_millis(1), jitter);
    assert!(off <= Span::from_micros(5), "{off}");
    let jitter = |reading: i64| Span::from_micros((reading / 10 * 7919) % 101 - 50);
    let off = worst(Ppm::from_f64(-80.0), Span::from_millis(1), jitter);
    assert!(off <= Span::from_micros(5), "{off}");
}

#[test]
fn card_rate_step_of_100_ppm_is_followed_within_5_s() {
    let mut clock = MediaClock::new(Rate::HZ_48000);
    let mut wall = START;
    for reading in 0..20_000 {
        let media = MediaTime::from_frames(48 * reading);
        clock.observe(media, wall);
        let error = (clock.wall(media).expect("just read") - wall).abs();
        let maximum = if (10_000..15_000).contains(&reading) { 50 } else { 5 };
        assert!(error <= Span::from_micros(maximum), "reading {reading}: {error}");
        wall = wall + Span::from_nanos(if reading < 10_000 { 1_000_000 } else { 1_000_100 });
    }
    let rate = clock.card_rate().expect("read").rate.as_f64();
    assert!((rate + 100.0).abs() < 1.0, "{rate}");
}

#[test]
fn the_jitter_of_stamps_is_smoothed() {
    let jitter = |reading: i64| Span::from_micros((reading * 7919) % 401 - 200);
    let off = worst(Ppm::ZERO, Span::from_millis(1), jitter);
    assert!(off <= Span::from_micros(30), "{off}");
    let off = worst(Ppm::ZERO, Span::from_millis(500), jitter);
    assert!(off <= Span::from_micros(150), "{off}");
}

#[test]
fn one_wrong_stamp_is_doubted_and_a_second_like_it_believed() {
    let mut clock = MediaClock::new(Rate::HZ_48000);
    let media = |n: i64| MediaTime::from_frames(48 * n);
    let wall = |n: i64| truth(media(n), Ppm::ZERO);
    assert_eq!(clock.observe(media(0), wall(0)), ReadingOutcome::Agreed);
    assert_eq!(clock.observe(media(1), wall(1) + Span::from_secs(1)), ReadingOutcome::Doubted);
    assert_eq!(clock.wall(media(1)), Some(wall(1)));
    assert_eq!(clock.observe(media(2), wall(2)), ReadingOutcome::Agreed);
    assert_eq!(clock.observe(media(3), wall(3) + Span::from_secs(1)), ReadingOutcome::Doubted);
    assert_eq!(clock.observe(media(4), wall(4) + Span::from_secs(1)), ReadingOutcome::Jumped);
    assert_eq!(clock.wall(media(4)), Some(wall(4) + Span::from_secs(1)));
}

proptest! {
    #[test]
    fn the_order_of_readings_makes_no_harm(
        readings in prop::collection::vec((0..5000_i64, -300_i64..300), 1..300),
    ) {
        let mut clock = MediaClock::new(Rate::HZ_48000);
        let mut unread = Span::ZERO;
        for (number, micros) in readings {
            let media = MediaTime::ZERO + Frames::new(48 * number);
            let before = clock.reference().map_or(media, |(newest, _)| newest);
            clock.observe(media, truth(media, Ppm::ZERO) + Span::from_micros(micros));
            let error = clock.wall(media).expect("just read") - truth(media, Ppm::ZERO);
            let (newest, _) = clock.reference().expect("just read");
            let ago = Rate::HZ_48000.span_of(newest - media);
            // A line with a slope swings more, the longer it lacks a reading.
            unread = unread.max(Rate::HZ_48000.span_of(newest - before));
            let maximum = Span::from_millis(1) + (ago + unread).divided(1000);
            prop_assert!(error.abs() <= maximum, "{error}");
        }
    }
}
