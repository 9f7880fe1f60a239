//! When blocks that are missing are asked for, and which.

use core::ops::Range;

use crate::time::{LocalTime, Span};

/// How long an answer is waited for before asking again: a way there and back on a local network, and the period
/// after which a host's thread looks again, at rates and block sizes in use (1024 frames at 48 kHz take 21 ms, and
/// then the second question is one too many, which costs a datagram).
const FIRST_WAIT: Span = Span::from_millis(5);
/// The longest, after questions that nobody answered.
const LONGEST_WAIT: Span = Span::from_millis(40);

/// What was asked for, and when it is to be asked for again.
#[derive(Debug, Clone)]
pub(super) struct BlockAsking {
    /// By place in the ring, which block was asked for.
    asked: Box<[u64]>,
    wait: Span,
    again: LocalTime,
}

/// No block has this number.
const NOTHING: u64 = u64::MAX;

impl BlockAsking {
    pub(super) fn new(hold: u64) -> Self {
        Self {
            asked: vec![NOTHING; hold as usize].into(),
            wait: FIRST_WAIT,
            again: LocalTime::NEVER,
        }
    }

    pub(super) fn begin(&mut self) {
        self.nothing_is_missing();
    }

    /// When the next question is due, if none is before.
    pub(super) const fn again(&self) -> LocalTime {
        self.again
    }

    /// How long is waited now.
    pub(super) const fn wait(&self) -> Span {
        self.wait
    }

    /// Whatever was asked for is here, or not waited for now.
    pub(super) fn nothing_is_missing(&mut self) {
        if !self.again.is_never() {
            self.asked.fill(NOTHING);
        }
        (self.wait, self.again) = (FIRST_WAIT, LocalTime::NEVER);
    }

    /// A block that was missing came.
    pub(super) fn progress(&mut self) {
        self.wait = FIRST_WAIT;
    }

    /// Which blocks of `among` are to be asked for now. `missing` says which are; if the end of `among` is `open`, there
    /// are more behind it that will be within reach later, and few of them are not worth a question of their own.
    pub(super) fn next(
        &mut self,
        among: Range<u64>,
        open: bool,
        now: LocalTime,
        missing: impl Fn(u64) -> bool,
    ) -> Option<Range<u64>> {
        if now >= self.again {
            self.asked.fill(NOTHING);
            self.again = LocalTime::NEVER;
            self.wait = (self.wait + self.wait).min(LONGEST_WAIT);
        }
        let hold = self.asked.len() as u64;
        let at = |block: u64| (block % hold) as usize;
        let wanted = |asked: &[u64], block: u64| missing(block) && asked[at(block)] != block;
        let from = among.clone().find(|block| wanted(&self.asked, *block))?;
        let until = (from..among.end).find(|block| !wanted(&self.asked, *block));
        let until = until.unwrap_or(among.end);
        let few = (until - from) * 4 < hold;
        if open && until == among.end && few && !self.again.is_never() {
            return None;
        }
        (from..until).for_each(|block| self.asked[at(block)] = block);
        if self.again.is_never() {
            self.again = now + self.wait;
        }
        Some(from..until)
    }
}
