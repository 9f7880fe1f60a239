//! Repairers for streams with redundancy. Most streams need none, so only a few are ready.

use rtrb::{Consumer, Producer};
use tautline_io::thread::memory;
use tautline_proto::jitter_buffer::JitterBuffer;
use tautline_proto::redundancy::Repairer;

pub(crate) struct RepairerStore {
    waiting: Producer<Box<Repairer>>,
    laid_out: usize,
}

/// The device's end, which lends repairers. Real-time safe.
pub(crate) struct Spares {
    at_hand: Option<Box<Repairer>>,
    waiting: Consumer<Box<Repairer>>,
}

/// Number of streams that can start redundancy within a beat without loss.
const WAITING: usize = 4;

pub(crate) fn repairers(streams: usize, maximum: usize) -> (RepairerStore, Spares) {
    let (producer, waiting) = memory::ring(maximum);
    let mut store = RepairerStore { waiting: producer, laid_out: 0 };
    store.fill(streams, WAITING);
    (store, Spares { at_hand: None, waiting })
}

impl RepairerStore {
    pub(crate) fn refill(&mut self, streams: usize) {
        let maximum = self.waiting.buffer().capacity();
        let none = self.waiting.slots() == maximum;
        self.fill(streams, if none { maximum } else { WAITING });
    }

    fn fill(&mut self, streams: usize, wanted: usize) {
        let maximum = self.waiting.buffer().capacity();
        while self.laid_out < streams && maximum - self.waiting.slots() < wanted {
            if self.waiting.push(Box::default()).is_err() {
                return;
            }
            self.laid_out += 1;
        }
    }
}

impl Spares {
    /// Lends `receiver` a repairer for reading. `receiver` keeps the repairer if packets carry
    /// redundancy.
    pub(crate) fn lend(&mut self, receiver: &mut JitterBuffer) {
        if self.at_hand.is_none() {
            self.at_hand = self.waiting.pop().ok();
        }
        receiver.borrow_repairer(&mut self.at_hand);
    }

    #[cfg(test)]
    pub(crate) fn left(&self) -> usize {
        self.waiting.slots() + usize::from(self.at_hand.is_some())
    }

    pub(crate) fn take_back(&mut self, receiver: &mut JitterBuffer) {
        receiver.return_repairer(&mut self.at_hand);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(spares: &mut Spares, wanted: usize) -> usize {
        let at_hand =
            core::iter::from_fn(|| spares.at_hand.take().or_else(|| spares.waiting.pop().ok()));
        at_hand.take(wanted).count()
    }

    #[test]
    fn there_are_never_more_repairers_than_streams() {
        let (mut store, mut spares) = repairers(2, 6);
        store.refill(2);
        assert_eq!(take(&mut spares, 9), 2);
        store.refill(2);
        assert_eq!(take(&mut spares, 9), 0);
        store.refill(3);
        assert_eq!(take(&mut spares, 9), 1, "another stream came");
    }

    #[test]
    fn taken_spares_are_replaced_at_the_next_tick() {
        let (mut store, mut spares) = repairers(100, 104);
        for _ in 0..20 {
            assert_eq!(take(&mut spares, 3), 3);
            store.refill(100);
        }
        assert_eq!(store.laid_out, 64);
    }

    #[test]
    fn exhausted_repairers_are_refilled_for_every_stream() {
        let (mut store, mut spares) = repairers(100, 104);
        assert_eq!(take(&mut spares, 100), WAITING);
        store.refill(100);
        assert_eq!(take(&mut spares, 100), 100 - WAITING);
        store.refill(100);
        assert_eq!(take(&mut spares, 100), 0);
    }
}
