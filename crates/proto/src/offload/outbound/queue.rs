//! Send queue.

use core::ops::Range;

use crate::offload::datagram::Flags;

/// Block numbers.
#[derive(Debug, Clone)]
pub(super) struct OutboundQueue {
    copies: u64,
    replays: u32,
    current: Option<(u64, u16, Flags)>,
    new: Range<u64>,
    /// First of the consecutive new blocks.
    first_new: u64,
    copied: Range<u64>,
    /// Requests; none is before `asked_from`.
    requested: usize,
    asked_from: u64,
    allowed: u32,
    gone: Option<u64>,
    gone_from: u64,
}

impl OutboundQueue {
    pub(super) fn new(copies: u8) -> Self {
        Self {
            copies: copies.into(),
            replays: 0,
            current: None,
            new: 0..0,
            first_new: 0,
            copied: 0..0,
            requested: 0,
            asked_from: 0,
            allowed: 0,
            gone: None,
            gone_from: 0,
        }
    }

    pub(super) fn begin(&mut self) {
        *self = Self { copies: self.copies, ..Self::new(0) };
    }

    pub(super) fn skip_to(&mut self, block: u64) {
        if self.new.is_empty() {
            (self.new, self.first_new) = (block..block, block);
        }
    }

    /// `next`: the number after the commit.
    pub(super) fn committed(&mut self, next: u64, replays: u32) {
        self.replays = replays;
        if self.new.is_empty() {
            self.first_new = next - 1;
            self.new.start = next - 1;
        }
        self.new.end = next;
        self.copied = self.first_new.saturating_sub(self.copies)..self.first_new;
        self.allow();
    }

    pub(super) fn allow(&mut self) {
        self.allowed = self.replays;
    }

    pub(super) fn request(&mut self, block: u64) {
        self.asked_from = if self.requested == 0 { block } else { self.asked_from.min(block) };
        self.requested += 1;
    }

    pub(super) fn ask_gone(&mut self, from: u64) {
        self.gone = Some(self.gone.map_or(from, |gone| gone.min(from)));
    }

    pub(super) fn answered(&mut self, count: usize) {
        self.requested = self.requested.saturating_sub(count);
    }

    pub(super) fn forget_asked(&mut self) {
        (self.requested, self.gone) = (0, None);
    }

    pub(super) const fn current(&self) -> Option<(u64, u16, Flags)> {
        self.current
    }

    pub(super) fn advance(&mut self, parts: u16) {
        self.current = self.current.and_then(|(block, part, flags)| {
            (part + 1 < parts).then_some((block, part + 1, flags))
        });
    }

    pub(super) fn done(&mut self) {
        self.current = None;
    }

    pub(super) fn send(&mut self, block: u64, flags: Flags) {
        self.current = Some((block, 0, flags));
    }

    pub(super) fn send_asked(&mut self, block: u64) {
        self.answered(1);
        self.allowed = self.allowed.saturating_sub(1);
        self.send(block, Flags::REPLAY);
    }

    /// Sends notices only between blocks, after new blocks.
    pub(super) fn take_gone(&mut self) -> bool {
        if !self.new.is_empty() {
            return false;
        }
        let gone = self.gone.take();
        self.gone_from = gone.unwrap_or(self.gone_from);
        gone.is_some()
    }

    pub(super) const fn gone_from(&self) -> u64 {
        self.gone_from
    }

    pub(super) fn choose_new(&mut self) -> bool {
        let next = self.new.next();
        next.inspect(|block| self.send(*block, Flags::NONE)).is_some()
    }

    pub(super) fn next_copy(&mut self) -> Option<u64> {
        self.copied.next()
    }

    pub(super) fn next_asked(&mut self, end: u64) -> Option<u64> {
        if self.requested == 0 || self.allowed == 0 || self.asked_from >= end {
            return None;
        }
        self.asked_from += 1;
        Some(self.asked_from - 1)
    }
}
