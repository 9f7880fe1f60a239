use std::collections::VecDeque;

use super::{CHIP, NUMBERS, SPACING, word_of};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MarkReading {
    pub(super) start: i64,
    pub(super) number: u32,
    /// The run, if the number is right.
    pub(super) cover: u8,
}

/// Maximum distance of two readings, in marks: 5 s at 48 kHz.
const MAX_APART: u32 = 512;
const KEPT: usize = 256;
/// Maximum drift per frame, and reading error in frames.
const MAX_DRIFT: f64 = 0.6e-3;
const BESIDE: f64 = 2.0;

const LATELY: i64 = 64;
/// Maximum wrong bits in an expected mark.
const MAX_TURNED: u32 = 6;

fn are_apart(apart: i64, marks: i64) -> bool {
    let meant = (marks * SPACING as i64) as f64;
    (apart as f64 - meant).abs() <= BESIDE + meant.abs() * MAX_DRIFT
}

impl MarkReading {
    /// Whether wrong bits explain the reading: any, for an unsure one.
    pub(super) fn explains(&self, later: &Self, is_sure: bool) -> bool {
        let apart = later.start - self.start;
        let marks = (apart as f64 / SPACING as f64).round() as i64;
        let meant = word_of(self.number + marks.max(0) as u32, self.cover);
        (0..=LATELY).contains(&marks)
            && are_apart(apart, marks)
            && (!is_sure || (meant ^ word_of(later.number, later.cover)).count_ones() <= MAX_TURNED)
    }

    fn is_same(&self, other: &Self) -> bool {
        (self.start - other.start).unsigned_abs() <= CHIP as u64
    }

    /// Whether numbers and frames advance equally.
    fn leads_to(&self, later: &Self) -> bool {
        let marks = (later.number + NUMBERS - self.number) % NUMBERS;
        self.cover == later.cover
            && (1..=MAX_APART).contains(&marks)
            && are_apart(later.start - self.start, i64::from(marks))
    }
}

/// Noise forges one reading, but hardly two that agree.
pub(super) struct MarkReadings {
    kept: VecDeque<(MarkReading, bool)>,
}

impl MarkReadings {
    pub(super) fn new() -> Self {
        Self { kept: VecDeque::with_capacity(KEPT) }
    }

    /// Returns how many readings become valid: 0, or this reading and those that it confirms.
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
