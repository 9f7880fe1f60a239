//! Faults with their own times: a host stall causes only those that it overlaps.

use core::ops::AddAssign;

use crate::counters::Counters;
use crate::time::{LocalTime, Span};

/// Glitches by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Harm {
    /// Late packets.
    pub late: u32,
    /// Missing packets.
    pub lost: u32,
    /// Packets in time, replaced by the device's silence.
    pub underrun_discarded: u32,
    /// Device underruns.
    pub xruns: u32,
}

impl Harm {
    /// Lost and discarded packets between two counts.
    pub fn missed(before: &Counters, after: &Counters) -> Self {
        let more = |before: u64, after: u64| after.saturating_sub(before) as u32;
        let lost = more(before.lost, after.lost);
        Self {
            lost,
            underrun_discarded: more(before.underrun_discarded, after.underrun_discarded),
            ..Self::default()
        }
    }
}

impl AddAssign for Harm {
    fn add_assign(&mut self, more: Self) {
        self.late = self.late.saturating_add(more.late);
        self.lost = self.lost.saturating_add(more.lost);
        self.underrun_discarded = self.underrun_discarded.saturating_add(more.underrun_discarded);
        self.xruns = self.xruns.saturating_add(more.xruns);
    }
}

/// Similar glitches, from cause to effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Earliest start of the cause.
    pub from: LocalTime,
    /// Time of the effect.
    pub to: LocalTime,
    /// Glitches.
    pub harm: Harm,
}

/// Maximum faults per status. A freeze of 30 ms fills the list; almost all longer freezes are host
/// stalls.
const MAX: usize = 16;
/// Faults closer than this are combined. Reported stalls are longer.
const ALIKE: Span = Span::from_millis(2);

/// Faults in order. Never allocates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Faults {
    kept: [Fault; MAX],
    len: usize,
}

impl Default for Faults {
    fn default() -> Self {
        Self::NONE
    }
}

impl Faults {
    /// No faults.
    pub const NONE: Self = Self {
        kept: [Fault {
            from: LocalTime::ZERO,
            to: LocalTime::ZERO,
            harm: Harm { late: 0, lost: 0, underrun_discarded: 0, xruns: 0 },
        }; MAX],
        len: 0,
    };

    /// Adds a fault.
    pub fn add(&mut self, from: LocalTime, to: LocalTime, harm: Harm) {
        let full = self.len == MAX;
        if let Some(last) = self.kept[..self.len].last_mut() {
            let wider = Fault { from: last.from.min(from), to: last.to.max(to), harm: last.harm };
            let alike = from - wider.from < ALIKE
                && last.from - wider.from < ALIKE
                && wider.to - to < ALIKE
                && wider.to - last.to < ALIKE;
            if alike || full {
                *last = wider;
                last.harm += harm;
                return;
            }
        }
        self.kept[self.len] = Fault { from, to, harm };
        self.len += 1;
    }

    /// Adds missed packets of `ptime`, found at `now` and not when the device last looked. Packets
    /// count for `age` before their turn. An outage is found at its end, but a stall then caused
    /// only the losses of that time.
    pub fn add_missed(
        &mut self,
        (looked, now): (LocalTime, LocalTime),
        age: Span,
        ptime: Span,
        missed: Harm,
    ) {
        let since = (now - looked).max(Span::ZERO) + age;
        let recent = since.as_nanos() / ptime.as_nanos().max(1) + 1;
        let lost = missed.lost.min(u32::try_from(recent).unwrap_or(u32::MAX));
        self.add(now - age, now, Harm { lost, ..missed });
    }

    /// Faults in order.
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.kept[..self.len].iter()
    }

    pub(crate) fn harm_of(&self, overlaps: impl Fn(LocalTime, LocalTime) -> bool) -> Harm {
        let mut harm = Harm::default();
        let those = self.iter().filter(|fault| overlaps(fault.from, fault.to));
        those.for_each(|fault| harm += fault.harm);
        harm
    }
}

/// Faults for the next call: the stall monitor may wake as late as the device.
#[derive(Debug, Clone, Copy, Default)]
pub struct UnjudgedFaults(Faults);

impl UnjudgedFaults {
    /// Stores new faults. Returns the previous faults that the host caused.
    pub fn take(
        &mut self,
        faults: &Faults,
        stalled: impl Fn(LocalTime, LocalTime) -> bool,
    ) -> Harm {
        core::mem::replace(&mut self.0, *faults).harm_of(stalled)
    }

    /// Judges the last faults.
    pub fn finish(&mut self, stalled: impl Fn(LocalTime, LocalTime) -> bool) -> Harm {
        self.take(&Faults::NONE, stalled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: i64) -> LocalTime {
        LocalTime::ZERO + Span::from_micros(micros)
    }

    fn noted(faults: &[(i64, i64, u32)]) -> Faults {
        let mut all = Faults::NONE;
        faults.iter().for_each(|(from, to, count)| {
            all.add(at(*from), at(*to), Harm { late: *count, ..Harm::default() });
        });
        all
    }

    fn reported(faults: &Faults) -> Vec<(i64, i64, u32)> {
        let micros = |at: LocalTime| (at - LocalTime::ZERO).as_nanos() / 1_000;
        faults.iter().map(|fault| (micros(fault.from), micros(fault.to), fault.harm.late)).collect()
    }

    #[test]
    fn simultaneous_faults_are_combined_others_stay_separate() {
        let faults =
            noted(&[(0, 9_000, 1), (1_000, 9_500, 2), (1_999, 9_500, 1), (2_000, 9_500, 1)]);
        assert_eq!(reported(&faults), [(0, 9_500, 4), (2_000, 9_500, 1)]);
        let apart = [(0, 5_000, 1), (0, 7_000, 1), (0, 4_000, 1)];
        assert_eq!(reported(&noted(&apart)), apart);
        let early = noted(&apart).harm_of(|_, to| to <= at(5_000));
        assert_eq!(early, Harm { late: 2, ..Harm::default() });
    }

    #[test]
    fn excess_faults_widen_the_last_one() {
        let many: Vec<_> = (0..20).map(|index| (10_000 * index, 10_000 * index + 1, 1)).collect();
        let reported = reported(&noted(&many));
        assert_eq!(reported.len(), MAX);
        assert_eq!(reported[MAX - 2], (140_000, 140_001, 1));
        assert_eq!(reported[MAX - 1], (150_000, 190_001, 5));
    }

    #[test]
    fn stall_at_the_end_of_an_outage_causes_only_its_own_losses() {
        let (age, ptime) = (Span::from_millis(10), Span::from_micros(2_500));
        let of_host = |looked: i64, lost| {
            let mut faults = Faults::NONE;
            let harm = Harm { lost, ..Harm::default() };
            faults.add_missed((at(looked * 1000), at(1_000_000)), age, ptime, harm);
            faults.harm_of(stall(995, 999)).lost
        };
        // Five seconds of packets, found one period of 5 ms after the last look.
        assert_eq!(of_host(995, 2_000), 7);
        assert_eq!(of_host(995, 3), 3);
        // The device stood still for 200 ms.
        assert_eq!(of_host(800, 80), 80);
    }

    /// Each lasts from the previous wake-up to its detection.
    fn xruns(all: &[(i64, i64, u32)]) -> Faults {
        let mut faults = Faults::NONE;
        for (woke, noticed, starved) in all {
            let harm = Harm { xruns: *starved, ..Harm::default() };
            faults.add(at(woke * 1000), at(noticed * 1000), harm);
        }
        faults
    }

    fn stall(begin: i64, end: i64) -> impl Fn(LocalTime, LocalTime) -> bool {
        move |from, to| at(begin * 1000) <= to && from <= at(end * 1000)
    }

    fn never(_: LocalTime, _: LocalTime) -> bool {
        false
    }

    #[test]
    fn faults_that_a_stall_overlaps_are_the_hosts_and_no_others() {
        let mut unjudged = UnjudgedFaults::default();
        let first = unjudged.take(&xruns(&[(100, 130, 2), (200, 210, 1)]), never);
        assert_eq!(first, Harm::default());
        assert_eq!(unjudged.finish(stall(105, 125)), Harm { xruns: 2, ..Harm::default() });
        assert_eq!(unjudged.finish(|_, _| true), Harm::default(), "each fault is judged once");
    }

    #[test]
    fn stall_reported_after_the_fault_still_counts() {
        let mut unjudged = UnjudgedFaults::default();
        unjudged.take(&xruns(&[(100, 130, 1)]), never);
        let host = unjudged.take(&Faults::NONE, stall(105, 125));
        assert_eq!(host, Harm { xruns: 1, ..Harm::default() });
    }
}
