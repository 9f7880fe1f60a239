//! The estimate of a peer's clock stays correct if some exchanges are false.

use tautline_proto::clock::{ClockEstimator, ClockMapping, Exchange};
use tautline_proto::time::{LocalTime, Span, WallTime};

const WALL: Span = Span::from_secs(1_700_000_000);
/// In each direction.
const WAY: Span = Span::from_micros(200);

/// True exchange with a peer that is 20 ppm fast.
fn truth(answered: LocalTime) -> Exchange {
    let requested = answered - Span::from_millis(200) - WAY.times(2);
    Exchange {
        requested,
        peer_received: wall(requested + WAY),
        peer_answered: wall(answered - WAY),
        answered,
        reading_error: Span::from_nanos(7_633),
    }
}

fn wall(local: LocalTime) -> WallTime {
    let gained = (local - LocalTime::ZERO).divided(50_000);
    WallTime::of_local(local + gained, WALL)
}

/// Two minutes at two exchanges per second, passed through `lie`.
fn reported(mut lie: impl FnMut(usize, Exchange) -> Exchange) -> (ClockEstimator, ClockMapping) {
    let mut estimator = ClockEstimator::new();
    let mut mapping = None;
    let mut answered = LocalTime::ZERO + Span::from_secs(100);
    for number in 0..240 {
        answered += Span::from_millis(500);
        let exchange = truth(answered);
        let exchange = if number < 10 { exchange } else { lie(number, exchange) };
        mapping = estimator.observe(exchange).or(mapping);
        let known: ClockMapping = mapping.expect("the first are true");
        let error = known.local(wall(answered)) - answered;
        let unsure = known.uncertainty_at(answered).expect("it is renewed");
        assert!(error.abs() <= unsure, "exchange {number}: off by {error}, said {unsure}");
        assert!(unsure < Span::from_micros(300), "exchange {number}: {unsure}");
    }
    (estimator, mapping.expect("known"))
}

fn moved(exchange: Exchange, by: Span) -> Exchange {
    let (peer_received, peer_answered) = (exchange.peer_received + by, exchange.peer_answered + by);
    Exchange { peer_received, peer_answered, ..exchange }
}

#[test]
fn rare_future_reports_do_not_count_as_steps() {
    for seconds in [-3600, -1, 1, 3600, 100_000_000] {
        let (estimator, _) = reported(|number, exchange| {
            if number % 3 == 0 { moved(exchange, Span::from_secs(seconds)) } else { exchange }
        });
        assert_eq!((estimator.steps(), estimator.path_changes()), (0, 0), "{seconds} s");
    }
}

#[test]
fn a_clock_that_steps_with_every_second_report_moves_nothing() {
    let (estimator, _) = reported(|number, exchange| {
        let by = Span::from_millis((number as i64 * 7919) % 10_000 - 5_000);
        if number % 2 == 0 { moved(exchange, by) } else { exchange }
    });
    assert_eq!(estimator.steps(), 0);
}

#[test]
fn waits_that_cannot_have_been_are_dropped() {
    for wait in [-1_000_000, -300, 201, 1_000, 1_000_000, 30_000_000_i64] {
        let (estimator, mapping) = reported(|number, exchange| {
            let peer_received = exchange.peer_answered + -Span::from_millis(wait);
            if number % 2 == 0 { Exchange { peer_received, ..exchange } } else { exchange }
        });
        assert_eq!((estimator.steps(), estimator.path_changes()), (0, 0), "{wait} ms");
        assert!((mapping.round_trip - WAY.times(2)).abs() < Span::from_micros(5), "{wait} ms");
    }
}

#[test]
fn clock_step_is_accepted_within_five_reports() {
    for micros in [-30_000_000, -900, 900, 30_000, 3_600_000_000_i64] {
        let by = Span::from_micros(micros);
        let mut estimator = ClockEstimator::new();
        let mut answered = LocalTime::ZERO + Span::from_secs(100);
        let mut last = None;
        for number in 0..60 {
            answered += Span::from_millis(500);
            let exchange = truth(answered);
            let stepped = number >= 30;
            let exchange = if stepped { moved(exchange, by) } else { exchange };
            last = estimator.observe(exchange).or(last);
            // A drift of 500 ppm could explain the smaller steps.
            let timeout = if by.abs() > WAY.times(10) { 3 } else { 5 };
            if number == 30 + timeout {
                let error = last.expect("known").wall(answered) - wall(answered) - by;
                assert!(error.abs() < Span::from_micros(10), "{micros} us: {error}");
            }
        }
        assert_eq!((estimator.steps(), estimator.path_changes()), (1, 0), "{micros} us");
    }
}

#[test]
fn rate_lies_within_its_uncertainty_despite_jitter() {
    let mut largest = 0.0_f64;
    for seed in 0..50_u64 {
        let mut random = seed;
        let mut way = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            WAY + Span::from_nanos((random >> 33) as i64 % 10_000_000)
        };
        let mut estimator = ClockEstimator::new();
        for number in 0..60 {
            let requested = LocalTime::ZERO + Span::from_millis(100_000 + number * 500);
            let received = requested + way();
            let answered = received + way();
            let mapping = estimator.observe(Exchange {
                requested,
                peer_received: wall(received),
                peer_answered: wall(received),
                answered,
                reading_error: Span::from_nanos(7_633),
            });
            let Some(mapping) = mapping else { continue };
            let (rate, unsure) = (mapping.rate().unwrap(), mapping.rate_uncertainty());
            let off = (rate.as_f64() - 20.0).abs();
            assert!(off <= unsure.as_f64(), "{seed}, {number}: off by {off}, ± {unsure:?}");
            largest = largest.max(off);
        }
    }
    assert!(largest > 10.0, "the jitter was too small to test this: {largest}");
}
