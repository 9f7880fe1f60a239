//! When a piece of a period meets its converter.

use tautline_proto::clock::ClockId;
use tautline_proto::device::{Cycle, Direction, Flow, Process, Side};
use tautline_proto::time::{Frames, LocalTime, Span};

/// Of one piece of a period: what is the same for all parts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PieceTimes {
    pub(super) now: LocalTime,
    pub(crate) meets: LocalTime,
    pub(super) uncertainty: Span,
    pub(crate) skipped: Frames,
    pub(super) xruns: u32,
    pub(super) clock: Option<ClockId>,
}

impl PieceTimes {
    /// Of a cycle's first piece.
    pub(crate) fn of(cycle: &Cycle<'_>, side: &Side<'_>) -> Self {
        let Cycle { now, xruns, clock, .. } = *cycle;
        let Side { meets, uncertainty, skipped, .. } = *side;
        Self { now, meets, uncertainty, skipped, xruns, clock }
    }

    /// The piece that follows so much later.
    pub(crate) fn after(self, length: Span) -> Self {
        Self { meets: self.meets + length, skipped: Frames::ZERO, xruns: 0, ..self }
    }

    /// As one sees it who was not there before.
    pub(super) const fn at_first(self) -> Self {
        Self { skipped: Frames::ZERO, xruns: 0, ..self }
    }

    /// Calls `process` with a block of its own.
    pub(super) fn call(
        self,
        process: &mut dyn Process,
        direction: Direction,
        samples: &mut [f32],
    ) -> Flow {
        let Self { now, meets, uncertainty, skipped, xruns, clock } = self;
        let side = Side { samples, meets, uncertainty, skipped };
        process.process(&mut Cycle::one_way(direction, now, side, xruns).by(clock))
    }
}
