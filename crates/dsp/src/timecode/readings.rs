//! Numbers that were read of marks, and which of them to believe.

use std::collections::VecDeque;

use super::{CHIP, NUMBERS, SPACING, word_of};

/// The number of what may be a mark, as its sound has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MarkReading {
    /// The frame at which it begins.
    pub(super) start: i64,
    pub(super) number: u32,
    /// What lies over the CRC: the run, if the number is right.
    pub(super) cover: u8,
}

/// Marks that two readings may lie apart and still speak for each other: five seconds at 48 kHz.
const MOST_APART: u32 = 512;
/// Readings that are kept.
const KEPT: usize = 256;
/// Frames by which cards that differ may move marks, for each frame between them, and those by which
/// one is read beside its place.
const MOST_DRIFT: f64 = 0.6e-3;
const BESIDE: f64 = 2.0;

/// Marks after one for which its run is still sure to be there.
const LATELY: i64 = 64;
/// Bits of a word that noise may turn where a mark was sure to be; words of another run differ in
/// fewer in 1 of 500.
const MOST_TURNED: u32 = 6;

/// Whether marks that begin `apart` frames from each other are `marks` apart.
fn are_apart(apart: i64, marks: i64) -> bool {
    let meant = (marks * SPACING as i64) as f64;
    (apart as f64 - meant).abs() <= BESIDE + meant.abs() * MOST_DRIFT
}

impl MarkReading {
    /// Whether a later one is of a mark of the same run too, some of its bits wrong: if it is not sure,
    /// any of them, as sound that comes again turns the same ones.
    pub(super) fn explains(&self, later: &Self, is_sure: bool) -> bool {
        let apart = later.start - self.start;
        let marks = (apart as f64 / SPACING as f64).round() as i64;
        let meant = word_of(self.number + marks.max(0) as u32, self.cover);
        (0..=LATELY).contains(&marks)
            && are_apart(apart, marks)
            && (!is_sure
                || (meant ^ word_of(later.number, later.cover)).count_ones() <= MOST_TURNED)
    }

    /// Whether it is of the very mark.
    fn is_same(&self, other: &Self) -> bool {
        (self.start - other.start).unsigned_abs() <= CHIP as u64
    }

    /// Whether a later one is of the same run: as many marks on as frames.
    fn leads_to(&self, later: &Self) -> bool {
        let marks = (later.number + NUMBERS - self.number) % NUMBERS;
        self.cover == later.cover
            && (1..=MOST_APART).contains(&marks)
            && are_apart(later.start - self.start, i64::from(marks))
    }
}

/// Readings of late. Noise forges one, hardly two that agree.
pub(super) struct MarkReadings {
    kept: VecDeque<(MarkReading, bool)>,
}

impl MarkReadings {
    pub(super) fn new() -> Self {
        Self { kept: VecDeque::with_capacity(KEPT) }
    }

    /// Adds one, and says how many were not believed before and are now: none, or this one and such as
    /// it agrees with.
    pub(super) fn add(&mut self, reading: MarkReading) -> u64 {
        if self.kept.iter().any(|(earlier, _)| earlier.is_same(&reading)) {
            return 0;
        }
        let mut believed = 0;
        for (earlier, already) in &mut self.kept {
            if earlier.leads_to(&reading) {
                believed += 1 - u64::from(*already);
                *already = true;
            }
        }
        let agrees = self.kept.iter().any(|(earlier, _)| earlier.leads_to(&reading));
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back((reading, agrees));
        believed + u64::from(agrees)
    }
}
