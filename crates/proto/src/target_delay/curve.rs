//! Late packets per latency, for the final report.

use super::Repair;
use super::histogram::Histogram;
use super::target::LossTarget;
use crate::time::Span;

/// Late packets at one latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CurvePoint {
    /// Link offset.
    pub latency: Span,
    /// Packets that would be late.
    pub late: u64,
    /// All packets.
    pub of: u64,
}

/// Transit times of a whole run, and the resulting latency.
///
/// Assumes the worst phase between packets and periods: at most one period's packets too many.
#[derive(Debug, Clone)]
pub struct Advice {
    transits: Histogram,
    repair: Option<Repair>,
    takes: Span,
    minimum: Span,
}

impl Advice {
    /// Maximum points. Those at whole milliseconds reach beyond 150 ms.
    const MAX_STEPS: usize = 64;

    /// Creates an empty state. `takes` is the maximum time from arrival to the DAC. Only this
    /// allocates.
    pub fn new(takes: Span, minimum: Span) -> Self {
        Self { transits: Histogram::default(), repair: None, takes, minimum }
    }

    /// Counts the transit time of a packet.
    pub fn observe(&mut self, transit: Span) {
        self.transits.record(transit);
    }

    /// Discards all counts when the time reference changes.
    pub fn forget(&mut self) {
        self.transits.clear();
    }

    pub(crate) fn set_device(&mut self, takes: Span, minimum: Span) {
        (self.takes, self.minimum) = (takes, minimum);
    }

    pub(crate) fn set_repair(&mut self, budget: Span, lost: u32) {
        self.repair = Repair::new(budget, lost);
    }

    /// Number of packets.
    pub const fn count(&self) -> u64 {
        self.transits.count()
    }

    /// Late packets at `latency`.
    pub fn at(&self, latency: Span) -> CurvePoint {
        let late = self.transits.beyond(latency - self.takes);
        CurvePoint { latency, late, of: self.transits.count() }
    }

    /// Minimum latency that meets the target, in tenths of a millisecond.
    pub fn advised(&self, target: LossTarget) -> Option<Span> {
        let transit = self.transits.exceeded_by(target.allowed(self.transits.count()))?;
        let repaired = self.repair.and_then(|repair| repair.transit(&self.transits, target));
        Some(self.for_transit(repaired.map_or(transit, |repaired| repaired.max(transit))))
    }

    fn for_allowed(&self, allowed: u64) -> Option<Span> {
        self.transits.exceeded_by(allowed).map(|transit| self.for_transit(transit))
    }

    fn for_transit(&self, transit: Span) -> Span {
        up_to((transit + self.takes).max(self.minimum), TENTH)
    }

    /// Late packets by rising latency, in finer steps around the knee.
    pub fn curve(&self) -> Vec<CurvePoint> {
        let mut points = self.steps(Self::MAX_STEPS);
        points.extend(self.knee());
        points.sort_unstable_by_key(|point| point.latency);
        points.dedup();
        points
    }

    /// Whole milliseconds up to the first without late packets. Beyond 20 ms the steps grow.
    fn steps(&self, maximum: usize) -> Vec<CurvePoint> {
        let Some(all) = self.for_allowed(0) else { return Vec::new() };
        let millisecond = Span::from_millis(1);
        let mut latency = up_to(self.minimum.max(millisecond), millisecond);
        let mut points = Vec::new();
        while points.len() < maximum {
            points.push(self.at(latency));
            if latency >= all {
                break;
            }
            let step = up_to(latency.divided(20), millisecond).max(millisecond);
            latency += step;
        }
        points
    }

    /// Latencies at which at most half, a fifth, ... and no packets would be late.
    fn knee(&self) -> Vec<CurvePoint> {
        let of = self.transits.count();
        let shares = [2, 5, 10, 50, 100, 1_000, 10_000, 100_000, 1_000_000];
        let allowed = shares.into_iter().map(|part| of / part).filter(|allowed| *allowed > 0);
        let mut points: Vec<CurvePoint> = allowed
            .chain([0])
            .filter_map(|allowed| self.for_allowed(allowed))
            .map(|latency| self.at(latency))
            .collect();
        points.dedup();
        points
    }
}

const TENTH: Span = Span::from_micros(100);

fn up_to(span: Span, unit: Span) -> Span {
    let units = (span.as_nanos() + unit.as_nanos() - 1).div_euclid(unit.as_nanos());
    unit.times(units)
}
