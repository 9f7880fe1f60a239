//! What repair asks of the latency.

use super::histogram::Histogram;
use super::target::LossTarget;
use crate::time::Span;

/// How packets that do not come by themselves are brought back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Repair {
    /// Within so much time of their own departure.
    budget: Span,
    /// How many they are, in parts of 10⁹.
    lost: u32,
}

impl Repair {
    /// `None` where nothing is brought back.
    pub(super) fn new(budget: Span, lost: u32) -> Option<Self> {
        (budget > Span::ZERO).then_some(Self { budget, lost })
    }

    /// The transit, repair included, that all but the allowed share of packets do not exceed if so
    /// many are lost: those late among the lost are late at most. `None` where that share allows all
    /// losses.
    pub(super) fn transit(self, transits: &Histogram, target: LossTarget) -> Option<Span> {
        let target = target.parts();
        if self.lost <= target {
            return None;
        }
        let allowed = u128::from(transits.count()) * u128::from(target) / u128::from(self.lost);
        Some(transits.exceeded_by(allowed as u64)? + self.budget)
    }
}
