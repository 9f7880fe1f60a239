//! Histogram of durations.

use crate::time::Span;

/// Width of the finest bins, in ns.
const FINE: i64 = 20_000;
/// Number of the finest bins, which reach up to 10.24 ms.
const LINEAR: usize = 512;
/// Bins per octave above, each 1/256 of the value wide.
const OCTAVE: usize = LINEAR / 2;
/// Octaves up to 5.2 s. The last bin includes all longer durations.
const OCTAVES: usize = 9;
const BINS: usize = LINEAR + OCTAVES * OCTAVE;

/// Negative durations count as zero.
fn bin(span: Span) -> usize {
    let units = (span.as_nanos().max(0) / FINE) as u64;
    if units < LINEAR as u64 {
        return units as usize;
    }
    // The first octave starts at 512 units, with bins of two units.
    let octave = (units.ilog2() - LINEAR.ilog2() + 1) as usize;
    let within = (units >> octave) as usize - OCTAVE;
    (LINEAR + (octave - 1) * OCTAVE + within).min(BINS - 1)
}

/// Upper end of a bin, exclusive.
fn end(bin: usize) -> Span {
    let units = match bin.checked_sub(LINEAR) {
        None => bin as i64 + 1,
        Some(above) => ((above % OCTAVE + OCTAVE + 1) as i64) << (above / OCTAVE + 1),
    };
    Span::from_nanos(units * FINE)
}

/// Histogram with a resolution of 20 µs up to 10 ms, and 0.4 % up to 5 s, in fixed memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    bins: Box<[u32]>,
    reach: usize,
    count: u64,
}

impl Histogram {
    /// Counts a duration.
    pub fn record(&mut self, span: Span) {
        let bin = bin(span);
        self.bins[bin] = self.bins[bin].saturating_add(1);
        self.reach = self.reach.max(bin + 1);
        self.count += 1;
    }

    /// Number of durations.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Durations longer than `span`, including its bin.
    pub fn beyond(&self, span: Span) -> u64 {
        if span < Span::ZERO {
            return self.count;
        }
        let from = bin(span).min(self.reach);
        self.bins[from..self.reach].iter().map(|count| u64::from(*count)).sum()
    }

    /// Minimum duration that at most `allowed` exceed, rounded up to its bin.
    pub(crate) fn exceeded_by(&self, allowed: u64) -> Option<Span> {
        let mut seen = 0;
        let bin = (0..self.reach).rev().find(|bin| {
            seen += u64::from(self.bins[*bin]);
            seen > allowed
        })?;
        Some(end(bin))
    }

    /// Shortest duration, rounded up to its bin.
    pub fn minimum(&self) -> Option<Span> {
        self.bins[..self.reach].iter().position(|count| *count > 0).map(end)
    }

    /// Removes all counts.
    pub fn clear(&mut self) {
        self.bins[..self.reach].fill(0);
        (self.reach, self.count) = (0, 0);
    }

    pub(super) fn take_back(&mut self, part: &Self) {
        let counts = self.bins.iter_mut().zip(&part.bins[..part.reach]);
        counts.for_each(|(count, part)| *count = count.saturating_sub(*part));
        self.count = self.count.saturating_sub(part.count);
        let held = self.bins[..self.reach].iter().rposition(|count| *count > 0);
        self.reach = held.map_or(0, |last| last + 1);
    }
}

impl Default for Histogram {
    /// Only this function allocates.
    fn default() -> Self {
        Self { bins: vec![0; BINS].into(), reach: 0, count: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_ordered_and_at_most_20_us_or_1_in_256_wide() {
        let mut last = 0;
        for micros in (0..5_000_000).step_by(7) {
            let span = Span::from_micros(micros);
            let bin = bin(span);
            assert!(bin == last || bin == last + 1, "{micros}");
            let width = end(bin) - span;
            assert!(width > Span::ZERO, "{micros}");
            let maximum = Span::from_micros(20).max(span.divided(256) + Span::from_nanos(1));
            assert!(width <= maximum, "{micros}: {width}");
            last = bin;
        }
        assert_eq!(bin(Span::MAX), BINS - 1);
    }

    #[test]
    fn so_many_as_are_allowed_exceed_it_and_no_more() {
        let mut all = Histogram::default();
        (1..=500).for_each(|bin| all.record(Span::from_micros(20 * bin - 1)));
        assert_eq!(all.exceeded_by(10), Some(Span::from_micros(9_800)));
        assert_eq!(all.beyond(Span::from_micros(9_800)), 10);
        assert_eq!(all.exceeded_by(499), Some(Span::from_micros(20)));
        assert_eq!(all.exceeded_by(500), None);
        assert_eq!(all.minimum(), Some(Span::from_micros(20)));
    }

    #[test]
    fn removed_values_leave_no_trace() {
        let (mut all, mut part, mut rest) =
            (Histogram::default(), Histogram::default(), Histogram::default());
        for micros in [10, 500, 90_000, 4_000_000] {
            all.record(Span::from_micros(micros));
            part.record(Span::from_micros(micros));
        }
        for micros in [20, 500] {
            all.record(Span::from_micros(micros));
            rest.record(Span::from_micros(micros));
        }
        all.take_back(&part);
        assert_eq!(all, rest);
    }
}
