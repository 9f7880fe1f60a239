//! How long before a block meets the converter a device asks for it, by what it says at each wake-up:
//! some know it only once they run.

use tautline_proto::time::Span;

/// The longest lead that a device keeps to. For its own thread: a comparison each period.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lead {
    /// The least of the latest wake-ups: a thread that wakes late has less, none has more.
    least: Option<Span>,
    wakes: u32,
    kept: Option<Span>,
}

impl Lead {
    /// Wake-ups after which a lead is one that is kept to.
    const ENOUGH: u32 = 16;

    /// Of a device that has not run.
    pub(crate) const NONE: Self = Self { least: None, wakes: 0, kept: None };

    /// It woke, and what it asks for meets the converter so much later.
    pub(crate) fn wake(&mut self, lead: Span) {
        self.least = Some(self.least.map_or(lead, |least| least.min(lead)));
        self.wakes += 1;
        if self.wakes == Self::ENOUGH {
            self.kept = self.kept.max(self.least);
            (self.least, self.wakes) = (None, 0);
        }
    }

    /// The longest so far, once there were enough.
    pub(crate) const fn kept(&self) -> Option<Span> {
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lead_is_what_every_wake_up_of_some_has_and_no_outlier() {
        let mut lead = Lead::NONE;
        let wakes = |lead: &mut Lead, millis: &[i64]| {
            millis.iter().for_each(|millis| lead.wake(Span::from_millis(*millis)));
        };
        wakes(&mut lead, &[21; 15]);
        assert_eq!(lead.kept(), None);
        // It woke late once.
        wakes(&mut lead, &[20]);
        assert_eq!(lead.kept(), Some(Span::from_millis(20)));
        wakes(&mut lead, &[[90; 1].as_slice(), &[5; 15]].concat());
        assert_eq!(lead.kept(), Some(Span::from_millis(20)));
        wakes(&mut lead, &[42; 16]);
        assert_eq!(lead.kept(), Some(Span::from_millis(42)));
    }
}
