//! Significant digits: the error has two, rounded up as a bound. Rounding changes a figure by at
//! most 1/20 of its error.

use tautline_proto::time::Span;

/// Power of ten of the second digit of `error`.
pub fn step(error: f64) -> f64 {
    10_f64.powf((error.log10() + 1e-12).floor() - 1.0)
}

fn step_nanos(error: i64) -> i64 {
    let mut step = 1;
    while error / step >= 100 {
        step *= 10;
    }
    step
}

fn to_nearest(nanos: i64, step: i64) -> Span {
    let (nanos, step) = (i128::from(nanos), i128::from(step));
    let rounded = (nanos.abs() + step / 2) / step * step * nanos.signum();
    Span::from_nanos(i64::try_from(rounded).unwrap_or(i64::MAX))
}

/// `nanos` to a thousandth of its unit.
pub fn nearest_thousandth(nanos: i64) -> Span {
    to_nearest(
        nanos,
        match nanos.unsigned_abs() {
            0..1_000_000 => 1,
            1_000_000..1_000_000_000 => 1_000,
            _ => 1_000_000,
        },
    )
}

/// `error` with two digits, rounded up.
pub fn bound(error: i64) -> Span {
    let step = step_nanos(error);
    Span::from_nanos(error.saturating_add(step - 1) / step * step)
}

/// Duration with its error, such as `5.000ms ± 11us`.
pub fn with_error(nanos: i64, error: i64) -> String {
    format!("{} ± {}", by_error(nanos, error), bound(error))
}

/// Duration to the last digit that `error` leaves, trailing zeros included.
pub fn by_error(nanos: i64, error: i64) -> String {
    let step = step_nanos(error);
    let rounded = to_nearest(nanos, step).as_nanos();
    let (unit, digits, name): (u64, usize, _) = match rounded.unsigned_abs() {
        0..1_000 => (1, 0, "ns"),
        1_000..1_000_000 => (1_000, 3, "us"),
        1_000_000..1_000_000_000 => (1_000_000, 6, "ms"),
        _ => (1_000_000_000, 9, "s"),
    };
    if rounded == 0 {
        return Span::ZERO.to_string();
    }
    let sign = if rounded < 0 { "-" } else { "" };
    let (whole, rest) = (rounded.unsigned_abs() / unit, rounded.unsigned_abs() % unit);
    let known = digits.saturating_sub(step.ilog10() as usize);
    let reported = match known {
        0 => whole.to_string(),
        known => format!("{whole}.{}", &format!("{rest:0digits$}")[..known]),
    };
    format!("{sign}{reported}{name}")
}

/// Difference of two rates with its error. If the error is larger, only a bound is known.
pub fn ppm_with_error(ppm: f64, error: Option<f64>) -> String {
    let up = |error: f64| (error / step(error) - 1e-9).ceil() * step(error);
    match error.filter(|error| *error >= 0.01) {
        Some(error) if ppm.abs() > error => {
            let sign = if ppm > 0.0 { "+" } else { "" };
            let bound = number_by_error(up(error), error);
            format!("at {sign}{} ± {bound} ppm", number_by_error(ppm, error))
        }
        Some(error) => {
            let maximum = ppm.abs() + error;
            format!("within ± {} ppm, not known closer", number_by_error(up(maximum), maximum))
        }
        None => format!("at {ppm:+.2} ppm"),
    }
}

/// Number to the last digit that `error` leaves.
pub fn number_by_error(value: f64, error: f64) -> String {
    if !error.is_normal() || error < 0.0 {
        return value.to_string();
    }
    let step = step(error);
    let digits = (-step.log10() - 1e-9).ceil().clamp(0.0, 9.0) as usize;
    let reported = format!("{:.digits$}", (value / step).round() * step);
    // A rounded zero has no sign.
    if reported.contains(|digit: char| ('1'..='9').contains(&digit)) {
        reported
    } else {
        "0".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_length_of_time_has_the_digits_that_its_error_leaves() {
        let reported = with_error;
        assert_eq!(reported(5_000_123, 10_416), "5.000ms ± 11us");
        assert_eq!(reported(5_299_997, 241), "5.30000ms ± 250ns");
        assert_eq!(reported(2_861_875, 1), "2.861875ms ± 1ns");
        assert_eq!(reported(2_861_875, 10_416), "2.862ms ± 11us");
        assert_eq!(reported(-9_123, 13_000), "-9us ± 13us");
        assert_eq!(reported(40, 13_000), "0ms ± 13us");
        assert_eq!(reported(999_999_960, 8_000), "1.0000000s ± 8us");
    }

    #[test]
    fn exact_values_are_rounded_to_a_thousandth() {
        for (nanos, reported) in [
            (29_995_540, "29.996ms"),
            (999_999_600, "1s"),
            (-5_299_997, "-5.3ms"),
            (999_999, "999.999us"),
        ] {
            assert_eq!(nearest_thousandth(nanos).to_string(), reported);
        }
    }

    #[test]
    fn a_rate_within_its_error_is_shown_as_a_bound() {
        let reported = |ppm, error| ppm_with_error(ppm, Some(error));
        assert_eq!(reported(-32.7, 110.0), "within ± 150 ppm, not known closer");
        assert_eq!(reported(50.004, 1.23), "at +50.0 ± 1.3 ppm");
        assert_eq!(reported(-50.004, 1.23), "at -50.0 ± 1.3 ppm");
        assert_eq!(reported(-50.004, 0.0), "at -50.00 ppm");
        assert_eq!(reported(0.0, 5.0), "within ± 5.0 ppm, not known closer");
    }

    #[test]
    fn a_number_has_the_digits_that_its_error_leaves() {
        for (value, error, reported) in [
            (137.370_012, 0.000_050, "137.370012"),
            (137.370_012, 0.2, "137.37"),
            (-4e-9, 0.01, "0"),
            (99.87, 25.0, "100"),
            (7.5, 0.0, "7.5"),
        ] {
            assert_eq!(number_by_error(value, error), reported);
        }
    }

    proptest! {
        #[test]
        fn rounding_moves_by_a_twentieth_of_the_error_at_most(
            nanos in -10_i64.pow(13)..10_i64.pow(13), error in 1..10_i64.pow(12)
        ) {
            let moved = (to_nearest(nanos, step_nanos(error)).as_nanos() - nanos).abs();
            prop_assert!(moved * 20 <= error, "{moved} of {error}");
            let reported = bound(error).as_nanos();
            prop_assert!((error..=error + error / 10 + 1).contains(&reported), "{reported} of {error}");
        }
    }
}
