//! Something that several threads use now and then, none of which ever waits for another.

use core::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// A value that whoever comes while it is used goes without.
pub(super) struct Claimed<T> {
    used: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one thread at a time, by which it may be used.
unsafe impl<T: Send> Sync for Claimed<T> {}

/// Gives the value free again, also where its user panics.
struct Claim<'a>(&'a AtomicBool);

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl<T> Claimed<T> {
    pub(super) const fn new(value: T) -> Self {
        Self { used: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Uses the value; `None` where another thread does just now. Never waits.
    pub(super) fn try_with<R>(&self, using: impl FnOnce(&mut T) -> R) -> Option<R> {
        if self.used.swap(true, Ordering::Acquire) {
            return None;
        }
        let _claim = Claim(&self.used);
        // SAFETY: whoever found it unused is alone with it until the claim ends.
        Some(using(unsafe { &mut *self.value.get() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_is_used_by_one_and_free_again_after_a_panic() {
        let claimed = Claimed::new(1);
        assert_eq!(claimed.try_with(|_| claimed.try_with(|value| *value)), Some(None));
        let panicked = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
            claimed.try_with(|_| panic!("on purpose"));
        }));
        assert!(panicked.is_err());
        let counted = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        if claimed.try_with(|value| *value += 1).is_some() {
                            counted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(claimed.try_with(|value| *value), Some(1 + counted.into_inner()));
    }
}
