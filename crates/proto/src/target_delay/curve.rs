//! What would have been late at another latency: for the report, over a whole run.

use super::Repair;
use super::histogram::Histogram;
use super::target::LossTarget;
use crate::time::Span;

/// What would have been late at one latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CurvePoint {
    /// The link offset.
    pub latency: Span,
    /// Packets that would have been late at it.
    pub late: u64,
    /// Of so many that came.
    pub of: u64,
}

/// The transits of a whole run, and what follows for the latency.
///
/// Reckoned for the worst phase between packets and periods, so that what is advised does not
/// depend on luck: at a latency that is given here never more packets would have been late than it
/// says, and up to those of one period fewer.
#[derive(Debug, Clone)]
pub struct Advice {
    transits: Histogram,
    repair: Option<Repair>,
    takes: Span,
    least: Span,
}

impl Advice {
    /// Whole milliseconds in a curve: from 3 ms on these reach beyond 150 ms.
    const MOST_STEPS: usize = 64;

    /// For a device that takes `takes` from a packet's arrival to its first frame at the DAC at most,
    /// where less than `least` cannot work. Allocates; nothing later does.
    pub fn new(takes: Span, least: Span) -> Self {
        Self { transits: Histogram::default(), repair: None, takes, least }
    }

    /// Counts the transit of one packet.
    pub fn observe(&mut self, transit: Span) {
        self.transits.record(transit);
    }

    /// Forgets what was counted: transits are reckoned from something else from now on.
    pub fn forget(&mut self) {
        self.transits.clear();
    }

    pub(crate) fn set_device(&mut self, takes: Span, least: Span) {
        (self.takes, self.least) = (takes, least);
    }

    pub(crate) fn set_repair(&mut self, budget: Span, lost: u32) {
        self.repair = Repair::new(budget, lost);
    }

    /// How many packets were counted.
    pub const fn count(&self) -> u64 {
        self.transits.count()
    }

    /// What would have been late at `latency`.
    pub fn at(&self, latency: Span) -> CurvePoint {
        let late = self.transits.beyond(latency - self.takes);
        CurvePoint { latency, late, of: self.transits.count() }
    }

    /// The least latency, in whole tenths of a millisecond, at which no more than the target would
    /// have been late: among fewer packets than the target's inverse, none. As long as more are lost
    /// than that, those that are brought back are waited for.
    pub fn advised(&self, target: LossTarget) -> Option<Span> {
        let transit = self.transits.exceeded_by(target.allowed(self.transits.count()))?;
        let repaired = self.repair.and_then(|repair| repair.transit(&self.transits, target));
        Some(self.for_transit(repaired.map_or(transit, |repaired| repaired.max(transit))))
    }

    fn for_allowed(&self, allowed: u64) -> Option<Span> {
        self.transits.exceeded_by(allowed).map(|transit| self.for_transit(transit))
    }

    fn for_transit(&self, transit: Span) -> Span {
        up_to((transit + self.takes).max(self.least), TENTH)
    }

    /// What would have been late, latency by latency in rising order: each whole millisecond, and
    /// the knee more finely.
    pub fn curve(&self) -> Vec<CurvePoint> {
        let mut points = self.steps(Self::MOST_STEPS);
        points.extend(self.knee());
        points.sort_unstable_by_key(|point| point.latency);
        points.dedup();
        points
    }

    /// Whole milliseconds from the least latency that can work to the first at which nothing would
    /// have been late, but no more than `most`: beyond 20 ms ever further apart.
    fn steps(&self, most: usize) -> Vec<CurvePoint> {
        let Some(all) = self.for_allowed(0) else { return Vec::new() };
        let millisecond = Span::from_millis(1);
        let mut latency = up_to(self.least.max(millisecond), millisecond);
        let mut points = Vec::new();
        while points.len() < most {
            points.push(self.at(latency));
            if latency >= all {
                break;
            }
            let step = up_to(latency.divided(20), millisecond).max(millisecond);
            latency += step;
        }
        points
    }

    /// Up to ten latencies around the knee: the least at which no more than half, a fifth, ... and
    /// nothing would have been late.
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

/// `span` rounded up to whole multiples of `unit`.
fn up_to(span: Span, unit: Span) -> Span {
    let units = (span.as_nanos() + unit.as_nanos() - 1).div_euclid(unit.as_nanos());
    unit.times(units)
}
