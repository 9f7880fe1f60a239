use super::*;

const PERIOD: i64 = 48;
const FRAME: Span = Span::from_nanos(20_834);

/// A card with pseudo-random late readings.
struct Bench {
    line: CardLine,
    ppm: f64,
    /// Time and frame at which the present rate began.
    since: (i64, f64),
    seed: u64,
}

impl Bench {
    fn new(ppm: f64) -> Self {
        Self {
            line: CardLine::new(Rate::HZ_48000, FRAME),
            ppm,
            since: (1_000_000_000, 0.0),
            seed: 1,
        }
    }

    /// 0 to 1, by Knuth's MMIX generator.
    fn random(&mut self) -> f64 {
        self.seed = self.seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.seed >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Exponential distribution.
    fn late(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.random()).ln()
    }

    fn truth(&self, frame: i64) -> i64 {
        let nanos = (frame as f64 - self.since.1) * 1e9 / 48_000.0 / (1.0 + self.ppm * 1e-6);
        self.since.0 + nanos.round() as i64
    }

    /// Reads the position `late` nanoseconds late.
    fn read(&mut self, frame: i64, late: f64) {
        self.line.observe(frame, LocalTime::from_nanos(self.truth(frame) + late as i64));
    }

    /// Error at `frame`; panics if it exceeds the uncertainty.
    fn error(&mut self, frame: i64) -> i64 {
        let met = self.line.meet(frame, Frames::new(PERIOD), LocalTime::ZERO);
        let error = met.meets.as_nanos() - self.truth(frame);
        assert!(error.abs() <= met.uncertainty.as_nanos(), "{error} is not {met:?}");
        error
    }
}

#[test]
fn drift_is_learnt_through_late_interrupts() {
    for ppm in [-300.0, 0.0, 50.0, 300.0] {
        let mut bench = Bench::new(ppm);
        for period in 1..4000 {
            let late = bench.late(20_000.0);
            bench.read(period * PERIOD, late);
            let error = bench.error(period * PERIOD + 2 * PERIOD);
            assert!(period < 1000 || (-1000..4000).contains(&error), "{ppm}: {error} at {period}");
        }
        let found = bench.line.line.expect("a line").rate() * 1e6 + ppm;
        assert!(found.abs() < 3.0, "{ppm}: off by {found}");
    }
}

#[test]
fn exact_readings_give_exact_instants() {
    let mut bench = Bench::new(100.0);
    for period in 1..2000 {
        bench.read(period * PERIOD, 0.0);
        let error = bench.error(period * PERIOD);
        assert!(period < 200 || error.abs() < 100, "{error} at {period}");
    }
}

#[test]
fn readings_of_a_frozen_host_do_not_move_the_line() {
    let mut bench = Bench::new(-50.0);
    for period in 1..6000 {
        // The host freezes for 36 ms every second.
        let into = period % 1000;
        let late = if period > 500 && into < 36 { (36 - into) as f64 * 1e6 } else { 0.0 };
        let late = late + bench.late(5_000.0);
        bench.read(period * PERIOD, late);
        let error = bench.error(period * PERIOD);
        assert!(period < 500 || error.abs() < 3000, "{error} at {period}");
    }
}

#[test]
fn a_position_that_moves_in_steps_is_known_by_its_steps() {
    // A 250 Hz timer moves the position.
    let mut bench = Bench::new(30.0);
    for period in 1..8000 {
        let step = period / 4 * 4 * PERIOD;
        let late = bench.late(10_000.0);
        bench.line.set_grain(Span::from_millis(4));
        bench.read(step, late);
        let error = bench.error(period * PERIOD);
        assert!(period < 1000 || error.abs() < 5000, "{error} at {period}");
    }
}

#[test]
fn another_rate_is_followed() {
    let mut bench = Bench::new(0.0);
    for period in 1..6000 {
        if period == 2000 {
            let frame = period * PERIOD;
            bench.since = (bench.truth(frame), frame as f64);
            bench.ppm = 100.0;
        }
        let late = bench.late(2_000.0);
        bench.read(period * PERIOD, late);
        let met = bench.line.meet(period * PERIOD, Frames::new(PERIOD), LocalTime::ZERO);
        let error = met.meets.as_nanos() - bench.truth(period * PERIOD);
        assert!(period < 500 || error.abs() < 30_000, "{error} at {period}");
        assert!(period < 4000 || error.abs() < 2000, "{error} at {period}");
    }
}

#[test]
fn slowly_starting_card_is_found_within_three_rounds() {
    let mut bench = Bench::new(0.0);
    bench.line.observe(0, LocalTime::from_nanos(bench.truth(0) - 1_500_000));
    for period in 1..200 {
        bench.read(period * PERIOD, 0.0);
        let error = bench.error(period * PERIOD);
        assert!(period < 70 || error.abs() < 2000, "{error} at {period}");
    }
}

#[test]
fn paused_card_is_found_again() {
    let mut bench = Bench::new(0.0);
    for period in 1..2000 {
        if period == 1000 {
            bench.since.0 += 10_000_000;
        }
        bench.read(period * PERIOD, 0.0);
        let met = bench.line.meet(period * PERIOD, Frames::new(PERIOD), LocalTime::ZERO);
        let error = met.meets.as_nanos() - bench.truth(period * PERIOD);
        assert!(!(200..1000).contains(&period) && period < 1300 || error.abs() < 2000, "{period}");
    }
}

#[test]
fn after_an_xrun_the_rate_stays_and_the_gap_is_counted() {
    let mut bench = Bench::new(200.0);
    for period in 1..2000 {
        bench.read(period * PERIOD, 0.0);
        bench.error(period * PERIOD);
    }
    let rate = bench.line.line.expect("a line").rate();
    bench.line.restart();
    let again = bench.truth(2000 * PERIOD) + 10_000_000;
    bench.since = (again, 0.0);
    bench.read(0, 0.0);
    let met = bench.line.meet(0, Frames::new(PERIOD), LocalTime::ZERO);
    assert_eq!(met.skipped, Frames::new(480));
    assert_eq!(met.meets.as_nanos(), again);
    assert!((bench.line.line.expect("a line").rate() - rate).abs() < 1e-6);
    assert_eq!(bench.line.meet(PERIOD, Frames::new(PERIOD), LocalTime::ZERO).skipped, Frames::ZERO);
}

#[test]
fn instants_never_run_backwards_whatever_is_read() {
    let mut bench = Bench::new(0.0);
    let mut before = LocalTime::from_nanos(i64::MIN);
    for period in 1..3000 {
        if period % 700 == 0 {
            bench.line.restart();
        }
        let frame = (bench.random() * 1e6) as i64;
        let at = 1_000_000_000 + (bench.random() * 1e10) as i64;
        bench.line.observe(frame, LocalTime::from_nanos(at));
        let met = bench.line.meet(period * PERIOD, Frames::new(PERIOD), LocalTime::ZERO);
        assert!(met.meets > before && met.skipped >= Frames::ZERO, "{met:?} after {before:?}");
        before = met.meets;
    }
}

#[test]
fn before_the_first_reading_the_caller_knows_better() {
    let mut line = CardLine::new(Rate::HZ_48000, FRAME);
    let guess = LocalTime::from_nanos(77);
    let met = line.meet(0, Frames::new(PERIOD), guess);
    assert_eq!(met.meets, guess);
    assert!(met.uncertainty >= Span::from_millis(1));
}
