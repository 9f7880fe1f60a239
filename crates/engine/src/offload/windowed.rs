//! Offloads other data than audio: a limited number of block sets in flight, answered in order.

use tautline_io::clock::now;
use tautline_io::link::LinkCounters;
use tautline_io::link::awaiting::await_any;
use tautline_proto::offload::OffloadError;
use tautline_proto::offload::master::{BlockAnswer, MasterConfig, MasterCounters};
use tautline_proto::offload::outbound::RoomRefused;
use tautline_proto::time::{LocalTime, Span};

use crate::offload::far::{Far, INSIST_AFTER, WorkerEnd};

/// Why a set is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HandOutRefused {
    /// Too many sets in flight.
    #[error("{window} sets of blocks are under way already: take one back first")]
    Window {
        /// Maximum.
        window: usize,
    },
    /// Longer than agreed.
    #[error(transparent)]
    Room(#[from] RoomRefused),
}

/// Sends block sets; returns answers in order.
pub struct Windowed {
    end: WorkerEnd,
    window: usize,
    oldest: u64,
    next: u64,
}

impl Windowed {
    /// At least one and at most `window` sets in flight; `config` has room for their answers.
    pub fn new(config: MasterConfig, window: usize, far: Far) -> Result<Self, OffloadError> {
        let window = window.clamp(1, config.hold.max(1));
        let mut end = WorkerEnd::new(config, Span::MAX)?;
        end.replace(Some(far));
        end.begin();
        Ok(Self { end, window, oldest: 0, next: 0 })
    }

    /// Sends a set that `write` fills in place; returns its number. Does not block.
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

    /// Sets in flight.
    pub const fn under_way(&self) -> usize {
        (self.next - self.oldest) as usize
    }

    /// Waits until `until` for the oldest set's answer; `None` on timeout or with nothing in
    /// flight. The caller can wait again or [give up](Self::give_up).
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

    /// Gives up the oldest set.
    pub fn give_up(&mut self) {
        self.oldest = (self.oldest + 1).min(self.next);
        self.end.master.release(self.oldest);
    }

    /// Protocol counters.
    pub const fn counters(&self) -> MasterCounters {
        self.end.master.counters()
    }

    /// Link counters.
    pub fn link_counters(&self) -> LinkCounters {
        self.end.link_counters()
    }
}
