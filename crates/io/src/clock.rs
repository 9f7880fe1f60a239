//! Monotonic clock for everything, wall clock for RTCP.

pub mod disciplined;
pub mod ptp4l;
pub mod tai;

use core::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::{fs, io};

use tautline_proto::clock::HostClock;
use tautline_proto::time::{LocalTime, Span};

use crate::system::owned;

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// The current `CLOCK_MONOTONIC` time. Wait-free (vDSO).
pub fn now() -> LocalTime {
    LocalTime::from_nanos(read(libc::CLOCK_MONOTONIC))
}

/// Processor time of the current thread.
pub fn thread_time() -> Span {
    Span::from_nanos(read(libc::CLOCK_THREAD_CPUTIME_ID))
}

/// User and kernel time of the current thread (getrusage(2)). Less precise than [`thread_time`].
pub fn thread_halves() -> [Span; 2] {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is a writable rusage (zeros are valid); the call cannot fail for this thread.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    [usage.ru_utime, usage.ru_stime]
        .map(|time| Span::from_secs(time.tv_sec) + Span::from_micros(time.tv_usec))
}

/// User plus system time of all threads of this process.
pub fn processor_time() -> Span {
    Span::from_nanos(read(libc::CLOCK_PROCESS_CPUTIME_ID))
}

fn read(clock: libc::clockid_t) -> i64 {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: `time` is a writable timespec; every Linux has these clocks.
    let time = unsafe {
        libc::clock_gettime(clock, time.as_mut_ptr());
        time.assume_init()
    };
    nanos_of(&time)
}

pub(crate) const fn nanos_of(time: &libc::timespec) -> i64 {
    time.tv_sec.saturating_mul(NANOS_PER_SECOND).saturating_add(time.tv_nsec)
}

pub(crate) const fn timespec(nanos: i64) -> libc::timespec {
    let nanos = if nanos < 0 { 0 } else { nanos };
    libc::timespec { tv_sec: nanos / NANOS_PER_SECOND, tv_nsec: nanos % NANOS_PER_SECOND }
}

/// Converts a timeout; negative values become zero.
pub const fn limit(maximum: Span) -> libc::timespec {
    timespec(maximum.as_nanos())
}

/// Sleeps until `due` despite signals; forever for [`LocalTime::NEVER`].
pub fn sleep_until(due: LocalTime) {
    let due = timespec(due.as_nanos());
    // SAFETY: `due` is a valid timespec; an absolute sleep has no remainder.
    while unsafe {
        let (clock, flags) = (libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME);
        libc::clock_nanosleep(clock, flags, &due, core::ptr::null_mut())
    } == libc::EINTR
    {}
}

/// A stream's wall clock: monotonic plus an offset frozen at the start, immune to NTP steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WallClock {
    offset: Span,
}

impl WallClock {
    /// Freezes the current offset between the two clocks.
    pub fn frozen() -> Self {
        Self { offset: Bracket::tightest(BRACKETS).offset() }
    }

    /// Freezes the offset of TAI ([`tai::tai`]), or else of UTC. Reads files.
    pub fn tai() -> Self {
        Self { offset: tai::tai().offset(now()) }
    }

    /// Nanoseconds since the Unix epoch (UTC without leap seconds) minus [`LocalTime`] nanoseconds.
    pub const fn offset(&self) -> Span {
        self.offset
    }
}

/// Readings per [`Bracket::tightest`]. Interruptions rarely affect all of them.
pub(crate) const BRACKETS: usize = 4;

/// Bounds in nanoseconds of (other clock − CLOCK_MONOTONIC) from one reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bracket {
    pub(crate) minimum: i64,
    pub(crate) maximum: i64,
}

impl Bracket {
    pub(crate) fn tightest(tries: usize) -> Self {
        Self::of(libc::CLOCK_REALTIME, tries)
    }

    pub(crate) fn of(clock: libc::clockid_t, tries: usize) -> Self {
        let first = Self::read(clock);
        (1..tries).map(|_| Self::read(clock)).fold(first, |best, next| {
            if next.maximum - next.minimum < best.maximum - best.minimum { next } else { best }
        })
    }

    fn read(clock: libc::clockid_t) -> Self {
        let before = now().as_nanos();
        let other = read(clock);
        let after = now().as_nanos();
        Self { minimum: other - after, maximum: other - before }
    }

    pub(crate) const fn offset(&self) -> Span {
        Span::from_nanos(self.minimum + (self.maximum - self.minimum) / 2)
    }

    pub(crate) const fn uncertainty(&self) -> Span {
        Span::from_nanos((self.maximum - self.minimum + 1) / 2)
    }
}

const BOOT: &str = "/proc/sys/kernel/random/boot_id";
/// Offset of this process's time namespace (time_namespaces(7)).
const AHEAD: &str = "/proc/self/timens_offsets";

/// This host's monotonic clock, shared with containers; `None` without a boot id. Reads files once.
pub fn host_clock() -> Option<HostClock> {
    static HOST: OnceLock<Option<HostClock>> = OnceLock::new();
    *HOST.get_or_init(|| {
        let boot = fs::read_to_string(BOOT).ok().filter(|boot| !boot.trim().is_empty())?;
        let ahead = fs::read_to_string(AHEAD).unwrap_or_default();
        Some(HostClock::of(format!("{boot}{}", monotonic(&ahead)).as_bytes()))
    })
}

fn monotonic(ahead: &str) -> String {
    let line = ahead.lines().find_map(|line| line.trim().strip_prefix("monotonic"));
    let words = line.unwrap_or_default().split_whitespace().collect::<Vec<_>>();
    if words.iter().all(|word| *word == "0") { String::new() } else { words.join(" ") }
}

/// A timer. Its descriptor is readable once due.
#[derive(Debug)]
pub struct Timer(OwnedFd);

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Timer {
    /// Creates an unset timer.
    pub fn new() -> io::Result<Self> {
        let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
        // SAFETY: the call takes no pointers, and the descriptor is new.
        unsafe { owned(libc::timerfd_create(libc::CLOCK_MONOTONIC, flags)) }.map(Self)
    }

    /// Returns the descriptor to poll for reading.
    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Sets the due time; [`LocalTime::NEVER`] disarms it.
    pub fn set(&self, due: LocalTime) {
        // Zero would disarm the timer.
        let nanos = if due.is_never() { 0 } else { due.as_nanos().max(1) };
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let wanted = libc::itimerspec { it_interval: none, it_value: timespec(nanos) };
        // SAFETY: `wanted` is a valid itimerspec. The call cannot fail for a timer and a valid
        // time.
        unsafe {
            let (wanted, old) = (&raw const wanted, core::ptr::null_mut());
            libc::timerfd_settime(self.fd(), libc::TFD_TIMER_ABSTIME, wanted, old)
        };
    }
}

#[cfg(test)]
mod tests {

    use tautline_proto::time::Span;

    use super::*;
    use crate::clock::now;

    #[test]
    fn a_thread_that_works_has_taken_time_in_one_half_or_the_other() {
        let all = || thread_halves().into_iter().fold(Span::ZERO, |sum, half| sum + half);
        let (begun, before) = (thread_time(), all());
        while thread_time() - begun < Span::from_millis(30) {}
        let taken = all() - before;
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
    fn thread_time_grows_with_work_but_not_beyond_real_time() {
        let (begun, before) = (now(), thread_time());
        while thread_time() == before {
            core::hint::spin_loop();
        }
        assert!(thread_time() - before <= now() - begun + Span::from_micros(10));
    }

    #[test]
    fn the_wall_clock_agrees_with_the_system_to_within_a_second() {
        let wall = now().as_nanos() + WallClock::frozen().offset().as_nanos();
        let system = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_nanos() as i64;
        assert!((wall - system).abs() < NANOS_PER_SECOND, "{wall} against {system}");
    }

    #[test]
    fn host_clock_is_shared_except_by_moved_time_namespaces() {
        assert_eq!(
            monotonic("monotonic           0         0\nboottime            7         0\n"),
            ""
        );
        assert_eq!(monotonic(""), "");
        assert_eq!(monotonic("monotonic       86400         0\nboottime  0 0\n"), "86400 0");
    }

    fn is_readable(timer: &Timer, millis: i32) -> bool {
        let mut one = libc::pollfd { fd: timer.fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: `one` is one valid pollfd.
        unsafe { libc::poll(&raw mut one, 1, millis) == 1 }
    }

    #[test]
    fn timer_is_readable_from_due_time_until_reset() {
        let timer = Timer::new().unwrap();
        assert!(!is_readable(&timer, 0));
        let due = now() + Span::from_millis(2);
        timer.set(due);
        assert!(is_readable(&timer, -1) && now() >= due);
        assert!(is_readable(&timer, 0), "still");
        timer.set(now() + Span::from_secs(3600));
        assert!(!is_readable(&timer, 0));
        timer.set(LocalTime::ZERO);
        assert!(is_readable(&timer, 0), "an instant long past");
        timer.set(LocalTime::NEVER);
        assert!(!is_readable(&timer, 0));
    }
}
