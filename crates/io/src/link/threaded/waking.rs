//! Wakes a wire thread by its own timer or by a bell.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};

use tautline_proto::time::{LocalTime, Span};

use crate::thread::halt::EventDescriptor;

pub(super) struct Bell {
    event: EventDescriptor,
    awaited: AtomicBool,
    stop: AtomicBool,
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl Bell {
    pub(super) fn new() -> std::io::Result<Self> {
        let event = EventDescriptor::new()?;
        Ok(Self { event, awaited: AtomicBool::new(false), stop: AtomicBool::new(false) })
    }

    pub(super) fn as_raw_fd(&self) -> RawFd {
        self.event.as_fd().as_raw_fd()
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub(super) fn ring(&self) {
        // Either `wait_for` sees the entry, or this code sees `awaited`.
        fence(Ordering::SeqCst);
        if self.awaited.swap(false, Ordering::SeqCst) {
            self.event.wake();
        }
    }

    /// Enables the bell. Then check for existing entries.
    pub(super) fn wait_for(&self) {
        self.awaited.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    pub(super) fn silence(&self) {
        self.event.silence();
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.event.wake();
    }
}

/// Predicts the next packets, so that the wire thread wakes once per period, to hand them over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rhythm {
    last: LocalTime,
    step: Span,
    awaits: bool,
}

impl Rhythm {
    /// Maximum predicted interval. Prediction gains nothing for longer intervals.
    const LONGEST: Span = Span::from_millis(20);

    pub(super) const fn new() -> Self {
        Self { last: LocalTime::NEVER, step: Span::ZERO, awaits: false }
    }

    pub(super) fn follow(&mut self, due: LocalTime) {
        let step = due - self.last;
        self.awaits = step > Span::ZERO && step <= Self::LONGEST;
        (self.last, self.step) = (due, step);
    }

    pub(super) fn take_next(&mut self) -> Option<LocalTime> {
        core::mem::take(&mut self.awaits).then(|| self.last + self.step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::descriptor::{poll, readable};

    #[test]
    fn bell_wakes_only_a_waiting_thread_and_once() {
        let bell = Bell::new().unwrap();
        let mode = || {
            let mut event = [readable(bell.as_raw_fd())];
            poll(&mut event, LocalTime::ZERO);
            event[0].revents != 0
        };
        bell.ring();
        assert!(!mode());
        bell.wait_for();
        assert!(!mode());
        bell.ring();
        assert!(mode());
        bell.silence();
        bell.ring();
        assert!(!mode(), "each ring wakes only once");
        bell.stop();
        assert!(mode(), "a stop wakes every waiter");
    }

    #[test]
    fn the_next_packet_is_awaited_once_a_step_after_the_last() {
        let at = |micros: i64| LocalTime::ZERO + Span::from_micros(micros);
        let mut rhythm = Rhythm::new();
        rhythm.follow(at(1000));
        assert_eq!(rhythm.take_next(), None, "one has no rhythm");
        rhythm.follow(at(1125));
        assert_eq!((rhythm.take_next(), rhythm.take_next()), (Some(at(1250)), None));
        rhythm.follow(at(1250));
        rhythm.follow(at(1375));
        assert_eq!(rhythm.take_next(), Some(at(1500)));
        rhythm.follow(at(1375));
        assert_eq!(rhythm.take_next(), None, "two at the same time");
        rhythm.follow(at(90_000));
        assert_eq!(rhythm.take_next(), None, "a pause");
        rhythm.follow(at(50));
        assert_eq!(rhythm.take_next(), None, "one from before");
    }
}
