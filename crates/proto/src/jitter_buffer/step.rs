//! Detects steps: all packets are late by the same time. The sender paused without advancing its
//! timestamps, or the path became longer. The stream is then placed again.

use super::{JitterBuffer, Resync};
use crate::source::Source;
use crate::time::{Frames, LocalTime, MediaTime, Span};

/// From the first late packet to the proof of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateRun {
    /// First late packet.
    pub from: LocalTime,
    /// Packet that proved the step.
    pub to: LocalTime,
}

impl LateRun {
    /// Combines close runs: the ordinary thread sees only the last.
    pub(crate) fn after(self, before: Option<Self>) -> Self {
        let joins = before.filter(|before| self.from - before.to < Span::from_secs(1));
        Self { from: joins.map_or(self.from, |before| before.from), ..self }
    }
}

/// Consecutive packets, similarly late.
#[derive(Debug, Clone, Copy)]
struct Agreeing {
    late_since: LocalTime,
    /// First packet that agrees with all later packets.
    since: LocalTime,
    packets: u32,
    minimum: Span,
    greatest: Span,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StepFinder(Option<Agreeing>);

impl StepFinder {
    /// Minimum duration of a step. Packets delayed by a queue arrive together, so their run is
    /// shorter.
    const LASTS: Span = Span::from_millis(40);
    const PACKETS: u32 = 3;
    /// Maximum difference between the delays of a step. A queue that drains at twice the rate
    /// differs by [`Self::LASTS`].
    const SPREAD: Span = Span::from_millis(10);

    pub(super) const fn reset(&mut self) {
        self.0 = None;
    }

    pub(super) const fn is_suspicious(&self) -> bool {
        self.0.is_some()
    }

    /// Adds a packet `behind` the fastest. Returns a proven step and the first late arrival.
    fn observe(
        &mut self,
        arrival: LocalTime,
        behind: Span,
        spread: Span,
    ) -> Option<(Span, LocalTime)> {
        let late_since = self.0.map_or(arrival, |run| run.late_since);
        let (packets, since) = (1, arrival);
        let alone = Agreeing { late_since, since, packets, minimum: behind, greatest: behind };
        let run = self.0.map_or(alone, |run| Agreeing {
            packets: run.packets + 1,
            minimum: run.minimum.min(behind),
            greatest: run.greatest.max(behind),
            ..run
        });
        let agree = run.greatest - run.minimum <= Self::SPREAD.max(spread);
        let run = if agree { run } else { alone };
        self.0 = Some(run);
        let found = run.packets >= Self::PACKETS && arrival - run.since >= Self::LASTS;
        found.then_some((run.minimum, run.late_since))
    }
}

impl JitterBuffer {
    /// Returns whether the stream was placed again.
    pub(super) fn follow_step(&mut self, media: MediaTime, frames: Frames, at: LocalTime) -> bool {
        let Some(behind) = self.placement.behind(media, frames, at) else { return false };
        // One packet with the marker suffices.
        let begins = self.source.as_ref().is_some_and(Source::restarts_at);
        let step = match begins {
            true => Some((behind, at)),
            false => self.step.observe(at, behind, self.placement.steady_spread()),
        };
        let Some((step, from)) = step else { return false };
        self.step.reset();
        self.stepped_by = Some(LateRun { from, to: at }.after(self.stepped_by));
        self.placement.step_arrivals(media, step, at);
        self.restart(Resync::Jump);
        self.forget_late();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_between_two_reports_are_one_run() {
        let millis = |millis| LocalTime::ZERO + Span::from_millis(millis);
        let run = |from, to| LateRun { from: millis(from), to: millis(to) };
        assert_eq!(run(1_500, 1_540).after(Some(run(1_000, 1_040))), run(1_000, 1_540));
        assert_eq!(run(3_000, 3_040).after(Some(run(1_000, 1_040))), run(3_000, 3_040));
        assert_eq!(run(3_000, 3_040).after(None), run(3_000, 3_040));
    }

    #[test]
    fn packets_that_a_busy_host_delayed_belong_to_the_step() {
        let millis = |millis| LocalTime::ZERO + Span::from_millis(millis);
        let mut finder = StepFinder::default();
        let found = (0..200).find_map(|index| {
            let busy = if index == 15 { 20 } else { 0 };
            let behind = Span::from_millis(1_000 + busy);
            finder.observe(millis(index + busy), behind, Span::ZERO)
        });
        assert_eq!(found, Some((Span::from_millis(1_000), millis(0))));
    }
}
