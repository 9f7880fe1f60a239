//! What a library that calls back and the thread that waits for it have in common.
//!
//! The process lies in a [`Seat`]. The library's thread takes hold of it for a cycle; whoever waits
//! takes it out when it is not held, whether or not the server behind the library answers. A server
//! that stalls (stopped, or stuck) says nothing: [`CallWatch`] counts for how long nobody was called.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread;
use std::time::Duration;

use tautline_proto::device::Process;
use tautline_proto::time::{LocalTime, Span};

/// A server that calls nobody for so long has stalled, as a card has in `alsa`.
const SILENT: Span = Span::from_millis(500);
/// The same before the first call: a server puts a client into its graph meanwhile.
const NOT_BEGUN: Span = Span::from_millis(1000);
/// And no fewer cycles than so many.
const CYCLES: i64 = 8;
/// Silence that one look accounts for, at most. Whoever waits looks every 20 ms or less, unless
/// this program was itself stopped, or the host froze: then nobody could be called.
const ONE_LOOK: Span = Span::from_millis(50);

/// Where the process is called from.
#[derive(Default)]
pub(crate) struct Seat {
    /// Both sides use `try_lock` alone, which is one exchange of a word; since nobody ever waits
    /// for the lock, nobody is ever woken from it.
    process: Mutex<Option<Box<dyn Process>>>,
    calls: AtomicU32,
}

impl Seat {
    /// The library called. What is to be called for it, until this is dropped; `None` if nobody
    /// sits here. Real-time.
    pub(crate) fn hold(&self) -> Option<HeldProcess<'_>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let held = self.enter()?;
        held.is_some().then_some(HeldProcess(held))
    }

    /// How often the library called.
    pub(crate) fn calls(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }

    /// The library calls `process` from now on.
    pub(crate) fn give(&self, process: Box<dyn Process>) {
        *self.wait() = Some(process);
    }

    /// The library calls nothing from now on.
    pub(crate) fn take(&self) -> Option<Box<dyn Process>> {
        self.wait().take()
    }

    /// Waits for the cycle that goes on. That has no limit and needs none: who holds the process
    /// computes, and asks no server for anything meanwhile. Nothing else could be given back.
    fn wait(&self) -> MutexGuard<'_, Option<Box<dyn Process>>> {
        loop {
            if let Some(process) = self.enter() {
                return process;
            }
            thread::sleep(Duration::from_micros(100));
        }
    }

    fn enter(&self) -> Option<MutexGuard<'_, Option<Box<dyn Process>>>> {
        match self.process.try_lock() {
            Ok(process) => Some(process),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// A process in a cycle.
pub(crate) struct HeldProcess<'a>(MutexGuard<'a, Option<Box<dyn Process>>>);

impl HeldProcess<'_> {
    pub(crate) fn process(&mut self) -> Option<&mut (dyn Process + 'static)> {
        self.0.as_deref_mut()
    }
}

/// Sees when the library calls no more.
#[derive(Debug)]
pub(crate) struct CallWatch {
    calls: u32,
    begun: bool,
    looked: LocalTime,
    silence: Span,
}

impl CallWatch {
    /// From now on, with so many calls before.
    pub(crate) fn new(calls: u32, now: LocalTime) -> Self {
        Self { calls, begun: false, looked: now, silence: Span::ZERO }
    }

    /// Whether there was none of the calls, of which there were so many by now, for too long;
    /// there should be one every `cycle`.
    pub(crate) fn is_silent(&mut self, calls: u32, now: LocalTime, cycle: Span) -> bool {
        let since = (now - self.looked).min(ONE_LOOK);
        self.looked = now;
        if calls != self.calls {
            (self.calls, self.begun, self.silence) = (calls, true, Span::ZERO);
            return false;
        }
        self.silence += since;
        let limit = if self.begun { SILENT } else { NOT_BEGUN };
        self.silence >= limit.max(Span::from_nanos(cycle.as_nanos() * CYCLES))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::{Arc, Barrier};

    use tautline_proto::device::{Cycle, Flow};

    use super::*;

    const CYCLE: Span = Span::from_millis(5);
    const LOOK: Span = Span::from_millis(10);

    /// Milliseconds, in looks of 10, until the watch finds it silent; called in each of the first.
    fn silent_after(called_in: i64, cycle: Span) -> i64 {
        let mut now = LocalTime::from_nanos(7);
        let mut watch = CallWatch::new(3, now);
        for look in 1.. {
            now += LOOK;
            let calls = 3 + look.min(called_in) as u32;
            if watch.is_silent(calls, now, cycle) {
                return (look - called_in) * 10;
            }
        }
        unreachable!()
    }

    #[test]
    fn a_library_that_calls_no_more_is_silent_after_half_a_second() {
        assert_eq!(silent_after(100, CYCLE), 500);
    }

    #[test]
    fn a_library_that_never_called_is_given_a_second() {
        assert_eq!(silent_after(0, CYCLE), 1000);
    }

    #[test]
    fn a_long_cycle_is_waited_for() {
        assert_eq!(silent_after(1, Span::from_millis(200)), 1600);
    }

    #[test]
    fn the_time_in_which_this_program_was_stopped_itself_does_not_count() {
        let mut now = LocalTime::from_nanos(7);
        let mut watch = CallWatch::new(0, now);
        assert!(!watch.is_silent(1, now, CYCLE));
        now += Span::from_millis(60_000);
        assert!(!watch.is_silent(1, now, CYCLE));
        now += LOOK;
        assert!(!watch.is_silent(2, now, CYCLE));
    }

    /// Says whether it is being called.
    struct Slow(Arc<AtomicBool>, Arc<Barrier>);

    impl Process for Slow {
        fn process(&mut self, _: &mut Cycle<'_>) -> Flow {
            self.0.store(true, Ordering::SeqCst);
            self.1.wait();
            thread::sleep(Duration::from_millis(20));
            self.0.store(false, Ordering::SeqCst);
            Flow::Continue
        }
    }

    #[test]
    fn the_process_is_not_given_back_while_it_is_being_called() {
        let (inside, entered) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(2)));
        let seat = Arc::new(Seat::default());
        seat.give(Box::new(Slow(Arc::clone(&inside), Arc::clone(&entered))));
        let called = Arc::clone(&seat);
        let library = thread::spawn(move || {
            let mut held = called.hold().unwrap();
            let side = tautline_proto::device::Side::absent;
            let now = LocalTime::ZERO;
            let mut cycle = Cycle { now, capture: side(), playback: side(), xruns: 0, clock: None };
            held.process().unwrap().process(&mut cycle);
        });
        entered.wait();
        assert!(inside.load(Ordering::SeqCst));
        assert!(seat.take().is_some());
        assert!(!inside.load(Ordering::SeqCst));
        library.join().unwrap();
        assert!(seat.hold().is_none(), "nobody sits there");
        assert_eq!(seat.calls(), 2);
    }
}
