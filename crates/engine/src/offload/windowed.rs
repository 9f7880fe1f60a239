//! Sets of blocks handed to a worker, so many at a time, and taken back in order, where no card sets the pace.

use tautline_io::clock::now;
use tautline_io::link::LinkCounters;
use tautline_io::link::awaiting::await_any;
use tautline_proto::offload::OffloadError;
use tautline_proto::offload::master::{BlockAnswer, MasterConfig, MasterCounters};
use tautline_proto::offload::outbound::RoomRefused;
use tautline_proto::time::{LocalTime, Span};

use crate::offload::far::{Far, INSIST_AFTER, WorkerEnd};

/// Why a set of blocks is not handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HandOutRefused {
    /// As many are under way as may be.
    #[error("{window} sets of blocks are under way already: take one back first")]
    Window {
        /// As many.
        window: usize,
    },
    /// It is longer than agreed.
    #[error(transparent)]
    Room(#[from] RoomRefused),
}

/// Hands out sets of blocks and takes back what a worker made of them, in order.
pub struct Windowed {
    end: WorkerEnd,
    window: usize,
    /// The next that is taken back.
    oldest: u64,
    /// The next that is handed out.
    next: u64,
}

impl Windowed {
    /// A worker that has up to `window` sets, 1 at least, at a time. `config` has room for as many answers.
    pub fn new(config: MasterConfig, window: usize, far: Far) -> Result<Self, OffloadError> {
        let window = window.clamp(1, config.hold.max(1));
        let mut end = WorkerEnd::new(config, Span::MAX)?;
        end.replace(Some(far));
        end.begin();
        Ok(Self { end, window, oldest: 0, next: 0 })
    }

    /// Hands out the bytes that `write` writes, in place. Returns its number; does not wait.
    pub fn hand_out(
        &mut self,
        frames: u32,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<u64, HandOutRefused> {
        if self.under_way() >= self.window {
            return Err(HandOutRefused::Window { window: self.window });
        }
        write(self.end.master.room(frames)?);
        let number = self.end.master.commit(tautline_proto::offload::datagram::Flags::NONE);
        self.next = number + 1;
        self.end.send();
        Ok(number)
    }

    /// Sets that were handed out and not taken back.
    pub const fn under_way(&self) -> usize {
        (self.next - self.oldest) as usize
    }

    /// Waits for what was made of the oldest set under way, until that instant at most, and has it read. `None` if it
    /// did not come, or nothing is under way: it may still be waited for, or [given up](Self::give_up).
    pub fn take_back<T>(
        &mut self,
        until: LocalTime,
        read: impl FnOnce(BlockAnswer<'_>) -> T,
    ) -> Option<T> {
        if self.under_way() == 0 {
            return None;
        }
        let mut insist = now() + INSIST_AFTER;
        while self.end.master.answer(self.oldest).is_none() {
            let at = now();
            if at >= until {
                return None;
            }
            if at >= insist {
                self.end.insist(self.oldest);
                insist = at + INSIST_AFTER;
            }
            await_any(self.end.awaited(), until.min(insist));
            if self.end.receive() {
                self.end.send();
            }
        }
        let taken = self.end.master.answer(self.oldest).map(read);
        self.give_up();
        taken
    }

    /// The oldest set under way is waited for no more.
    pub fn give_up(&mut self) {
        self.oldest = (self.oldest + 1).min(self.next);
        self.end.master.release(self.oldest);
    }

    /// What was counted.
    pub const fn counters(&self) -> MasterCounters {
        self.end.master.counters()
    }

    /// What the link counted.
    pub fn link_counters(&self) -> LinkCounters {
        self.end.link_counters()
    }
}
