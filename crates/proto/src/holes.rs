//! Missing frames of a block.

use core::ops::Range;

use crate::time::{Frames, MediaTime};

/// Maximum runs of missing frames. The last run includes all later missing frames.
const MAX: usize = 16;

/// Runs of missing frames in order. Never allocates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holes {
    runs: [(MediaTime, Frames); MAX],
    len: usize,
}

impl Default for Holes {
    fn default() -> Self {
        Self { runs: [(MediaTime::ZERO, Frames::ZERO); MAX], len: 0 }
    }
}

impl Holes {
    /// Call in stream order.
    pub(crate) fn add(&mut self, first: MediaTime, frames: Frames) {
        let full = self.len == MAX;
        if let Some((start, length)) = self.runs[..self.len].last_mut()
            && (*start + *length == first || full)
        {
            *length = first + frames - *start;
            return;
        }
        self.runs[self.len] = (first, frames);
        self.len += 1;
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// All runs.
    pub fn iter(&self) -> impl Iterator<Item = Range<MediaTime>> + '_ {
        self.runs[..self.len].iter().map(|(start, frames)| *start..*start + *frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(runs: &[(i64, i64)]) -> Vec<(i64, i64)> {
        let mut holes = Holes::default();
        runs.iter().for_each(|(first, frames)| {
            holes.add(MediaTime::from_frames(*first), Frames::new(*frames));
        });
        holes.iter().map(|run| (run.start.as_frames(), run.end.as_frames())).collect()
    }

    #[test]
    fn adjacent_runs_are_joined_and_others_separate() {
        assert_eq!(of(&[(5, 3), (8, 2), (11, 1)]), [(5, 10), (11, 12)]);
    }

    #[test]
    fn more_runs_than_there_is_room_for_widen_the_last() {
        let runs: Vec<_> = (0..20).map(|index| (10 * index, 1)).collect();
        let reported = of(&runs);
        assert_eq!(
            (reported.len(), reported[MAX - 2], reported[MAX - 1]),
            (MAX, (140, 141), (150, 191))
        );
    }
}
