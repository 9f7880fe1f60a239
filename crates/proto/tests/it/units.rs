//! Conversions between frames and time, rate errors, and unsupported values.

use proptest::prelude::*;
use tautline_proto::stream::packet_frames;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Ppm, Rate, UnitError};

fn rate() -> impl Strategy<Value = Rate> {
    prop::sample::select(&Rate::SUPPORTED[..])
        .prop_map(|hertz| Rate::new(hertz).expect("supported"))
}

/// 400 days at the highest rate.
const YEARS: i64 = 192_000 * 86_400 * 400;

#[test]
fn a_year_at_every_rate_converts_without_drift() {
    for hertz in Rate::SUPPORTED {
        let rate = Rate::new(hertz).unwrap();
        let year = Frames::new(i64::from(hertz) * 86_400 * 365);
        assert_eq!(rate.span_of(year), Span::from_secs(86_400 * 365));
        for odd in [1, 7, 441, 44_099] {
            let frames = year + Frames::new(odd);
            assert_eq!(rate.frames_nearest(rate.span_of(frames)), frames, "{hertz} {odd}");
        }
    }
}

#[test]
fn a_length_that_no_64_bits_hold_is_held_at_the_end() {
    let rate = Rate::HZ_48000;
    assert_eq!(rate.span_of(Frames::new(i64::MAX)), Span::MAX);
    assert_eq!(rate.span_of(Frames::new(i64::MIN)), Span::from_nanos(i64::MIN));
    let fast = Ppm::from_millionths(i64::MAX);
    assert_eq!(fast.stretch(Span::MAX), Span::MAX);
    let stopped = Ppm::from_millionths(i64::MIN);
    assert_eq!(stopped.unstretch(Span::MAX), Span::MAX);
    assert_eq!(stopped.unstretch(-Span::MAX), Span::from_nanos(i64::MIN));
}

#[test]
fn frame_length_agrees_with_whole_nanosecond_conversion() {
    for hertz in Rate::SUPPORTED {
        let rate = Rate::new(hertz).unwrap();
        for count in [0, 1, 48, 34_359, 34_360, 131_072, 1 << 24, u32::MAX] {
            let by_parts = rate.frame_length().frames(count);
            // A frame is exact to 2⁻³² ns: one nanosecond in this many frames.
            let apart = (by_parts - rate.span_of(Frames::new(i64::from(count)))).abs();
            assert!(apart <= Span::from_nanos(1), "{count} at {hertz} Hz: {by_parts:?}");
        }
    }
}

#[test]
fn uncarriable_values_are_reported() {
    assert_eq!(Rate::new(12_000), Err(UnitError::Rate(12_000)));
    let reported = UnitError::Rate(12_000).to_string();
    for hertz in Rate::SUPPORTED {
        assert!(reported.contains(&format!(" {hertz}")), "no {hertz} in {reported:?}");
    }
    for count in [0, 65, 65_537, u32::MAX] {
        assert_eq!(Channels::new(count), Err(UnitError::Channels(count)));
    }
    for micros in [-1, 0, 124, 20_001] {
        assert!(packet_frames(Rate::HZ_48000, Span::from_micros(micros)).is_err(), "{micros}");
    }
}

proptest! {
    #[test]
    fn frames_become_time_and_the_same_frames_again(rate in rate(), count in -YEARS..YEARS) {
        let frames = Frames::new(count);
        prop_assert_eq!(rate.frames_nearest(rate.span_of(frames)), frames);
    }

    #[test]
    fn a_span_is_the_nearest_nanosecond(rate in rate(), count in -YEARS..YEARS) {
        let off = i128::from(rate.span_of(Frames::new(count)).as_nanos()) * i128::from(rate.hertz())
            - i128::from(count) * 1_000_000_000;
        prop_assert!(off.abs() * 2 <= i128::from(rate.hertz()), "{off}");
    }

    #[test]
    fn frames_within_a_span_fit_and_one_more_does_not(rate in rate(), nanos in any::<i64>()) {
        let exact = i128::from(nanos) * i128::from(rate.hertz());
        let frames = i128::from(rate.frames_within(Span::from_nanos(nanos)).count());
        prop_assert!(frames * 1_000_000_000 <= exact);
        prop_assert!((frames + 1) * 1_000_000_000 > exact);
    }

    #[test]
    fn nearest_frames_are_within_half_a_frame(rate in rate(), nanos in any::<i64>()) {
        let exact = i128::from(nanos) * i128::from(rate.hertz());
        let frames = i128::from(rate.frames_nearest(Span::from_nanos(nanos)).count());
        prop_assert!((frames * 1_000_000_000 - exact).abs() * 2 <= 1_000_000_000);
    }

    #[test]
    fn packet_fills_the_requested_microseconds(rate in rate(), micros in 125_i64..=20_000) {
        let (ptime, next) = (Span::from_micros(micros), Span::from_micros(micros + 1));
        let frames = packet_frames(rate, ptime).unwrap();
        prop_assert!(frames > Frames::ZERO && rate.span_of(frames) < next);
        prop_assert!(rate.span_of(frames + Frames::new(1)) >= ptime);
    }

    #[test]
    fn ptime_in_microseconds_has_the_frames_of_a_period(count in 6_i64..=960) {
        let frames = Frames::new(count);
        let micros = Rate::HZ_48000.span_of(frames).as_nanos() / 1000;
        prop_assert_eq!(packet_frames(Rate::HZ_48000, Span::from_micros(micros)).unwrap(), frames);
    }

    #[test]
    fn clock_model_inverts_within_1_ns(
        millionths in -1_000_000_000_i64..1_000_000_000, // 1000 ppm
        nanos in -1_i64 << 60..1 << 60,
    ) {
        let (error, span) = (Ppm::from_millionths(millionths), Span::from_nanos(nanos));
        let there_and_back = error.unstretch(error.stretch(span));
        prop_assert!((there_and_back - span).abs() <= Span::from_nanos(1));
        let back_and_there = error.stretch(error.unstretch(span));
        prop_assert!((back_and_there - span).abs() <= Span::from_nanos(1));
    }

    #[test]
    fn a_rate_error_never_overflows(millionths in any::<i64>(), nanos in any::<i64>()) {
        let (error, span) = (Ppm::from_millionths(millionths), Span::from_nanos(nanos));
        let _ = (error.stretch(span), error.unstretch(span), error.to_string());
        prop_assert_eq!(Ppm::ZERO.stretch(span), span);
        prop_assert_eq!(Ppm::ZERO.unstretch(span), span);
    }

    #[test]
    fn samples_and_frames_agree(count in 1_u32..=64, frames in 0_i64..10_000) {
        let channels = Channels::new(count).unwrap();
        let samples = channels.samples_in(Frames::new(frames));
        prop_assert_eq!(samples, frames as usize * count as usize);
        prop_assert_eq!(channels.frames_in(samples), Frames::new(frames));
    }
}
