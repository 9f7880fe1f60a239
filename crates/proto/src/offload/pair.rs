//! Which of several workers' answers is played, block by block.

/// What is to be done with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairChoice {
    /// It is the first: it is played.
    Play,
    /// It is played in the place of one by a worker that had not seen all there was before.
    Instead,
    /// One that is as good is there already.
    Spare,
}

/// How a block stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PairSlot {
    block: u64,
    clean: bool,
}

/// What one worker gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PairTally {
    /// Answers of its that are played.
    pub played: u64,
    /// Answers of its that came after one as good.
    pub spare: u64,
}

/// No block has this number.
const NOTHING: u64 = u64::MAX;

/// Chooses among the answers of a worker and its spare: the first clean one is played; if there is none, the first.
#[derive(Debug, Clone)]
pub struct Pair {
    slots: Box<[PairSlot]>,
    tallies: [PairTally; 2],
}

impl Pair {
    /// For so many blocks under way. Allocates; nothing later does.
    pub fn new(hold: usize) -> Self {
        let nothing = PairSlot { block: NOTHING, clean: false };
        Self { slots: vec![nothing; hold.max(1)].into(), tallies: [PairTally::default(); 2] }
    }

    /// A new epoch.
    pub fn begin(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.block = NOTHING);
    }

    /// Worker `which`, 0 or 1, answered a block.
    pub fn offer(&mut self, which: usize, block: u64, clean: bool) -> PairChoice {
        let at = (block % self.slots.len() as u64) as usize;
        let slot = &mut self.slots[at];
        let choice = match (slot.block == block, slot.clean, clean) {
            (true, true, _) | (true, false, false) => PairChoice::Spare,
            (true, false, true) => PairChoice::Instead,
            (false, ..) => PairChoice::Play,
        };
        if choice != PairChoice::Spare {
            *slot = PairSlot { block, clean };
        }
        if let Some(tally) = self.tallies.get_mut(which) {
            match choice {
                PairChoice::Spare => tally.spare += 1,
                PairChoice::Play | PairChoice::Instead => tally.played += 1,
            }
        }
        choice
    }

    /// What each worker gave.
    pub const fn tallies(&self) -> [PairTally; 2] {
        self.tallies
    }
}
