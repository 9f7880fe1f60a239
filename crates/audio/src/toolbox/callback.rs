//! Calls from a library's thread. It holds the process's [`Seat`] for a cycle; the waiting thread
//! takes the process out in between. [`CallWatch`] detects stalls.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread;
use std::time::Duration;

use tautline_proto::device::Process;
use tautline_proto::time::{LocalTime, Span};

const SILENT: Span = Span::from_millis(500);
/// Timeout of the first call, before which the server adds the client to its graph.
const NOT_BEGUN: Span = Span::from_millis(1000);
const CYCLES: i64 = 8;
/// Maximum time that a check counts. Checks come every 20 ms unless the program or host was
/// stopped.
const ONE_LOOK: Span = Span::from_millis(50);

#[derive(Default)]
pub(crate) struct Seat {
    /// Only `try_lock`: no thread waits or is woken.
    process: Mutex<Option<Box<dyn Process>>>,
    calls: AtomicU32,
}

impl Seat {
    /// Counts a call and borrows the process. Real-time safe.
    pub(crate) fn hold(&self) -> Option<HeldProcess<'_>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let held = self.enter()?;
        held.is_some().then_some(HeldProcess(held))
    }

    pub(crate) fn calls(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }

    pub(crate) fn give(&self, process: Box<dyn Process>) {
        *self.wait() = Some(process);
    }

    pub(crate) fn take(&self) -> Option<Box<dyn Process>> {
        self.wait().take()
    }

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

pub(crate) struct HeldProcess<'a>(MutexGuard<'a, Option<Box<dyn Process>>>);

impl HeldProcess<'_> {
    pub(crate) fn process(&mut self) -> Option<&mut (dyn Process + 'static)> {
        self.0.as_deref_mut()
    }
}

#[derive(Debug)]
pub(crate) struct CallWatch {
    calls: u32,
    begun: bool,
    looked: LocalTime,
    silence: Span,
}

impl CallWatch {
    pub(crate) fn new(calls: u32, now: LocalTime) -> Self {
        Self { calls, begun: false, looked: now, silence: Span::ZERO }
    }

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

/// A cycle's samples, one port per channel. Buffers can be missing while ports change.
pub(crate) trait Ports {
    fn received(&self, channel: usize) -> Option<&[f32]>;

    fn played(&mut self, channel: usize) -> Option<&mut [f32]>;
}

pub(crate) fn part(block: &mut [f32], samples: usize) -> &mut [f32] {
    let samples = samples.min(block.len());
    &mut block[..samples]
}

pub(crate) fn interleave(ports: &impl Ports, channels: usize, from: usize, block: &mut [f32]) {
    if block.is_empty() {
        return;
    }
    for channel in 0..channels {
        let samples = block.iter_mut().skip(channel).step_by(channels);
        match ports.received(channel) {
            Some(received) => {
                samples.zip(&received[from..]).for_each(|(sample, received)| *sample = *received)
            }
            None => samples.for_each(|sample| *sample = 0.0),
        }
    }
}

pub(crate) fn lay_out(block: &[f32], channels: usize, from: usize, ports: &mut impl Ports) {
    if block.is_empty() {
        return;
    }
    for channel in 0..channels {
        let Some(out) = ports.played(channel) else { continue };
        let samples = block.iter().skip(channel).step_by(channels);
        samples.zip(&mut out[from..]).for_each(|(sample, out)| *out = *sample);
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
    fn time_while_this_program_is_stopped_does_not_count() {
        let mut now = LocalTime::from_nanos(7);
        let mut watch = CallWatch::new(0, now);
        assert!(!watch.is_silent(1, now, CYCLE));
        now += Span::from_millis(60_000);
        assert!(!watch.is_silent(1, now, CYCLE));
        now += LOOK;
        assert!(!watch.is_silent(2, now, CYCLE));
    }

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
        assert!(seat.hold().is_none(), "the seat is empty");
        assert_eq!(seat.calls(), 2);
    }
}
