//! State of frames.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum FrameMark {
    Missing = 0,
    Clean = 1,
    Dirty = 2,
}

/// Missing by default.
#[derive(Debug, Clone)]
pub(super) struct FrameMarks {
    marks: Box<[FrameMark]>,
}

impl FrameMarks {
    pub(super) fn new(frames: usize) -> Self {
        Self { marks: vec![FrameMark::Missing; frames.max(1).next_power_of_two()].into() }
    }

    pub(super) fn clear_all(&mut self) {
        self.marks.fill(FrameMark::Missing);
    }

    fn index(&self, position: u64) -> usize {
        (position & (self.marks.len() as u64 - 1)) as usize
    }

    fn pieces(&self, position: u64, frames: usize) -> [&[FrameMark]; 2] {
        let at = self.index(position);
        let first = frames.min(self.marks.len() - at);
        [&self.marks[at..at + first], &self.marks[..(frames - first).min(at)]]
    }

    pub(super) fn mark(&mut self, position: u64, frames: usize, mark: FrameMark) {
        let at = self.index(position);
        let first = frames.min(self.marks.len() - at);
        self.marks[at..at + first].fill(mark);
        let rest = (frames - first).min(at);
        self.marks[..rest].fill(mark);
    }

    pub(super) fn clear(&mut self, position: u64, frames: usize) {
        self.mark(position, frames, FrameMark::Missing);
    }

    pub(super) fn all_clean(&self, position: u64, frames: usize) -> bool {
        let clean = |piece: &[FrameMark]| piece.iter().all(|mark| *mark == FrameMark::Clean);
        self.pieces(position, frames).into_iter().all(clean)
    }

    /// State, and the number of equal states, up to `maximum`.
    pub(super) fn run(&self, position: u64, maximum: usize) -> (FrameMark, usize) {
        let mark = self.marks[self.index(position)];
        let pieces = self.pieces(position, maximum);
        let same = pieces.into_iter().flatten().take_while(|other| **other == mark);
        (mark, same.count())
    }
}
