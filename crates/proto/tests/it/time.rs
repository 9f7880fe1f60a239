//! Instants, spans and positions at the ends of their range, and display.

use proptest::prelude::*;
use tautline_proto::time::{FineFrames, Frames, LocalTime, MediaPoint, MediaTime, Span};
use tautline_proto::units::Rate;

/// The ends of the range are as likely as all others.
fn extreme() -> impl Strategy<Value = i64> {
    prop_oneof![
        any::<i64>(),
        -1000..1000_i64,
        (0..3_i64).prop_map(|below| i64::MAX - below),
        (0..3_i64).prop_map(|above| i64::MIN + above),
    ]
}

fn read(text: &str) -> Option<(f64, f64)> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    digits.parse().ok().map(|figure: f64| (figure, unit))
}

#[test]
fn never_stays_never_whatever_is_added_or_taken() {
    for span in [Span::ZERO, Span::MAX, -Span::MAX, Span::from_nanos(i64::MIN), Span::from_secs(1)]
    {
        assert!((LocalTime::NEVER + span).is_never(), "{span}");
        assert!((LocalTime::NEVER - span).is_never(), "{span}");
    }
}

#[test]
fn the_origin_is_an_ordinary_instant() {
    assert_eq!(LocalTime::ZERO + Span::from_millis(1), LocalTime::from_nanos(1_000_000));
    assert_eq!(LocalTime::ZERO - Span::from_millis(1), LocalTime::from_nanos(-1_000_000));
    assert_eq!(LocalTime::default(), LocalTime::ZERO);
    assert!(LocalTime::ZERO < LocalTime::NEVER && !LocalTime::ZERO.is_never());
}

#[test]
fn a_length_is_written_in_the_unit_that_people_would_choose() {
    for (nanos, text) in [
        (0, "0ms"),
        (20, "20ns"),
        (999, "999ns"),
        (1_000, "1us"),
        (125_000, "125us"),
        (2_500_000, "2.5ms"),
        (-2_500_000, "-2.5ms"),
        (1_000_001, "1ms"),
        (1_001_000, "1.001ms"),
        (20_000_000, "20ms"),
        (1_250_000_000, "1.25s"),
        (i64::MIN, "-9223372036.854s"),
    ] {
        assert_eq!(Span::from_nanos(nanos).to_string(), text);
    }
}

proptest! {
    #[test]
    fn a_written_length_reads_back_within_its_last_digit(nanos in extreme()) {
        let text = Span::from_nanos(nanos).to_string();
        let (figure, unit) = read(&text).expect("a number and a unit");
        prop_assert!((figure * unit - nanos as f64).abs() <= unit / 1000.0 + nanos.abs_diff(0) as f64 * 1e-15);
        prop_assert!(nanos == 0 || figure.abs() >= 1.0, "{}", text);
        prop_assert!(unit == 1e9 || figure.abs() < 1000.0, "{}", text);
    }

    #[test]
    fn adding_and_subtracting_a_span_is_exact(at in -1_i64 << 61..1 << 61, by in -1_i64 << 61..1 << 61) {
        let (instant, span) = (LocalTime::from_nanos(at), Span::from_nanos(by));
        prop_assert_eq!(instant + span - span, instant);
        prop_assert_eq!((instant + span) - instant, span);
        let (media, frames) = (MediaTime::from_frames(at), Frames::new(by));
        prop_assert_eq!(media + frames - frames, media);
        prop_assert_eq!((media + frames) - media, frames);
    }

    #[test]
    fn no_arithmetic_overflows(a in extreme(), b in extreme()) {
        let (instant, span, other) = (LocalTime::from_nanos(a), Span::from_nanos(a), Span::from_nanos(b));
        let wide = |sum: i128| sum.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        let (x, y) = (i128::from(a), i128::from(b));
        prop_assert_eq!((span + other).as_nanos(), wide(x + y));
        prop_assert_eq!((span - other).as_nanos(), wide(x - y));
        prop_assert_eq!((-span).as_nanos(), wide(-x));
        prop_assert_eq!(span.abs().as_nanos(), wide(x.abs()));
        prop_assert_eq!(span.times(b).as_nanos(), wide(x * y));
        prop_assert_eq!(span.divided(b).as_nanos(), wide(if b == 0 { x } else { x / y }));
        prop_assert_eq!(Span::from_secs(a).as_nanos(), wide(x * 1_000_000_000));
        if !instant.is_never() {
            prop_assert_eq!((instant + other).as_nanos(), wide(x + y));
        }
        prop_assert_eq!((instant - LocalTime::from_nanos(b)).as_nanos(), wide(x - y));
        let (media, frames) = (MediaTime::from_frames(a), Frames::new(b));
        prop_assert_eq!((media + frames).as_frames(), wide(x + y));
        prop_assert_eq!((media - frames).as_frames(), wide(x - y));
        prop_assert_eq!((Frames::new(a) - frames).count(), wide(x - y));
        prop_assert_eq!((-frames).count(), wide(-y));
        prop_assert_eq!(frames.as_len(), b.max(0) as usize);
    }
}

proptest! {
    #[test]
    fn point_after_a_frame_has_the_requested_distance(
        frame in -1_000_000_000_000i64..1_000_000_000_000,
        nanos in -10_000_000_000_000i64..10_000_000_000_000,
        rate in proptest::sample::select(&Rate::SUPPORTED),
    ) {
        let (rate, frame) = (Rate::new(rate).unwrap(), MediaTime::from_frames(frame));
        let point = rate.point_after(frame, Span::from_nanos(nanos));
        prop_assert_eq!(rate.span_of_fine(point - MediaPoint::from(frame)).as_nanos(), nanos);
    }

    #[test]
    fn a_distance_between_points_leads_from_one_to_the_other(
        frames in proptest::array::uniform2(-1_000_000i64..1_000_000),
        fractions in proptest::array::uniform2(0..=u32::MAX),
    ) {
        let point = |at: usize| MediaPoint {
            frame: MediaTime::from_frames(frames[at]),
            fraction: fractions[at],
        };
        prop_assert_eq!(point(0) + (point(1) - point(0)), point(1));
        let nearest = point(0).nearest();
        let away = (MediaPoint::from(nearest) - point(0)).parts().abs();
        prop_assert!(away <= FineFrames::ONE / 2);
    }
}
