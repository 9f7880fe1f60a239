//! Whether more was missed.

use statrs::function::factorial::ln_binomial;

use super::{ComparedFigure, MISSED};
use crate::statistics::{Missed, SeriesDifference};

/// Chance that is still believed.
const CHANCE: f64 = 0.01;

/// By Fisher's exact test (1922): of all ways in which as much is missed in both together, how likely are
/// those that are no likelier than what was found?
pub(super) fn compare(first: Missed, second: Missed) -> ComparedFigure {
    let share = |missed: Missed| missed.missed.min(missed.due) as f64 / missed.due.max(1) as f64;
    let p = fisher(first, second);
    let (a, b) = (share(first), share(second));
    let unknown = first.due == 0 || second.due == 0;
    let verdict = match p < CHANCE {
        _ if unknown => SeriesDifference::Unknown,
        false => SeriesDifference::None,
        true if b < a => SeriesDifference::Less,
        true => SeriesDifference::More,
    };
    let why = unknown.then(|| "nothing was due".to_owned());
    ComparedFigure { key: MISSED, first: a, second: b, interval: None, p, verdict, why }
}

/// Two-sided.
pub(super) fn fisher(first: Missed, second: Missed) -> f64 {
    let (n, m) = (first.due, second.due);
    let (Some(all), found) = (n.checked_add(m), first.missed.min(n)) else { return 1.0 };
    let missed = found + second.missed.min(m);
    let ln = |of_first: u64| {
        ln_binomial(n, of_first) + ln_binomial(m, missed - of_first) - ln_binomial(all, missed)
    };
    // As likely as what was found, but for rounding.
    let limit = ln(found) + 1e-7;
    let least = missed.saturating_sub(m);
    // What is further from the likeliest than any that counts adds nothing: from each end inwards.
    let from_below = (least..=missed.min(n)).map(ln).take_while(|ln| *ln <= limit);
    let below: Vec<f64> = from_below.collect();
    let counted = least + below.len() as u64;
    let from_above = (counted..=missed.min(n)).rev().map(ln).take_while(|ln| *ln <= limit);
    let sum: f64 = below.into_iter().chain(from_above).map(f64::exp).sum();
    sum.min(1.0)
}
