//! Curves through points, and linear equations.

/// The solution replaces the right sides, last in each row. Returns `false` for a singular system.
/// Allocates nothing.
pub fn solve(rows: &mut [impl AsRef<[f64]> + AsMut<[f64]>]) -> bool {
    let count = rows.len();
    for at in 0..count {
        let size = |row: &usize| rows[*row].as_ref()[at].abs();
        let pivot = (at..count).max_by(|a, b| size(a).total_cmp(&size(b))).unwrap_or(at);
        rows.swap(at, pivot);
        let (done, below) = rows.split_at_mut(at + 1);
        let row = done[at].as_ref();
        if row[at] == 0.0 {
            return false;
        }
        for below in below.iter_mut().map(AsMut::as_mut) {
            let part = below[at] / row[at];
            below.iter_mut().zip(row).for_each(|(below, row)| *below -= part * row);
        }
    }
    for at in (0..count).rev() {
        let row = rows[at].as_ref();
        let known: f64 = (at + 1..count).map(|next| row[next] * rows[next].as_ref()[count]).sum();
        let solution = (row[count] - known) / row[at];
        rows[at].as_mut()[count] = solution;
    }
    true
}

/// Through the values at −1, 0 and 1; 0 for a straight line.
pub fn vertex([before, here, after]: [f64; 3]) -> f64 {
    let bend = before - 2.0 * here + after;
    if bend == 0.0 { 0.0 } else { 0.5 * (before - after) / bend }
}

/// Clamped to −1 to 1; 0 without a maximum.
pub fn top(three: [f64; 3]) -> f64 {
    let [before, here, after] = three;
    if before - 2.0 * here + after < 0.0 { vertex(three).clamp(-1.0, 1.0) } else { 0.0 }
}

/// Index and magnitude of the first largest.
pub fn largest(values: impl Iterator<Item = f64>) -> (usize, f64) {
    let sizes = values.map(f64::abs).enumerate();
    sizes.fold((0, 0.0), |best, one| if one.1 > best.1 { one } else { best })
}

/// Interpolates a peak by a parabola; `top` itself at an end.
pub fn place_of_top(values: &[f64], top: usize) -> f64 {
    let around = top.checked_sub(1).and_then(|before| values.get(before..)?.first_chunk());
    top as f64 + around.map_or(0.0, |three| vertex(*three).clamp(-0.5, 0.5))
}

/// Slope of parallel lines through several runs of points.
#[derive(Debug, Clone, Copy, Default)]
pub struct CommonSlope {
    over: f64,
    under: f64,
}

impl CommonSlope {
    /// x, y and weight; returns the mean x and y.
    pub fn add(&mut self, points: impl Iterator<Item = (f64, f64, f64)> + Clone) -> (f64, f64) {
        let (x, y, all) = points.clone().fold((0.0, 0.0, 0.0), |sum, (x, y, weight)| {
            (sum.0 + weight * x, sum.1 + weight * y, sum.2 + weight)
        });
        let (middle, mean) = (x / all, y / all);
        for (x, y, weight) in points {
            self.over += weight * (x - middle) * (y - mean);
            self.under += weight * (x - middle) * (x - middle);
        }
        (middle, mean)
    }

    /// Adds a known slope with its weight.
    pub fn add_known(&mut self, slope: f64, weight: f64) {
        self.over += weight * slope;
        self.under += weight;
    }

    /// Weight for [`Self::add_known`].
    pub fn weight(&self) -> f64 {
        self.under
    }

    /// `None` if all points of each run have the same x.
    pub fn slope(&self) -> Option<f64> {
        (self.under > 0.0).then(|| self.over / self.under)
    }
}

/// Peaks of equal-signed runs from `minimum` on: index and value.
pub fn hills(
    values: impl Iterator<Item = f64>,
    minimum: f64,
) -> impl Iterator<Item = (usize, f64)> {
    let mut hill: Option<(usize, f64)> = None;
    let values = values.map(Some).chain([None]).enumerate();
    values.filter_map(move |(at, value)| {
        let here = value.filter(|value| value.abs() >= minimum && *value != 0.0);
        let goes_on = hill.zip(here).is_some_and(|((_, top), here)| top * here > 0.0);
        let is_higher = hill.zip(here).is_some_and(|((_, top), here)| here.abs() > top.abs());
        let next = if goes_on && !is_higher { hill } else { here.map(|here| (at, here)) };
        let last = core::mem::replace(&mut hill, next);
        last.filter(|_| !goes_on)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equations_are_solved_in_any_order_unless_singular() {
        let mut rows = [[0.0, 2.0, 1.0, 7.0], [4.0, 0.0, 1.0, 7.0], [1.0, 1.0, 0.0, 3.0]];
        assert!(solve(&mut rows));
        assert_eq!(rows.map(|row| row[3]), [1.0, 2.0, 3.0]);
        assert!(!solve(&mut [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]));
        assert!(!solve(&mut [vec![0.0; 3], vec![0.0; 3]]));
    }

    #[test]
    fn runs_of_points_share_a_slope_and_have_means_of_their_own() {
        let mut slope = CommonSlope::default();
        assert_eq!(slope.slope(), None);
        let points = [(0.0, 1.0, 1.0), (2.0, 5.0, 1.0), (4.0, 9.0, 2.0)];
        assert_eq!(slope.add(points.into_iter()), (2.5, 6.0));
        assert_eq!(slope.add([(9.0, 1.0, 3.0), (10.0, 3.0, 3.0)].into_iter()), (9.5, 2.0));
        assert_eq!(slope.slope(), Some(2.0));
        slope.add_known(0.0, slope.weight());
        assert_eq!(slope.slope(), Some(1.0));
    }

    #[test]
    fn a_hill_ends_in_a_valley_or_at_a_change_of_sign() {
        let all = |values: &[f64]| hills(values.iter().copied(), 0.5).collect::<Vec<_>>();
        assert_eq!(
            all(&[0.6, 0.9, 0.9, 0.4, 0.7, -0.8, -0.5, 0.0, 1.0]),
            [(1, 0.9), (4, 0.7), (5, -0.8), (8, 1.0)]
        );
        assert_eq!(all(&[0.1, -0.4, f64::NAN]), []);
    }
}
