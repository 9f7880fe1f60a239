//! A value that one thread uses while another exchanges it.

use core::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use rtrb::{Consumer, Producer, PushError};

use crate::thread::memory;

struct GivenSlot<T>(AtomicPtr<T>);

impl<T> GivenSlot<T> {
    fn exchange(&self, next: Option<Box<T>>) -> Option<Box<T>> {
        let next = next.map_or(null_mut(), Box::into_raw);
        let last = self.0.swap(next, Ordering::AcqRel);
        // SAFETY: the slot only holds pointers from boxes, and this thread alone owns a swapped-out
        // one.
        (!last.is_null()).then(|| unsafe { Box::from_raw(last) })
    }

    fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed).is_null()
    }
}

impl<T> Drop for GivenSlot<T> {
    fn drop(&mut self) {
        drop(self.exchange(None));
    }
}

pub(crate) struct Held<T> {
    now: Option<Box<T>>,
    next: Arc<GivenSlot<T>>,
    old: Producer<Box<T>>,
}

pub(crate) struct TransportGiver<T> {
    next: Arc<GivenSlot<T>>,
    old: Consumer<Box<T>>,
}

pub(crate) fn held<T: Send>() -> (Held<T>, TransportGiver<T>) {
    let next = Arc::new(GivenSlot(AtomicPtr::new(null_mut())));
    let (old, old_out) = memory::ring(2);
    (Held { now: None, next: Arc::clone(&next), old }, TransportGiver { next, old: old_out })
}

impl<T> Held<T> {
    pub(crate) fn now(&mut self) -> Option<&mut T> {
        self.now.as_deref_mut()
    }

    pub(crate) fn get(&self) -> Option<&T> {
        self.now.as_deref()
    }

    /// Takes the newest value after `turn` saw both; returns the old one to the giver. Wait-free.
    /// `true` for a new value.
    pub(crate) fn turn(&mut self, turn: impl FnOnce(Option<&mut T>, &mut T)) -> bool {
        if self.next.is_empty() {
            return false;
        }
        let Some(mut next) = self.next.exchange(None) else { return false };
        turn(self.now.as_deref_mut(), &mut next);
        let old = self.now.replace(next);
        if let Some(Err(PushError::Full(old))) = old.map(|old| self.old.push(old)) {
            // Unreachable: the ring has room. A leak is better than freeing here.
            core::mem::forget(old);
        }
        true
    }
}

impl<T> TransportGiver<T> {
    pub(crate) fn collect(&mut self) {
        while self.old.pop().is_ok() {}
    }

    pub(crate) fn give(&mut self, next: T) {
        self.collect();
        drop(self.next.exchange(Some(Box::new(next))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaced_value_is_dropped_by_its_giver() {
        let (mut user, mut giver) = held();
        let all: Vec<Arc<u8>> = (0..20).map(Arc::new).collect();
        for one in &all {
            giver.give(Arc::clone(one));
            assert!(user.turn(|_, _| ()));
            assert!(!user.turn(|_, _| ()));
        }
        assert_eq!(Arc::strong_count(&all[18]), 2);
        giver.collect();
        assert!(all[..19].iter().all(|one| Arc::strong_count(one) == 1));
        assert_eq!(user.get().map(|one| **one), Some(19));
    }

    #[test]
    fn slow_reader_finds_the_newest_value_without_leaks() {
        let (mut user, mut giver) = held();
        let all: Vec<Arc<u8>> = (0..20).map(Arc::new).collect();
        all.iter().for_each(|one| giver.give(Arc::clone(one)));
        assert!(user.turn(|old, next| assert!(old.is_none() && **next == 19)));
        giver.give(Arc::clone(&all[3]));
        drop((user, giver));
        assert!(all.iter().all(|one| Arc::strong_count(one) == 1));
    }

    #[test]
    fn whatever_is_given_meanwhile_is_taken_once_and_in_order() {
        let (mut user, mut giver) = held();
        const LAST: u32 = 100_000;
        std::thread::scope(|scope| {
            scope.spawn(move || (0..=LAST).for_each(|number| giver.give(number)));
            let mut last = None;
            while last != Some(LAST) {
                user.turn(|old, next| {
                    assert!(old.copied() == last && last < Some(*next));
                    last = Some(*next);
                });
            }
        });
    }
}
