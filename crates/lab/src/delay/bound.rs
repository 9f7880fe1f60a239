//! How far a median may be from the truth, with a probability that is stated.
//!
//! Of what varies from value to value the spread tells (evaluation of type A, JCGM 100:2008 4.2), by groups
//! of values that follow each other, as neighbours are alike. Groups are taken to be independent; where
//! neighbouring groups are clearly alike, their error is taken to be greater. What is the same for all of them, such as the
//! word of a device that is so much unsure, is known by its greatest error alone and may be anywhere
//! below it (type B, 4.3.7). What clocks of two hosts leave unsure is the same in every run on the same network: it
//! is no more likely to be small in 95 of 100 of them, and is added in full.

use statrs::distribution::{ContinuousCDF, StudentsT};
use tautline_proto::time::{LocalTime, Span};

use crate::statistics::median;

/// Groups at most, and values in each at least.
const GROUPS: usize = 20;
const IN_GROUP: usize = 5;
/// Neighbouring groups are never taken to be more alike than this.
const MOST_ALIKE: f64 = 0.9;
/// With fewer values nothing is known of their spread.
const FEWEST: usize = 3;
/// Of a normal distribution, 95 of 100 lie within so many deviations.
const DEVIATIONS: f64 = 1.959_964;

/// In 95 of 100 runs the median of these values, in the order in which they were due, is no further from
/// the truth, if these are the greatest errors that all of them share, and `clocks` is how far the clocks may be
/// off that they were read by.
pub(super) fn bound_95(
    values: &[(LocalTime, Span)],
    shared: &[Span],
    clocks: Span,
) -> Option<Span> {
    let varies = of_spread(values)?;
    let common = shared.iter().map(|most| (most.as_nanos() as f64).powi(2) / 3.0).sum::<f64>();
    let bound = varies.hypot(DEVIATIONS * common.sqrt());
    // An instant is told in whole nanoseconds.
    Some(Span::from_nanos(bound.ceil() as i64 + 1) + clocks)
}

fn of_spread(values: &[(LocalTime, Span)]) -> Option<f64> {
    if values.len() < FEWEST {
        return None;
    }
    let groups = (values.len() / IN_GROUP).min(GROUPS);
    // The median of few is worse than their mean; of groups, each has its own median already.
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

/// The factor of the error of the mean if neighbours are clearly alike (an autoregressive process of first order).
fn widening(middles: &[f64], mean: f64, square: f64) -> f64 {
    let products = middles.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>();
    let chance = 2.0 / (middles.len() as f64).sqrt();
    let alike = products / square;
    if alike > chance {
        let alike = alike.min(MOST_ALIKE);
        ((1.0 + alike) / (1.0 - alike)).sqrt()
    } else {
        1.0
    }
}
