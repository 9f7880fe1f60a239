//! Rounds of readings that may be late but never early: the earliest counts.

use super::line::Line;

/// Start, count, and earliest reading.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Round {
    pub(crate) opened: i64,
    pub(crate) count: u32,
    earliest: Option<(f64, i64, i64)>,
    moved: f64,
}

impl Round {
    pub(crate) const fn opened(at: i64) -> Self {
        Self { opened: at, count: 0, earliest: None, moved: 0.0 }
    }

    /// Adds a reading `error` above the line. A line that is still `sought` moves down to the
    /// reading. Returns whether the line moved.
    pub(crate) fn take(
        &mut self,
        line: &mut Line,
        reading: (i64, i64),
        error: f64,
        sought: bool,
    ) -> bool {
        self.count += 1;
        let (first, second) = reading;
        let down = error < 0.0 && sought;
        if down {
            line.move_by(error);
            self.moved += error;
            self.earliest = Some((0.0, first, second));
        } else if self.earliest.is_none_or(|(earliest, ..)| error < earliest) {
            self.earliest = Some((error, first, second));
        }
        down
    }

    /// Returns the earliest reading, and moves the line back: the filter needs the whole error.
    pub(crate) fn close(self, line: &mut Line) -> Option<(i64, i64)> {
        let (_, first, second) = self.earliest?;
        line.move_by(-self.moved);
        Some((first, second))
    }
}

/// Consecutive rounds on one side: count, and the nearest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Odd {
    count: u32,
    nearest: f64,
}

impl Odd {
    pub(crate) const NONE: Self = Self { count: 0, nearest: 0.0 };

    /// Returns the move after `above` or `below` similar rounds.
    pub(crate) fn doubt(&mut self, error: f64, above: u32, below: u32) -> Option<f64> {
        let again = self.count > 0 && self.nearest * error > 0.0;
        let nearer = again && self.nearest.abs() < error.abs();
        self.nearest = if nearer { self.nearest } else { error };
        self.count = if again { self.count + 1 } else { 1 };
        let enough = self.count >= if error > 0.0 { above } else { below };
        enough.then(|| core::mem::replace(self, Self::NONE).nearest)
    }
}
