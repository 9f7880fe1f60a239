//! Runs that are sent but not played.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HandedOut {
    pub(super) position: u64,
    pub(super) frames: u32,
    pub(super) block: u64,
    pub(super) placed: bool,
    pub(super) reported: bool,
}

impl HandedOut {
    pub(super) const fn end(&self) -> u64 {
        self.position + self.frames as u64
    }

    pub(super) const fn is_wanted(&self, due: u64, turn: u64) -> bool {
        self.position < due && self.end() > turn && !self.placed
    }

    pub(super) const fn new(position: u64, frames: u32, block: u64) -> Self {
        Self { position, frames, block, placed: false, reported: false }
    }
}

#[derive(Debug)]
pub(super) struct UnderWay {
    slots: Box<[HandedOut]>,
    first: usize,
    pub(super) count: usize,
}

impl UnderWay {
    pub(super) fn new(room: usize) -> Self {
        Self { slots: vec![HandedOut::new(0, 0, 0); room.max(1)].into(), first: 0, count: 0 }
    }

    pub(super) const fn clear(&mut self) {
        (self.first, self.count) = (0, 0);
    }

    pub(super) fn push(&mut self, run: HandedOut) {
        if self.count == self.slots.len() {
            self.pop();
        }
        let at = (self.first + self.count) % self.slots.len();
        self.slots[at] = run;
        self.count += 1;
    }

    pub(super) fn pop(&mut self) -> Option<HandedOut> {
        let run = self.slots[self.first];
        self.count = self.count.checked_sub(1)?;
        self.first = (self.first + 1) % self.slots.len();
        Some(run)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &HandedOut> {
        (self.first..self.first + self.count).map(|at| &self.slots[at % self.slots.len()])
    }

    pub(super) fn get(&mut self, index: usize) -> Option<&mut HandedOut> {
        if index >= self.count {
            return None;
        }
        let at = (self.first + index) % self.slots.len();
        Some(&mut self.slots[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_come_out_as_they_went_in_and_the_oldest_gives_way() {
        let mut runs = UnderWay::new(3);
        for number in 0..5 {
            runs.push(HandedOut::new(number * 10, 10, number));
        }
        assert_eq!(runs.count, 3);
        assert_eq!(runs.get(1).map(|run| run.end()), Some(40));
        assert_eq!(runs.get(3), None);
        let left: Vec<u64> = std::iter::from_fn(|| runs.pop()).map(|run| run.position).collect();
        assert_eq!(left, [20, 30, 40]);
    }
}
