//! Compact duration distribution, finest near the first value.

mod pages;

use serde::{Deserialize, Serialize};
use tautline_proto::time::Span;

use pages::Pages;

/// Histogram around the first value.
///
/// Bins are 1 ns wide up to a distance of 1.024 µs, then a thousandth of the distance. Minimum,
/// maximum, mean and standard deviation are exact. Memory grows with used bins, to 256 KiB at most.
#[derive(Debug, Clone)]
pub struct Distribution {
    centre: Option<i64>,
    above: Pages,
    below: Pages,
    count: u64,
    minimum: i64,
    greatest: i64,
    sum: i128,
    squares: f64,
}

/// Base-2 logarithm of the bins per octave.
const PRECISION_BITS: u32 = 10;
const LINEAR: usize = 1 << PRECISION_BITS;
/// Octaves of bins: up to 2^40 ns, 18 minutes.
const OCTAVES: usize = 30;
const BINS: usize = LINEAR * (OCTAVES + 1);

fn bin(distance: u64) -> usize {
    if distance < LINEAR as u64 {
        return distance as usize;
    }
    let octave = 63 - distance.leading_zeros() - PRECISION_BITS;
    let index = ((octave as usize) << PRECISION_BITS) + (distance >> octave) as usize;
    index.min(BINS - 1)
}

fn distance(bin: usize) -> i64 {
    if bin < 2 * LINEAR {
        return bin as i64;
    }
    let octave = (bin >> PRECISION_BITS) - 1;
    let within = (bin & (LINEAR - 1)) + LINEAR;
    ((within << octave) + (1 << octave) / 2) as i64
}

impl Default for Distribution {
    fn default() -> Self {
        Self {
            centre: None,
            above: Pages::default(),
            below: Pages::default(),
            count: 0,
            minimum: i64::MAX,
            greatest: i64::MIN,
            sum: 0,
            squares: 0.0,
        }
    }
}

impl Distribution {
    /// Records a value. May allocate: only for ordinary threads.
    pub fn record(&mut self, span: Span) {
        let value = span.as_nanos();
        let centre = *self.centre.get_or_insert(value);
        let away = value.saturating_sub(centre);
        let bins = if away >= 0 { &mut self.above } else { &mut self.below };
        bins.count(bin(away.unsigned_abs()));
        self.count += 1;
        self.minimum = self.minimum.min(value);
        self.greatest = self.greatest.max(value);
        self.sum += i128::from(value);
        self.squares += (away as f64).powi(2);
    }

    /// Recorded values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Smallest value that `share` of all do not exceed. `None` if fewer than ten lie beyond: no
    /// significance.
    pub fn percentile(&self, share: f64) -> Option<Span> {
        let beyond = (self.count as f64 * (1.0 - share) + 1e-6).floor();
        if self.count == 0 || beyond < 10.0 {
            return None;
        }
        self.at_rank((self.count as f64 * share).ceil().max(1.0) as u64)
    }

    /// Median of any number of values.
    pub fn median(&self) -> Option<Span> {
        self.at_rank(self.count.div_ceil(2))
    }

    fn at_rank(&self, rank: u64) -> Option<Span> {
        let (centre, below) = (self.centre?, self.below.total());
        // Ranks below the centre run opposite to the distance.
        let away = match rank.checked_sub(below + 1) {
            Some(before) => distance(self.above.bin_after(before)?),
            None => -distance(self.below.bin_after(below - rank)?),
        };
        Some(Span::from_nanos((centre + away).clamp(self.minimum, self.greatest)))
    }

    /// For reports.
    pub fn summary(&self) -> Summary {
        let nanos = |span: Option<Span>| span.map(Span::as_nanos);
        let any = self.count > 0;
        let mean = any.then(|| (self.sum as f64 / self.count as f64).round() as i64);
        Summary {
            count: self.count,
            min_ns: any.then_some(self.minimum),
            mean_ns: mean,
            stdev_ns: any.then(|| self.deviation().round() as i64),
            p50_ns: nanos(self.percentile(0.5)),
            p90_ns: nanos(self.percentile(0.9)),
            p99_ns: nanos(self.percentile(0.99)),
            p999_ns: nanos(self.percentile(0.999)),
            p9999_ns: nanos(self.percentile(0.9999)),
            max_ns: any.then_some(self.greatest),
            range_ns: any.then(|| self.greatest - self.minimum),
        }
    }

    fn deviation(&self) -> f64 {
        let count = self.count as f64;
        let centre = self.centre.unwrap_or(0);
        let mean_away = (self.sum - i128::from(self.count) * i128::from(centre)) as f64 / count;
        (self.squares / count - mean_away.powi(2)).max(0.0).sqrt()
    }
}

/// Summary of a distribution, in nanoseconds. All figures are `null` without values; a percentile
/// is `null` if fewer than ten values lie beyond it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// Number of values.
    pub count: u64,
    /// Minimum.
    pub min_ns: Option<i64>,
    /// Mean.
    pub mean_ns: Option<i64>,
    /// Standard deviation.
    pub stdev_ns: Option<i64>,
    /// Median.
    pub p50_ns: Option<i64>,
    /// 90th percentile.
    pub p90_ns: Option<i64>,
    /// 99th percentile.
    pub p99_ns: Option<i64>,
    /// 99.9th percentile.
    pub p999_ns: Option<i64>,
    /// 99.99th percentile.
    pub p9999_ns: Option<i64>,
    /// Maximum.
    pub max_ns: Option<i64>,
    /// Maximum minus minimum.
    pub range_ns: Option<i64>,
}

#[cfg(test)]
impl Distribution {
    pub(crate) fn bytes(&self) -> usize {
        self.above.bytes() + self.below.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = i64>) -> Distribution {
        let mut distribution = Distribution::default();
        values.into_iter().for_each(|v| distribution.record(Span::from_nanos(v)));
        distribution
    }

    #[test]
    fn values_within_a_microsecond_of_the_first_are_exact() {
        let values: Vec<i64> = (0..2001).map(|i| 5_000_000 + (i * 7919) % 2001 - 1000).collect();
        let distribution = of(std::iter::once(5_000_000).chain(values.clone()));
        assert_eq!(distribution.median(), Some(Span::from_nanos(5_000_000)));
        assert_eq!(distribution.percentile(0.9), Some(Span::from_nanos(5_000_800)));
    }

    #[test]
    fn figures_are_exact_to_a_thousandth_of_the_distance() {
        for far in [2_000, 123_456, 7_654_321, 9_876_543_210_i64] {
            for sign in [1, -1] {
                let distribution = of([0].into_iter().chain((0..100).map(|_| sign * far)));
                let median = distribution.median().unwrap().as_nanos();
                assert!((median - sign * far).abs() * 1000 <= far, "{median} for {far}");
            }
        }
    }

    #[test]
    fn a_tail_of_fewer_than_ten_values_has_no_percentile() {
        let summary = of(0..1000).summary();
        assert_eq!(summary.p99_ns, Some(989));
        assert_eq!(summary.p999_ns, None);
        assert_eq!(summary.max_ns, Some(999));
        assert_eq!(of([]).summary().p50_ns, None);
    }

    #[test]
    fn mean_and_deviation_are_those_of_the_values() {
        let summary = of([2, 4, 4, 4, 5, 5, 7, 9].map(|v| v * 1_000_000)).summary();
        assert_eq!((summary.mean_ns, summary.stdev_ns), (Some(5_000_000), Some(2_000_000)));
    }

    #[test]
    fn bins_are_in_order_and_without_gaps() {
        let mut last = 0;
        for distance in (0..200_000).chain((18..39).map(|bits| 1 << bits)) {
            let bin = bin(distance);
            assert!(bin == last || bin == last + 1 || distance >= 200_000, "{distance}");
            last = bin;
        }
        for index in 0..BINS - 1 {
            assert_eq!(bin(distance(index) as u64), index);
        }
    }

    #[test]
    fn memory_grows_with_the_counted_values() {
        assert_eq!(of([]).bytes(), 0);
        let mut wander = 1_u64;
        let wide = of((0..3_600_000).map(|_| {
            wander = wander.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (wander >> 33).rem_euclid(2_000_000) as i64
        }));
        assert!(wide.bytes() <= 80 * 1024, "{}", wide.bytes());
        let narrow = of((0..3_600_000).map(|index| 5_000_000 + index % 100));
        assert!(narrow.bytes() <= 2 * 1024, "{}", narrow.bytes());
        let all = of((0..BINS).flat_map(|bin| [distance(bin), -distance(bin)]));
        assert!(all.bytes() <= 260 * 1024, "{}", all.bytes());
    }

    #[test]
    fn a_bin_that_is_counted_often_loses_nothing() {
        let often = of([0].into_iter().chain((0..200_000).map(|index| 5 + 20 * (index % 2))));
        assert_eq!(often.median(), Some(Span::from_nanos(5)));
        assert_eq!(often.percentile(0.501), Some(Span::from_nanos(25)));
        assert_eq!((often.count(), often.above.total()), (200_001, 200_001));
    }
}
