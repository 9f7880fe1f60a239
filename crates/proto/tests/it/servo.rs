//! The rate servo alone: the due position is a line with drift and noise.

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use tautline_proto::servo::{Observation, Servo};
use tautline_proto::time::{FineFrames, Frames, MediaPoint, MediaTime, Span};
use tautline_proto::units::Rate;

const PERIOD: i64 = 48;
const RATE: Rate = Rate::HZ_48000;

struct Card {
    rate: Rate,
    servo: Servo,
    due: MediaPoint,
    place: MediaPoint,
    tolerance: Span,
    strays: Span,
    precision: Option<Span>,
    looks_ahead: bool,
    one_clock: bool,
    /// Deviations from 1 in ppm.
    steps: Vec<f64>,
}

impl Card {
    fn new(tolerance: Span) -> Self {
        Self::at(RATE, tolerance)
    }

    fn at(rate: Rate, tolerance: Span) -> Self {
        let start = MediaPoint::from(MediaTime::from_frames(10_000));
        Self {
            rate,
            servo: Servo::new(rate),
            due: start,
            place: start,
            tolerance,
            strays: tolerance,
            precision: None,
            looks_ahead: true,
            one_clock: false,
            steps: Vec::new(),
        }
    }

    fn block(&mut self, drift: f64, noise: Span) {
        let due = self.rate.point_after(self.due, noise);
        let step = self.servo.step(&Observation {
            due,
            place: self.place,
            tolerance: self.tolerance,
            strays: self.strays,
            precision: self.precision,
            looks_ahead: self.looks_ahead,
            frames: Frames::new(PERIOD),
            skipped: Frames::ZERO,
            one_clock: self.one_clock,
        });
        if self.servo.copies() {
            self.place.fraction = 0;
        }
        self.place = self.place + parts(step.bits() as i64 * PERIOD);
        let advance = (1.0 + drift * 1e-6) * PERIOD as f64 * FineFrames::ONE as f64;
        self.due = self.due + parts(advance as i64);
        self.steps.push(step.as_ppm());
    }

    fn blocks(&mut self, seconds: i64, drift: f64) {
        let blocks = seconds * i64::from(self.rate.hertz()) / PERIOD;
        (0..blocks).for_each(|_| self.block(drift, Span::ZERO));
    }

    fn error(&self) -> Span {
        self.rate.span_of_fine(self.due - self.place)
    }
}

fn parts(parts: i64) -> FineFrames {
    FineFrames::from_parts(parts)
}

#[test]
fn streams_on_one_clock_are_always_copied() {
    let mut card = Card::new(Span::from_micros(50));
    let mut random = 7_u32;
    for _ in 0..600_000 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        card.block(0.0, Span::from_nanos(i64::from(random >> 16) - 32_768));
    }
    assert!(card.steps.iter().all(|step| *step == 0.0));
    assert_eq!(card.place.fraction, 0);
}

#[test]
fn drift_is_followed_before_clocks_measure_it() {
    let mut card = Card::new(Span::from_millis(250));
    card.strays = Span::from_millis(4);
    card.blocks(100, 300.0);
    assert!(card.error().abs() < Span::from_micros(1), "{}", card.error());
}

#[test]
fn an_error_that_stays_is_no_drift() {
    let mut card = Card::new(Span::from_millis(250));
    card.strays = Span::from_millis(4);
    card.due = RATE.point_after(card.due.frame, Span::from_millis(100));
    card.blocks(60, 0.0);
    assert!(card.steps.iter().all(|step| *step == 0.0));
}

#[test]
fn a_drift_is_made_up_for_to_less_than_a_microsecond() {
    for drift in [-500.0, -3.0, 3.0, 500.0] {
        let mut card = Card::new(Span::from_micros(50));
        card.blocks(60, drift);
        assert!(card.error().abs() < Span::from_micros(1), "{drift}: {}", card.error());
        let found = card.servo.drift().expect("followed").as_f64();
        assert!((found + drift).abs() < 0.01, "{drift}: {found}");
    }
}

#[test]
fn drift_is_followed_at_every_rate_then_copied_again() {
    for rate in Rate::SUPPORTED.map(|hertz| Rate::new(hertz).expect("supported")) {
        // Whole frames: see `Due::tolerance`.
        let tolerance = Span::from_micros(50) + rate.span_of(Frames::new(1));
        for drift in [-500.0, -20.0, 20.0, 500.0] {
            let mut card = Card::at(rate, tolerance);
            card.blocks(60, drift);
            let reported = format!("{rate}, {drift} ppm: {}", card.error());
            assert!(card.error().abs() < Span::from_micros(1), "{reported}");
            let found = card.servo.drift().expect("followed").as_f64();
            assert!((found + drift).abs() < 0.01, "{reported}, {found}");
            card.blocks(180, 0.0);
            let half = rate.span_of(Frames::new(1)).half() + Span::from_nanos(500);
            assert!(card.error().abs() <= half, "{reported}: half a frame: {}", card.error());
            assert!(card.servo.copies() && card.place.fraction == 0, "{reported}");
        }
    }
}

#[test]
fn cards_too_far_apart_have_no_figure() {
    for drift in [-3000.0, -700.0, 700.0, 3000.0] {
        let mut card = Card::new(Span::from_micros(50));
        card.blocks(2, drift);
        assert!(!card.servo.is_out_of_reach(), "{drift}: reported too early");
        card.blocks(8, drift);
        assert!(card.servo.is_out_of_reach(), "{drift}");
        assert_eq!(card.servo.drift(), None, "{drift}");
        card.blocks(20, drift / drift.abs() * 100.0);
        assert!(!card.servo.is_out_of_reach(), "{drift}: back in reach");
    }
    let mut card = Card::new(Span::from_micros(50));
    card.blocks(60, 500.0);
    assert!(!card.servo.is_out_of_reach());
}

#[test]
fn copying_resumes_at_a_whole_frame_without_drift() {
    let mut card = Card::new(Span::from_micros(50));
    card.blocks(30, 100.0);
    assert!(!card.servo.copies());
    card.blocks(180, 0.0);
    assert!(card.servo.copies());
    assert_eq!(card.place.fraction, 0);
    assert!(card.error().abs() <= Span::from_micros(11), "half a frame: {}", card.error());
    assert!(card.steps[209_000..].iter().all(|step| *step == 0.0));
}

#[test]
fn landing_neither_jumps_nor_bends_the_pitch() {
    let mut card = Card::new(Span::from_micros(50));
    card.blocks(30, 100.0);
    card.servo.land();
    let before = card.place;
    card.blocks(1, 0.0);
    assert!(card.servo.copies());
    assert!(card.steps[30_000..].iter().all(|step| step.abs() <= 200.0));
    let moved = (card.place - before).as_f64() - 48_000.0;
    assert!(moved.abs() <= 0.5, "{moved}");
}

#[test]
fn another_latency_teaches_no_drift() {
    let mut card = Card::new(Span::from_micros(50));
    card.blocks(30, 20.0);
    card.due = card.due + FineFrames::from(Frames::new(-40));
    card.servo.retarget(-RATE.span_of(Frames::new(40)));
    card.blocks(1, 20.0);
    let drift = card.servo.drift().expect("followed").as_f64();
    assert!((drift + 20.0).abs() < 0.1, "{drift}");
    card.blocks(20, 20.0);
    assert!(card.error().abs() < Span::from_micros(1), "{}", card.error());
}

/// In ppm: the 1200th root of two, minus one.
const CENT: f64 = 577.79;

/// Maximum pitch error in ppm. The drift is `steady` plus each of `drifts` for ten seconds. The
/// clocks jump by `jumps` at changes; readings err by up to `noise`, both in microseconds.
fn off_by(steady: f64, drifts: &[f64], jumps: &[i64], noise: i64) -> f64 {
    let mut card = Card::new(Span::from_micros(300));
    card.blocks(20, steady);
    let (mut random, mut maximum) = (3_u32, 0.0_f64);
    for (drift, jump) in drifts.iter().zip(jumps.iter().cycle()) {
        let drift = steady + drift;
        card.due = RATE.point_after(card.due.frame, Span::from_micros(*jump));
        for _ in 0..10_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            card.block(drift, Span::from_micros(i64::from(random >> 16) * noise / 65_536));
            maximum = maximum.max((card.steps[card.steps.len() - 1] - drift).abs());
        }
    }
    maximum
}

#[test]
fn jump_against_turning_drift_keeps_pitch_within_a_cent() {
    // Worst case found by a search.
    let (drifts, jumps) = ([149.2, -149.7, 147.6], [491, 499, 697]);
    for noise in 0..20 {
        let off = off_by(-216.6, &drifts, &jumps, noise);
        assert!(off < CENT, "{off} ppm, noise {noise} us");
    }
}

/// Forty cases by default. Previous failures run first.
fn search() -> ProptestConfig {
    let requested = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    let kept = FileFailurePersistence::Direct("tests/servo.proptest-regressions");
    ProptestConfig {
        cases: requested.unwrap_or(40),
        failure_persistence: Some(Box::new(kept)),
        ..ProptestConfig::default()
    }
}

/// Jumps of any size, often close to the limit, which is the worst case.
fn jump() -> impl Strategy<Value = i64> {
    prop_oneof![2 => -900..900_i64, 1 => -500..-480_i64, 1 => 480..500_i64]
}

fn drift() -> impl Strategy<Value = f64> {
    prop_oneof![1 => -150.0..150.0_f64, 1 => -150.0..-148.0_f64, 1 => 148.0..150.0_f64]
}

proptest! {
    #![proptest_config(search())]
    #[test]
    fn the_pitch_is_never_off_by_a_cent(
        steady in -350.0..350.0_f64,
        drifts in proptest::collection::vec(drift(), 1..4),
        jumps in proptest::collection::vec(jump(), 1..4),
        noise in 0..20_i64,
    ) {
        let off = off_by(steady, &drifts, &jumps, noise);
        prop_assert!(off < CENT, "{off}");
    }
}

/// Moves of the place in ten minutes. The clock precision is 200 µs, and 5 µs after ten seconds.
fn moves(card: &mut Card, alongside: i64, wander: f64) -> usize {
    let micros = Span::from_micros;
    card.due = RATE.point_after(card.due.frame, micros(alongside));
    for block in 0..600_000_i64 {
        card.precision = Some(micros(if block < 10_000 { 200 } else { 5 }));
        let wander = (block as f64 / 800.0).sin() * wander * 1e3;
        card.block(0.0, Span::from_nanos(wander as i64));
    }
    let moves = |step: &f64| *step != 0.0;
    card.steps.windows(2).filter(|two| !moves(&two[0]) && moves(&two[1])).count()
}

#[test]
fn early_place_is_corrected_once_despite_wandering_times() {
    for alongside in [-180, -67, 67, 180] {
        for wander in [0.0, 30.0] {
            let mut card = Card::new(Span::from_micros(250));
            let reported = format!("{alongside} us, wandering by {wander} us");
            assert_eq!(moves(&mut card, alongside, wander), 1, "{reported}");
            let left = card.error().abs();
            assert!(left <= Span::from_micros(21), "{reported}: {left}");
            assert!(card.servo.copies() && card.place.fraction == 0, "{reported}");
            assert!(card.steps.iter().all(|step| step.abs() <= 200.0), "{reported}");
        }
    }
}

#[test]
fn a_place_that_is_right_is_not_moved_however_instants_wander() {
    for (alongside, wander) in [(0, 50.0), (20, 50.0), (-35, 0.0)] {
        let mut card = Card::new(Span::from_micros(250));
        assert_eq!(
            moves(&mut card, alongside, wander),
            0,
            "{alongside} us, wandering by {wander} us"
        );
    }
}

#[test]
fn misplacement_is_reported_until_moved() {
    let mut card = Card::new(Span::from_micros(250));
    card.looks_ahead = false;
    assert_eq!(moves(&mut card, 67, 0.0), 0);
    assert!(card.servo.is_misplaced());
    card.place = card.due;
    card.servo.moved();
    card.blocks(30, 0.0);
    assert!(!card.servo.is_misplaced());
}

#[test]
fn cards_of_one_clock_are_copied_despite_measured_errors() {
    for one_clock in [true, false] {
        let mut card = Card::new(Span::from_micros(21));
        card.one_clock = one_clock;
        for block in 0..60_000_i64 {
            // The wander of a sound server, sometimes off by a period.
            let wander = (block as f64 / 800.0).sin() * 50_000.0;
            let late = if block % 7_000 == 6_999 { 1_333_000 } else { 0 };
            card.block(0.0, Span::from_nanos(wander as i64 + late));
            assert!(!one_clock || !card.servo.is_beside(), "block {block}");
        }
        let copied = card.steps.iter().all(|step| *step == 0.0);
        assert_eq!(copied, one_clock, "follows unless the clocks are known to be one");
        assert!(card.servo.drift().is_none() || !one_clock);
    }
}

#[test]
fn lasting_shared_clock_error_is_detected_within_2_s() {
    for frames in [3, -3, 64, -1000] {
        let mut card = Card::new(Span::from_micros(21));
        card.one_clock = true;
        card.blocks(5, 0.0);
        assert!(!card.servo.is_beside());
        card.place = card.place + parts(frames * FineFrames::ONE);
        card.blocks(2, 0.0);
        assert!(card.servo.is_beside(), "{frames} frames");
        card.servo.moved();
        assert!(!card.servo.is_beside());
        assert!(card.steps.iter().all(|step| *step == 0.0), "and not followed");
    }
}

#[test]
fn shared_clock_cards_follow_a_latency_change_then_copy() {
    let mut card = Card::new(Span::from_micros(21));
    card.one_clock = true;
    card.blocks(1, 0.0);
    card.due = card.due + parts(9 * FineFrames::ONE + FineFrames::ONE / 3);
    card.servo.follow();
    card.blocks(5, 0.0);
    assert!(card.servo.copies() && card.place.fraction == 0);
    let alongside = (card.due - card.place).parts().abs();
    assert!(alongside <= FineFrames::ONE / 4 * 5, "{alongside}");
    assert!(card.steps.iter().all(|step| step.abs() <= 200.0));
}
