//! Resource limits and timer precision.

use core::mem::MaybeUninit;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tautline_proto::time::Span;

use crate::clock::nanos_of;

/// A resource limit (getrlimit(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Soft limit; `None` if unlimited.
    pub now: Option<u64>,
    /// Hard limit; `None` if unlimited.
    pub maximum: Option<u64>,
}

/// Limits relevant to audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceLimits {
    /// Maximum real-time priority (`RLIMIT_RTPRIO`).
    pub priority: Limit,
    /// Locked memory bytes (`RLIMIT_MEMLOCK`).
    pub locked_bytes: Limit,
    /// Open files and sockets (`RLIMIT_NOFILE`).
    pub files: Limit,
}

impl ResourceLimits {
    /// Reads this process's limits.
    pub fn read() -> Self {
        Self {
            priority: limit(libc::RLIMIT_RTPRIO),
            locked_bytes: limit(libc::RLIMIT_MEMLOCK),
            files: limit(libc::RLIMIT_NOFILE),
        }
    }
}

fn limit(resource: libc::__rlimit_resource_t) -> Limit {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a writable rlimit. The call cannot fail for these resources.
    unsafe { libc::getrlimit(resource, &raw mut limit) };
    let value = |bound| (bound != libc::RLIM_INFINITY).then_some(bound);
    Limit { now: value(limit.rlim_cur), maximum: value(limit.rlim_max) }
}

/// Whether this user may read and write a file. Does not open it: a sound card can block.
pub fn may_use(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: a NUL-terminated string that outlives the call.
    let answer = unsafe {
        libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::R_OK | libc::W_OK, libc::AT_EACCESS)
    };
    answer == 0
}

/// Delay added to this thread's timers (`PR_GET_TIMERSLACK`).
pub fn timer_slack() -> Span {
    // SAFETY: the call takes no pointers.
    let nanos = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) };
    Span::from_nanos(nanos.into())
}

/// Resolution of `CLOCK_MONOTONIC` timers: 1 ns, or a kernel tick.
pub fn timer_resolution() -> Span {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: `time` is a writable timespec, and all zeros are valid if the call does not fill it.
    let time = unsafe {
        libc::clock_getres(libc::CLOCK_MONOTONIC, time.as_mut_ptr());
        time.assume_init()
    };
    Span::from_nanos(nanos_of(&time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::{Scheduler, spawn};

    #[test]
    fn the_limits_are_those_that_the_kernel_shows() {
        let shown = std::fs::read_to_string("/proc/self/limits").expect("there on every Linux");
        let ResourceLimits { priority, locked_bytes, files } = ResourceLimits::read();
        for (name, limit) in [
            ("Max realtime priority", priority),
            ("Max locked memory", locked_bytes),
            ("Max open files", files),
        ] {
            let line = shown.lines().find_map(|line| line.strip_prefix(name)).expect(name);
            let words: Vec<_> = line.split_whitespace().take(2).collect();
            let word = |bound: Option<u64>| bound.map_or("unlimited".to_owned(), |b| b.to_string());
            assert_eq!(words, [word(limit.now), word(limit.maximum)], "{name}");
        }
    }

    #[test]
    fn a_thread_that_keeps_time_has_no_slack() {
        let (thread, _) = spawn("test", Scheduler::Other, 0, timer_slack).unwrap();
        assert_eq!(thread.join().unwrap(), Span::from_nanos(1));
        let ordinary = std::thread::spawn(timer_slack).join().unwrap();
        assert!(ordinary >= Span::from_nanos(1), "{ordinary}");
    }

    #[test]
    fn missing_device_file_is_not_usable() {
        assert!(may_use(Path::new("/dev/null")));
        assert!(!may_use(Path::new("/dev/null/none")) && !may_use(Path::new("a\0b")));
    }

    #[test]
    fn timers_have_a_resolution() {
        let resolution = timer_resolution();
        assert!((1..=10_000_000).contains(&resolution.as_nanos()), "{resolution}");
    }
}
