//! 95 % bound of a median's error.
//!
//! Varying errors come from the spread of groups of neighbours (type A, JCGM 100:2008 4.2). Shared
//! errors have a known maximum (type B, 4.3.7). Clock uncertainty between hosts repeats in every
//! run, so it is added in full.

use statrs::distribution::{ContinuousCDF, StudentsT};
use tautline_proto::time::{LocalTime, Span};

use crate::statistics::median;

const GROUPS: usize = 20;
const IN_GROUP: usize = 5;
const MAX_ALIKE: f64 = 0.9;
const FEWEST: usize = 3;
const DEVIATIONS: f64 = 1.959_964;

/// `values` are in the order of due times; `shared` are maximum errors that all values share.
pub(super) fn bound_95(
    values: &[(LocalTime, Span)],
    shared: &[Span],
    clocks: Span,
) -> Option<Span> {
    let varies = of_spread(values)?;
    let common =
        shared.iter().map(|maximum| (maximum.as_nanos() as f64).powi(2) / 3.0).sum::<f64>();
    let bound = varies.hypot(DEVIATIONS * common.sqrt());
    Some(Span::from_nanos(bound.ceil() as i64 + 1) + clocks)
}

fn of_spread(values: &[(LocalTime, Span)]) -> Option<f64> {
    if values.len() < FEWEST {
        return None;
    }
    let groups = (values.len() / IN_GROUP).min(GROUPS);
    // A median is less certain than a mean; each group already is a median.
    let (groups, worse) = match groups {
        0..FEWEST => (values.len(), (core::f64::consts::PI / 2.0).sqrt()),
        _ => (groups, 1.0),
    };
    let nanos: Vec<f64> = values.iter().map(|(_, value)| value.as_nanos() as f64).collect();
    let edge = |group: usize| group * nanos.len() / groups;
    let middles: Vec<f64> =
        (0..groups).map(|group| median(&nanos[edge(group)..edge(group + 1)])).collect();
    let count = groups as f64;
    let mean = middles.iter().sum::<f64>() / count;
    let square = middles.iter().map(|middle| (middle - mean).powi(2)).sum::<f64>();
    let error = (square / (count - 1.0) / count).sqrt();
    let error = error * widening(&middles, mean, square);
    let student = StudentsT::new(0.0, 1.0, count - 1.0).ok()?;
    Some(worse * error * student.inverse_cdf(0.975))
}

/// Factor for clearly correlated neighbours (first-order autoregressive).
fn widening(middles: &[f64], mean: f64, square: f64) -> f64 {
    let products = middles.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>();
    let chance = 2.0 / (middles.len() as f64).sqrt();
    let alike = products / square;
    if alike > chance {
        let alike = alike.min(MAX_ALIKE);
        ((1.0 + alike) / (1.0 - alike)).sqrt()
    } else {
        1.0
    }
}
