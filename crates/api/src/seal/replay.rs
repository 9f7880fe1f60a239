//! Records which datagrams were accepted.

pub(super) const REPLAY_WINDOW: u64 = 1024;
const WORD_BITS: u64 = u64::BITS as u64;
/// One word more than the window (RFC 6479 §2).
const WORDS: u64 = REPLAY_WINDOW / WORD_BITS + 1;

/// Accepted counts of the highest incarnation, in a ring of words (RFC 6479).
#[derive(Debug, Default)]
pub(super) struct ReplayWindow {
    newest: Option<(u32, u64)>,
    seen: [u64; WORDS as usize],
}

const fn word(count: u64) -> u64 {
    count / WORD_BITS
}

const fn place(count: u64) -> (usize, u64) {
    ((word(count) % WORDS) as usize, 1 << (count % WORD_BITS))
}

impl ReplayWindow {
    /// Creates a window that counts all datagrams up to this one as accepted.
    pub(super) const fn after((incarnation, count): (u32, u64)) -> Self {
        Self { newest: Some((incarnation, count)), seen: [u64::MAX; WORDS as usize] }
    }

    pub(super) const fn newest(&self) -> Option<(u32, u64)> {
        self.newest
    }

    pub(super) const fn is_new(&self, incarnation: u32, count: u64) -> bool {
        let Some((newest_incarnation, newest)) = self.newest else { return true };
        if incarnation != newest_incarnation {
            return incarnation > newest_incarnation;
        }
        if count > newest {
            return true;
        }
        let (index, bit) = place(count);
        newest - count < REPLAY_WINDOW && self.seen[index] & bit == 0
    }

    pub(super) fn note(&mut self, incarnation: u32, count: u64) {
        let (index, bit) = place(count);
        match self.newest {
            Some((same, newest)) if same == incarnation => {
                let passed = word(count).saturating_sub(word(newest)).min(WORDS);
                for step in 0..passed {
                    self.seen[((word(count) - step) % WORDS) as usize] = 0;
                }
                self.newest = Some((incarnation, newest.max(count)));
            }
            _ => {
                self.seen = [0; WORDS as usize];
                self.newest = Some((incarnation, count));
            }
        }
        self.seen[index] |= bit;
    }
}
