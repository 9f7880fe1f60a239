//! Tests for more misses or xruns.
//!
//! Misses come in bursts, so a second with misses counts once (Fisher's exact test, 1922). Counts
//! in these seconds are compared by ranks (two-part test: Lachenbruch, Statistics in Medicine 21,
//! 2002). The lower probability counts, doubled.

use core::ops::Range;

use serde::Serialize;
use statrs::function::factorial::ln_binomial;

use super::{ComparedFigure, ComparedVerdict};
use crate::report::{SecondCount, StreamBySecond};
use crate::statistics::{CHANCE, MIN, Missed, ranked};

pub(super) const MISSED: &str = "missed_share";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SecondsCounted {
    pub count: u64,
    pub due: u64,
    pub seconds_with: u64,
    pub seconds: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ReadCounts {
    counts: Vec<u64>,
    pub(super) seconds: u32,
}

impl ReadCounts {
    pub(super) fn of(counts: &[SecondCount], seconds: u32) -> Self {
        let within = counts.iter().filter(|(second, count)| *second < seconds && *count > 0);
        let mut all = std::collections::BTreeMap::new();
        within.for_each(|(second, count)| *all.entry(*second).or_insert(0) += u64::from(*count));
        Self { counts: all.into_values().collect(), seconds }
    }

    /// Missed packets, including never-sent packets if both reports count them.
    pub(super) fn missed(stream: &StreamBySecond, both_tell_unsent: bool) -> (Self, u64) {
        let never_sent = stream.never_sent.as_deref().filter(|_| both_tell_unsent).unwrap_or(&[]);
        let unsent: u64 = never_sent.iter().map(|(_, count)| u64::from(*count)).sum();
        let all = [&stream.late[..], &stream.lost, &stream.underrun_discarded, never_sent].concat();
        (Self::of(&all, stream.seconds), stream.due.saturating_add(unsent))
    }

    fn counted(&self, due: u64) -> SecondsCounted {
        SecondsCounted {
            count: self.counts.iter().sum(),
            due,
            seconds_with: self.counts.len() as u64,
            seconds: u64::from(self.seconds),
        }
    }

    fn per_second(&self) -> Vec<f64> {
        self.counts.iter().map(|count| *count as f64).collect()
    }
}

pub(super) fn compare(
    key: &'static str,
    (first, due_first): (&ReadCounts, u64),
    (second, due_second): (&ReadCounts, u64),
) -> ComparedFigure {
    let counted = [first.counted(due_first), second.counted(due_second)];
    let share = |of: &SecondsCounted| of.count as f64 / of.due.max(1) as f64;
    let shares = [share(&counted[0]), share(&counted[1])];
    let short = counted.iter().any(|of| of.seconds < MIN as u64);
    let parts = [in_seconds(&counted), within(first, second)];
    let part = if parts[0].p <= parts[1].p { parts[0] } else { parts[1] };
    let p = (2.0 * part.p).min(1.0);
    let verdict = match p < CHANCE {
        _ if short => ComparedVerdict::Unknown,
        false => ComparedVerdict::None,
        true if part.more => ComparedVerdict::More,
        true => ComparedVerdict::Less,
    };
    let why = short.then(|| {
        let [a, b] = counted.map(|of| of.seconds);
        format!("too few seconds: {a} in the first report, {b} in the second, minimum {MIN}")
    });
    let a12 = f64::midpoint(by_seconds(first, second), 1.0);
    ComparedFigure {
        key,
        first: shares[0],
        second: shares[1],
        a12: (!short).then_some(a12),
        counted: Some(counted),
        p,
        p_of_all: (!short && could_differ(&counted)).then_some(1.0),
        verdict,
        why,
        ..ComparedFigure::default()
    }
}

#[derive(Clone, Copy)]
struct CountedPart {
    p: f64,
    more: bool,
}

fn in_seconds([first, second]: &[SecondsCounted; 2]) -> CountedPart {
    let of = |one: &SecondsCounted| Missed::of(one.seconds_with, one.seconds);
    let more = u128::from(second.seconds_with) * u128::from(first.seconds)
        > u128::from(first.seconds_with) * u128::from(second.seconds);
    CountedPart { p: fisher(of(first), of(second)), more }
}

fn within(first: &ReadCounts, second: &ReadCounts) -> CountedPart {
    let (a, b) = (first.per_second(), second.per_second());
    if a.len() < MIN || b.len() < MIN {
        return CountedPart { p: 1.0, more: false };
    }
    let found = ranked(&a, &b);
    CountedPart { p: found.p, more: found.delta > 0.0 }
}

/// Cliff's delta. Empty seconds tie and are not ranked, so a claim of a million costs nothing.
pub(super) fn by_seconds(first: &ReadCounts, second: &ReadCounts) -> f64 {
    let (a, b) = (first.per_second(), second.per_second());
    let all = f64::from(first.seconds) * f64::from(second.seconds);
    if all == 0.0 {
        return 0.0;
    }
    let with = |counts: &[f64]| counts.len() as f64;
    let without = |of: &ReadCounts, counts: &[f64]| f64::from(of.seconds) - with(counts);
    let more = with(&b) * without(first, &a);
    let less = with(&a) * without(second, &b);
    (ranked(&a, &b).delta * with(&a) * with(&b) + more - less) / all
}

/// Whether all hits in one run would be significant.
fn could_differ([first, second]: &[SecondsCounted; 2]) -> bool {
    let with = first.seconds_with + second.seconds_with;
    let all_in = |one: u64, other: u64, in_first: bool| {
        let (a, b) = if in_first {
            (with.min(one), with - with.min(one))
        } else {
            (with - with.min(other), with.min(other))
        };
        fisher(Missed::of(a, one), Missed::of(b, other))
    };
    let minimum = [true, false].map(|side| all_in(first.seconds, second.seconds, side));
    let enough = with >= 2 * MIN as u64;
    enough || 2.0 * minimum[0].min(minimum[1]) < CHANCE
}

pub(super) fn independent(first: Missed, second: Missed) -> ComparedFigure {
    let figure = shares(first, second);
    if figure.verdict == ComparedVerdict::Unknown {
        return figure;
    }
    let p = fisher(first, second);
    let verdict = match p < CHANCE {
        false => ComparedVerdict::None,
        true if figure.second < figure.first => ComparedVerdict::Less,
        true => ComparedVerdict::More,
    };
    let any = first.missed + second.missed > 0;
    ComparedFigure { p, p_of_all: any.then_some(1.0), verdict, ..figure }
}

/// Misses come in bursts, so totals of whole runs show nothing but that there are none.
pub(super) fn without_times(first: Missed, second: Missed) -> ComparedFigure {
    let figure = shares(first, second);
    if figure.verdict == ComparedVerdict::Unknown || first.missed + second.missed == 0 {
        return figure;
    }
    let why = format!("no times of the misses, or a run shorter than {MIN} s");
    ComparedFigure { verdict: ComparedVerdict::Unknown, why: Some(why), ..figure }
}

/// Shares without a test.
fn shares(first: Missed, second: Missed) -> ComparedFigure {
    let share = |missed: Missed| missed.missed.min(missed.due) as f64 / missed.due.max(1) as f64;
    let why = (first.due == 0 || second.due == 0).then(|| "nothing was due".to_owned());
    let verdict = if why.is_some() { ComparedVerdict::Unknown } else { ComparedVerdict::None };
    ComparedFigure {
        key: MISSED,
        first: share(first),
        second: share(second),
        p: 1.0,
        verdict,
        why,
        ..ComparedFigure::default()
    }
}

/// Fisher's exact test, two-sided. Adds only terms that change the sum: a few times √n.
pub(super) fn fisher(first: Missed, second: Missed) -> f64 {
    let (n, m) = (first.due, second.due);
    let (Some(all), found) = (n.checked_add(m), first.missed.min(n)) else { return 1.0 };
    let missed = found + second.missed.min(m);
    let ln = |of_first: u64| {
        ln_binomial(n, of_first) + ln_binomial(m, missed - of_first) - ln_binomial(all, missed)
    };
    let limit = ln(found) + 1e-7;
    let (minimum, maximum) = (missed.saturating_sub(m), missed.min(n));
    let mean = (u128::from(missed) + 1) * (u128::from(n) + 1) / (u128::from(all) + 2);
    let likeliest = u64::try_from(mean).map_or(maximum, |mean| mean.clamp(minimum, maximum));
    let below = first_not(minimum..likeliest + 1, |of_first| ln(of_first) <= limit);
    let above = first_not(likeliest + 1..maximum + 1, |of_first| ln(of_first) > limit);
    // Ratio of the next outward term: avoids logarithms of factorials.
    let odds = |ways: [u64; 2], of: [u64; 2]| {
        ways.map(|count| count as f64).iter().product::<f64>()
            / of.map(|count| count as f64).iter().product::<f64>()
    };
    // Hits of the second report, given the misses of the first.
    let rest = |of_first: u64| (m + of_first) - missed;
    let fewer =
        (minimum + 1..below).rev().map(|at| odds([at, rest(at)], [n - at + 1, missed - at + 1]));
    let more = (above..maximum).map(|at| odds([n - at, missed - at], [at + 1, rest(at) + 1]));
    let begin = |at: u64, any: bool| if any { ln(at).exp() } else { 0.0 };
    let sum = outwards(begin(below.saturating_sub(1), below > minimum), fewer)
        + outwards(begin(above, above <= maximum), more);
    sum.min(1.0)
}

fn first_not(Range { mut start, mut end }: Range<u64>, holds: impl Fn(u64) -> bool) -> u64 {
    while start < end {
        let middle = start + (end - start) / 2;
        if holds(middle) { start = middle + 1 } else { end = middle }
    }
    start
}

fn outwards(first: f64, less: impl Iterator<Item = f64>) -> f64 {
    let (mut one, mut sum) = (first, first);
    for less in less {
        one *= less;
        if one <= sum * f64::EPSILON * 1e-3 {
            break;
        }
        sum += one;
    }
    sum
}
