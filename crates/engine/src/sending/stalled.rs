//! Which xruns of a capturing device the host answers for.

use tautline_proto::faults::Faults;
use tautline_proto::time::LocalTime;

/// Xruns that a stall of all cores overlaps, as [`Arrivals`](tautline_proto::arrivals::Arrivals) counts those
/// of a receiver.
#[derive(Debug, Default)]
pub(crate) struct StalledXruns {
    /// Told last and not judged yet: a witness wakes as late as the device does.
    unjudged: Faults,
    stalled: u64,
}

impl StalledXruns {
    /// Takes what went wrong since the last time. What was told then is judged: a witness has run since, and
    /// `stalled` tells whether the whole host stood still between two instants.
    pub(crate) fn take(&mut self, faults: &Faults, stalled: impl Fn(LocalTime, LocalTime) -> bool) {
        let before = core::mem::replace(&mut self.unjudged, *faults);
        self.stalled += u64::from(before.harm_of(stalled).starved);
    }

    /// The last word: what is not judged yet is.
    pub(crate) fn finish(&mut self, stalled: impl Fn(LocalTime, LocalTime) -> bool) {
        self.take(&Faults::NONE, stalled);
    }

    /// How many there were, of those that are judged.
    pub(crate) fn count(&self) -> u64 {
        self.stalled
    }
}

#[cfg(test)]
mod tests {
    use tautline_proto::faults::Harm;
    use tautline_proto::time::Span;

    use super::*;

    fn at(millis: i64) -> LocalTime {
        LocalTime::ZERO + Span::from_millis(millis)
    }

    /// Each the xruns of a card that woke before and noticed them then.
    fn xruns(all: &[(i64, i64, u32)]) -> Faults {
        let mut faults = Faults::NONE;
        for (woke, noticed, starved) in all {
            let harm = Harm { starved: *starved, ..Harm::default() };
            faults.add(at(*woke), at(*noticed), harm);
        }
        faults
    }

    /// All cores stood still between these.
    fn stall(begin: i64, end: i64) -> impl Fn(LocalTime, LocalTime) -> bool {
        move |from, to| at(begin) <= to && from <= at(end)
    }

    fn never(_: LocalTime, _: LocalTime) -> bool {
        false
    }

    #[test]
    fn xruns_that_a_stall_overlaps_are_the_hosts_and_no_others() {
        let mut xruns_of = StalledXruns::default();
        xruns_of.take(&xruns(&[(100, 130, 2), (200, 210, 1)]), never);
        xruns_of.finish(stall(105, 125));
        assert_eq!(xruns_of.count(), 2);
        xruns_of.finish(|_, _| true);
        assert_eq!(xruns_of.count(), 2, "each is judged once");
    }

    #[test]
    fn a_witness_that_speaks_after_the_xrun_is_heard() {
        let mut xruns_of = StalledXruns::default();
        xruns_of.take(&xruns(&[(100, 130, 1)]), never);
        xruns_of.take(&Faults::NONE, stall(105, 125));
        assert_eq!(xruns_of.count(), 1);
    }
}
