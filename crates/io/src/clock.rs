//! The machine's clocks: the monotonic one that everything runs on, and the wall clock for RTCP.

pub mod host;
pub mod kept;
pub mod ptp4l;
pub mod tai;
pub mod timer;

use core::mem::MaybeUninit;

use tautline_proto::time::{LocalTime, Span};

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// The reading of `CLOCK_MONOTONIC` now. Wait-free (vDSO).
pub fn now() -> LocalTime {
    LocalTime::from_nanos(read(libc::CLOCK_MONOTONIC))
}

/// The processor time that the current thread has taken so far.
pub fn thread_time() -> Span {
    Span::from_nanos(read(libc::CLOCK_THREAD_CPUTIME_ID))
}

/// What the current thread has taken in user mode and in the kernel so far (getrusage(2)), told apart by the kernel's
/// ticks: less sure than [`thread_time`] of both.
pub fn thread_halves() -> [Span; 2] {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is a writable rusage, of which all zeros are one; the call cannot fail for this thread.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    [usage.ru_utime, usage.ru_stime]
        .map(|time| Span::from_secs(time.tv_sec) + Span::from_micros(time.tv_usec))
}

/// Processor time of the whole program so far, user and system, of all its threads.
pub fn processor_time() -> Span {
    Span::from_nanos(read(libc::CLOCK_PROCESS_CPUTIME_ID))
}

fn read(clock: libc::clockid_t) -> i64 {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: `time` is a writable timespec; all these clocks exist on every Linux, so the call fills it.
    let time = unsafe {
        libc::clock_gettime(clock, time.as_mut_ptr());
        time.assume_init()
    };
    nanos_of(&time)
}

/// A kernel time as nanoseconds, saturating.
pub(crate) const fn nanos_of(time: &libc::timespec) -> i64 {
    time.tv_sec.saturating_mul(NANOS_PER_SECOND).saturating_add(time.tv_nsec)
}

/// Nanoseconds as a kernel time; what lies before zero counts as zero.
pub(crate) const fn timespec(nanos: i64) -> libc::timespec {
    let nanos = if nanos < 0 { 0 } else { nanos };
    libc::timespec { tv_sec: nanos / NANOS_PER_SECOND, tv_nsec: nanos % NANOS_PER_SECOND }
}

/// `most` as a kernel call takes it for a limit; what is below nothing counts as nothing.
pub const fn limit(most: Span) -> libc::timespec {
    timespec(most.as_nanos())
}

/// Sleeps until `due`; returns at once if that has passed. A signal does not cut the sleep short.
/// [`LocalTime::NEVER`] sleeps for ever.
pub fn sleep_until(due: LocalTime) {
    let due = timespec(due.as_nanos());
    // SAFETY: `due` is a valid timespec and the remainder is not asked for, as it is an absolute
    // time.
    while unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &due,
            core::ptr::null_mut(),
        )
    } == libc::EINTR
    {}
}

/// The wall clock of a stream: the monotonic clock plus an offset frozen when the stream started,
/// so that an NTP step moves nothing that was promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WallClock {
    offset: Span,
}

impl WallClock {
    /// Freezes the present offset between the two clocks.
    pub fn frozen() -> Self {
        Self { offset: Bracket::tightest(BRACKETS).offset() }
    }

    /// The same of TAI as it is followed ([`tai::tai`]), which packets are presented by that say when. It is UTC where
    /// nobody told the kernel how many seconds lie between. Reads files: for ordinary threads.
    pub fn tai() -> Self {
        Self { offset: tai::tai().offset(now()) }
    }

    /// What to add to a [`LocalTime`]'s nanoseconds for nanoseconds since the Unix epoch (UTC
    /// without leap seconds).
    pub const fn offset(&self) -> Span {
        self.offset
    }
}

/// How many readings [`Bracket::tightest`] chooses from: one of them is seldom interrupted.
pub(crate) const BRACKETS: usize = 4;

/// What one reading says about another clock − CLOCK_MONOTONIC: it lies between the two bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bracket {
    /// Least possible offset in nanoseconds.
    pub(crate) least: i64,
    /// Greatest possible offset in nanoseconds.
    pub(crate) most: i64,
}

impl Bracket {
    /// The narrowest of `tries` readings of CLOCK_REALTIME.
    pub(crate) fn tightest(tries: usize) -> Self {
        Self::of(libc::CLOCK_REALTIME, tries)
    }

    /// The narrowest of `tries` readings of such a clock.
    pub(crate) fn of(clock: libc::clockid_t, tries: usize) -> Self {
        let first = Self::read(clock);
        (1..tries).map(|_| Self::read(clock)).fold(first, |best, next| {
            if next.most - next.least < best.most - best.least { next } else { best }
        })
    }

    /// Monotonic, the other, monotonic: the other reading fell between the two.
    fn read(clock: libc::clockid_t) -> Self {
        let before = now().as_nanos();
        let other = read(clock);
        let after = now().as_nanos();
        Self { least: other - after, most: other - before }
    }

    /// The middle of the bounds.
    pub(crate) const fn offset(&self) -> Span {
        Span::from_nanos(self.least + (self.most - self.least) / 2)
    }

    /// How far [`Self::offset`] may be from the truth.
    pub(crate) const fn uncertainty(&self) -> Span {
        Span::from_nanos((self.most - self.least + 1) / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_has_taken_time_in_one_half_or_the_other() {
        let all = || thread_halves().into_iter().fold(Span::ZERO, |sum, half| sum + half);
        let (begun, before) = (thread_time(), all());
        while thread_time() - begun < Span::from_millis(30) {}
        let taken = all() - before;
        // By ticks of 10 ms at worst, and rounded.
        assert!((10..=60).contains(&(taken.as_nanos() / 1_000_000)), "{taken}");
    }

    #[test]
    fn a_sleep_ends_at_or_after_its_instant() {
        let due = now() + Span::from_micros(200);
        sleep_until(due);
        assert!(now() >= due);
        sleep_until(LocalTime::ZERO);
        sleep_until(LocalTime::from_nanos(-5));
    }

    #[test]
    fn a_thread_takes_processor_time_while_it_works_and_no_more_than_passes() {
        let (begun, before) = (now(), thread_time());
        while thread_time() == before {
            core::hint::spin_loop();
        }
        // The two clocks are read one after the other.
        assert!(thread_time() - before <= now() - begun + Span::from_micros(10));
    }

    #[test]
    fn the_wall_clock_agrees_with_the_system_to_within_a_second() {
        let wall = now().as_nanos() + WallClock::frozen().offset().as_nanos();
        let system = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_nanos() as i64;
        assert!((wall - system).abs() < NANOS_PER_SECOND, "{wall} against {system}");
    }
}
