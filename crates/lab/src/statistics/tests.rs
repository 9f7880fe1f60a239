//! Reference: SciPy 1.x (`mannwhitneyu`, asymptotic and with continuity; `beta.ppf`).

use super::*;

fn numbers(seed: u64, count: usize) -> Vec<f64> {
    let mut state = seed;
    (0..count)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % 1000) as f64
        })
        .collect()
}

#[test]
fn chance_and_delta_are_those_of_the_reference() {
    let (first, second) = (numbers(1, 60), numbers(2, 80));
    let more: Vec<f64> = second.iter().map(|value| value + 150.0).collect();
    let found = compare(&first, &more, 0.0);
    assert!((found.p - 0.079_825_912_128_027_4).abs() < 1e-10, "{found:?}");
    assert!((found.delta - 0.173_541_666_666_666_7).abs() < 1e-10, "{found:?}");
    let tens =
        |values: &[f64]| values.iter().map(|value| (value / 100.0).floor()).collect::<Vec<_>>();
    let found = compare(&tens(&first), &tens(&more), 0.0);
    assert!((found.p - 0.108_467_230_622_167_51).abs() < 1e-10, "{found:?}");
}

#[test]
fn few_values_use_exact_ranks_and_correlation_counts_less() {
    // From all combinations (Python's itertools and Fraction), mean ranks for ties.
    for (first, second, p) in [
        (
            vec![0, 7, 1, 6, 2, 5, 3, 4],
            vec![10, 17, 11, 16, 12, 15, 13, 14],
            0.000_155_400_155_400_155_4,
        ),
        (
            vec![1, 9, 2, 9, 3, 8, 3, 5],
            vec![2, 17, 3, 16, 7, 15, 9, 12, 9],
            0.059_728_506_787_330_32,
        ),
        (
            vec![1, 20, 4, 13, 6, 11, 8, 9],
            vec![2, 19, 10, 18, 12, 17, 14, 16, 15],
            0.092_719_045_660_222_13,
        ),
    ] {
        let all = |values: &[i32]| values.iter().map(|value| f64::from(*value)).collect::<Vec<_>>();
        let (mut a, mut b) = (all(&first), all(&second));
        let found = ranked(&a, &b);
        assert!((found.p / p - 1.0).abs() < 1e-9, "{first:?} {second:?}: {found:?}, not {p}");
        a.sort_by(f64::total_cmp);
        b.sort_by(f64::total_cmp);
        assert!(ranked(&a, &b).p > 1.5 * p, "{first:?} {second:?}");
    }
}

#[test]
fn two_runs_that_wander_little_and_lie_far_apart_differ() {
    // SciPy's `stats.t.sf` and `norm.sf`, with lag-1 correlation of values and ranks.
    let first = [0.0, 1.0, 3.0, 4.0, 6.0, 7.0, 8.0, 9.0, 11.0, 12.0];
    for (further, p) in [
        (4.5, 0.400_684_115_939_631_05),
        (20.0, 0.115_975_904_430_415_24),
        (40.0, 0.041_195_427_660_576_64),
        (200.0, 0.000_010_825_088_224_469_03),
        (1e15, 0.000_010_825_088_224_469_03),
    ] {
        let second: Vec<f64> = first.iter().rev().map(|value| value + further).collect();
        let found = ranked(&first, &second);
        assert!((found.p / p - 1.0).abs() < 1e-6, "{further}: {found:?}, not {p}");
    }
}

#[test]
fn bound_of_misses_equals_the_reference() {
    for (missed, due, bound) in [
        (0, 1000, 0.002_991_249_545_095_295),
        (1, 1000, 0.004_734_993_575_499_777),
        (7, 100_000, 0.000_131_477_096_239_092_64),
        (50, 60, 0.906_693_067_294_763_6),
        (1000, 2_700_000, 0.000_390_219_504_685_293_53),
    ] {
        let found = Missed::of(missed, due).at_most;
        // The iterative inverse is precise to 1e-8.
        assert!((found / bound - 1.0).abs() < 1e-7, "{missed} of {due}: {found}, not {bound}");
    }
    assert_eq!(Missed::of(3, 3).at_most, 1.0);
}

fn at(milliseconds: i64) -> LocalTime {
    LocalTime::ZERO + Span::from_millis(milliseconds)
}

#[test]
fn summary_has_the_measured_values() {
    let mut series = Series::with_room(1000);
    (0..1000).for_each(|index| series.push(at(index), Span::from_nanos((index * 7919) % 1000)));
    let summary = series.summary();
    assert_eq!((summary.min_ns, summary.max_ns, summary.range_ns), (Some(0), Some(999), Some(999)));
    assert_eq!((summary.p50_ns, summary.p99_ns), (Some(499), Some(989)));
    assert_eq!((summary.p999_ns, summary.p9999_ns), (None, None), "fewer than ten lie beyond");
    assert_eq!((summary.mean_ns, summary.stdev_ns), (Some(500), Some(289)));
    assert_eq!(Series::with_room(0).summary().max_ns, None);
}

#[test]
fn values_beyond_the_capacity_are_counted() {
    let mut series = Series::with_room(2);
    (0..5).for_each(|index| series.push(at(index), Span::ZERO));
    assert_eq!((series.values().len(), series.overflowed()), (2, 3));
}

#[test]
fn intervals_have_the_values_that_were_due_in_them() {
    let mut series = Series::with_room(100);
    for index in (0..10).chain(20..25) {
        series.push(at(100 * index), Span::from_millis(index));
    }
    let found = series.intervals(Span::from_secs(1));
    let brief: Vec<_> =
        found.iter().map(|i| (i.at_ns, i.count, i.min_ns, i.p50_ns, i.max_ns)).collect();
    assert_eq!(
        brief,
        [(0, 10, 0, 4_000_000, 9_000_000), (2_000_000_000, 5, 20_000_000, 22_000_000, 24_000_000)]
    );
}

#[test]
fn worst_packets_are_first_with_their_time() {
    let mut series = Series::with_room(100);
    [3, 9, 1, 9, 5]
        .iter()
        .zip(0..)
        .for_each(|(ms, index)| series.push(at(index), Span::from_millis(*ms)));
    let worst: Vec<_> =
        series.worst(3).iter().map(|(due, value)| (*due, value.as_nanos() / 1_000_000)).collect();
    assert_eq!(worst, [(at(1), 9), (at(3), 9), (at(4), 5)]);
    assert_eq!(series.worst(9).len(), 5);
}

#[test]
fn runs_of_one_kind_differ_seldom_and_runs_that_are_more_always() {
    let seconds = |seed, more: f64| numbers(seed, 60).iter().map(|v| v + more).collect::<Vec<_>>();
    let reported = |more: f64, uncertainty: f64| {
        (0..100)
            .filter(|seed| {
                let found =
                    compare(&seconds(2 * seed, 0.0), &seconds(2 * seed + 1, more), uncertainty);
                found.verdict != SeriesDifference::None
            })
            .count()
    };
    assert!(reported(0.0, 0.0) <= 2, "{}", reported(0.0, 0.0));
    assert_eq!(reported(900.0, 0.0), 100);
    assert_eq!(reported(900.0, 2000.0), 0, "the runs say themselves that they do not know");
}

#[test]
fn too_few_intervals_are_reported_and_not_judged() {
    let found = compare(&numbers(1, 7), &numbers(2, 60), 0.0);
    assert_eq!(found.verdict, SeriesDifference::Unknown);
}

#[test]
fn a_histogram_shows_body_and_tail_and_loses_nothing() {
    let mut series = Series::with_room(10_003);
    (0..10_000).for_each(|index| series.push(at(index), Span::from_nanos(5_000_000 + index % 20)));
    for (index, far) in [4_000_000, 5_100_000, 35_000_000].into_iter().enumerate() {
        series.push(at(10_000 + index as i64), Span::from_nanos(far));
    }
    let bins = series.histogram();
    assert_eq!(bins.iter().map(|bin| bin.count).sum::<u64>(), 10_003);
    assert!(bins.is_sorted_by(|a, b| a.value_ns < b.value_ns), "{bins:?}");
    // The body to 1 ns, the tail to 1/32 of its distance.
    assert_eq!(bins.iter().filter(|bin| bin.count == 500).count(), 20, "{bins:?}");
    for far in [4_000_000_i64, 5_100_000, 35_000_000] {
        let near = |bin: &&Bin| (bin.value_ns - far).abs() <= (far - 5_000_010).abs() / 32;
        assert_eq!(bins.iter().filter(near).count(), 1, "{far}: {bins:?}");
    }
    assert_eq!(Series::with_room(0).histogram(), []);
}

#[test]
fn spread_drops_a_thousandth_per_end_and_needs_ten_there() {
    let spread = |count: i64| {
        let mut series = Series::with_room(count as usize);
        (0..count).for_each(|n| series.push(LocalTime::ZERO, Span::from_nanos(n)));
        series.spread().map(Span::as_nanos)
    };
    assert_eq!(spread(10_000), Some(9979));
    assert_eq!(spread(9000), None);
}
