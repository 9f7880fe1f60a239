//! Statistics of series.
//!
//! Percentiles are measured values, absent if fewer than ten lie beyond. Neighbouring values are
//! correlated, so runs are compared by intervals: see [`compare`].

mod compare;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use statrs::distribution::{Beta, ContinuousCDF};
use tautline_proto::time::{LocalTime, Span};
use tautline_report::distribution::Summary;

pub(crate) use compare::CHANCE;
pub use compare::{MIN, Ranked, SeriesComparison, SeriesDifference, compare, median, ranked};

/// In the order of due times, preallocated for a measuring thread.
#[derive(Debug, Clone, Default)]
pub struct Series {
    values: Vec<(LocalTime, Span)>,
    overflowed: u64,
}

impl Series {
    pub fn with_room(maximum: usize) -> Self {
        let mut values = vec![(LocalTime::ZERO, Span::ZERO); maximum];
        values.clear();
        Self { values, overflowed: 0 }
    }

    pub fn push(&mut self, due: LocalTime, value: Span) {
        if self.values.len() < self.values.capacity() {
            self.values.push((due, value));
        } else {
            self.overflowed += 1;
        }
    }

    pub fn values(&self) -> &[(LocalTime, Span)] {
        &self.values
    }

    pub fn begin(&self) -> Option<LocalTime> {
        self.values.first().map(|(due, _)| *due)
    }

    pub const fn overflowed(&self) -> u64 {
        self.overflowed
    }

    pub fn summary(&self) -> Summary {
        Sorted::of(self.values.iter().map(|(_, value)| *value)).summary()
    }

    /// From the 0.1 % to the 99.9 % quantile; `None` if fewer than ten values lie beyond.
    pub fn spread(&self) -> Option<Span> {
        let sorted = |sign: i64| Sorted::of(self.values.iter().map(|(_, value)| value.times(sign)));
        let [maximum, minimum] = [sorted(1), sorted(-1)].map(|sorted| sorted.share(0.999));
        Some(Span::from_nanos(maximum?.saturating_add(minimum?)))
    }

    pub fn intervals(&self, length: Span) -> Vec<Interval> {
        let Some((begin, _)) = self.values.first() else { return Vec::new() };
        let number =
            |at: &LocalTime| (*at - *begin).as_nanos().div_euclid(length.as_nanos().max(1));
        let groups = self.values.chunk_by(|(a, _), (b, _)| number(a) == number(b));
        groups
            .map(|group| {
                let sorted = Sorted::of(group.iter().map(|(_, value)| *value));
                let begins = length.as_nanos() * number(&group[0].0);
                let rank = |rank: usize| sorted.0[rank];
                Interval {
                    at_ns: begins,
                    count: group.len() as u64,
                    min_ns: rank(0),
                    p50_ns: rank(sorted.0.len().div_ceil(2) - 1),
                    p99_ns: sorted.share(0.99),
                    max_ns: rank(sorted.0.len() - 1),
                }
            })
            .collect()
    }

    /// Bins are 1 ns wide up to 32 ns from the median, then 1/32 of the distance.
    pub fn histogram(&self) -> Vec<Bin> {
        let sorted = Sorted::of(self.values.iter().map(|(_, value)| *value));
        let Some(centre) = sorted.0.get(sorted.0.len() / 2).copied() else { return Vec::new() };
        let of = |value: &i64| bin(value.saturating_sub(centre));
        let groups = sorted.0.chunk_by(|a, b| of(a) == of(b));
        groups
            .map(|group| Bin {
                value_ns: centre.saturating_add(of(&group[0])),
                count: group.len() as u64,
            })
            .collect()
    }

    pub fn worst(&self, maximum: usize) -> Vec<(LocalTime, Span)> {
        let mut values = self.values.clone();
        let maximum = maximum.min(values.len());
        if maximum > 0 {
            values.select_nth_unstable_by_key(maximum - 1, |(_, value)| -value.as_nanos());
        }
        values.truncate(maximum);
        values.sort_by_key(|(due, value)| (-value.as_nanos(), *due));
        values
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// Since the run's first value.
    #[serde(default)]
    pub at_ns: i64,
    #[serde(default)]
    pub count: u64,
    #[serde(default)]
    pub min_ns: i64,
    pub p50_ns: i64,
    pub p99_ns: Option<i64>,
    #[serde(default = "unknown")]
    pub max_ns: i64,
}

/// For older reports: below every median.
const fn unknown() -> i64 {
    i64::MIN
}

fn bin(distance: i64) -> i64 {
    const BITS: u32 = 5;
    let far = distance.unsigned_abs();
    let coarse = (u64::BITS - far.leading_zeros()).saturating_sub(BITS + 1);
    let middle = ((far >> coarse) << coarse) + (1_u64 << coarse) / 2;
    i64::try_from(middle).unwrap_or(i64::MAX) * distance.signum()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bin {
    pub value_ns: i64,
    pub count: u64,
}

#[derive(Debug, Clone)]
pub struct Sorted(Vec<i64>);

impl Sorted {
    pub fn of(values: impl IntoIterator<Item = Span>) -> Self {
        let mut values: Vec<i64> = values.into_iter().map(Span::as_nanos).collect();
        values.sort_unstable();
        Self(values)
    }

    /// `None` if fewer than ten values lie beyond.
    fn share(&self, share: f64) -> Option<i64> {
        let count = self.0.len() as f64;
        let beyond = (count * (1.0 - share) + 1e-6).floor();
        (beyond >= 10.0).then(|| self.0[((count * share).ceil().max(1.0) as usize) - 1])
    }

    pub fn summary(&self) -> Summary {
        let values = &self.0;
        let (minimum, greatest) = (values.first().copied(), values.last().copied());
        let count = values.len() as f64;
        let mean = values.iter().map(|value| i128::from(*value)).sum::<i128>() as f64 / count;
        let squares: f64 = values.iter().map(|value| (*value as f64 - mean).powi(2)).sum();
        Summary {
            count: values.len() as u64,
            min_ns: minimum,
            mean_ns: minimum.map(|_| mean.round() as i64),
            stdev_ns: minimum.map(|_| (squares / count).sqrt().round() as i64),
            p50_ns: self.share(0.5),
            p90_ns: self.share(0.9),
            p99_ns: self.share(0.99),
            p999_ns: self.share(0.999),
            p9999_ns: self.share(0.9999),
            max_ns: greatest,
            range_ns: greatest
                .zip(minimum)
                .map(|(maximum, minimum)| maximum.saturating_sub(minimum)),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Missed {
    pub due: u64,
    pub missed: u64,
    /// Upper 95 % bound of the share, for independent misses (Clopper and Pearson, Biometrika 26,
    /// 1934; 3/n without any).
    pub at_most: f64,
}

impl Missed {
    pub fn of(missed: u64, due: u64) -> Self {
        let missed = missed.min(due);
        Self { due, missed, at_most: upper(missed, due) }
    }
}

fn upper(missed: u64, due: u64) -> f64 {
    if missed >= due {
        return 1.0;
    }
    if missed == 0 {
        return 1.0 - 0.05_f64.powf(1.0 / due as f64);
    }
    Beta::new(missed as f64 + 1.0, (due - missed) as f64).map_or(1.0, |beta| beta.inverse_cdf(0.95))
}
