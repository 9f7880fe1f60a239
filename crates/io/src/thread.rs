//! Real-time threads.

pub mod affinity;
pub mod float_mode;
pub mod halt;
pub mod limits;
pub mod memory;
pub mod realtime;
pub mod stall;

use core::fmt;
use core::mem::MaybeUninit;
use core::str::FromStr;
use std::io;
use std::sync::mpsc;
use std::thread::JoinHandle;

use tautline_proto::text::{SpanError, parse_span};
use tautline_proto::time::Span;

/// Scheduling policy (`sched(7)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scheduler {
    /// The default policy.
    #[default]
    Other,
    /// `SCHED_FIFO`, 1 to 99: runs until it waits.
    Fifo(u8),
    /// `SCHED_RR`, 1 to 99: time slices with equal priority.
    RoundRobin(u8),
    /// `SCHED_DEADLINE`: `runtime` within `deadline` of each `period`'s start.
    Deadline {
        /// Processor time per period.
        runtime: Span,
        /// Deadline from the start of the period.
        deadline: Span,
        /// Time between period starts.
        period: Span,
    },
}

/// Why a scheduler is invalid, with the input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchedulerError {
    /// Unknown scheduling class.
    #[error(
        "invalid scheduler '{0}': must be other, fifo:70, rr:70 or deadline:RUNTIME/DEADLINE/PERIOD"
    )]
    Class(String),
    /// A priority outside 1 to 99.
    #[error("invalid priority '{0}': must be 1 to 99")]
    Priority(String),
    /// Not three durations in ascending order.
    #[error(
        "invalid deadline '{0}': must be RUNTIME/DEADLINE/PERIOD in rising order, as in 200us/1ms/1ms"
    )]
    Deadline(String),
    /// An invalid duration.
    #[error(transparent)]
    Span(#[from] SpanError),
}

impl FromStr for Scheduler {
    type Err = SchedulerError;

    fn from_str(text: &str) -> Result<Self, SchedulerError> {
        match text.split_once(':') {
            None if text == "other" => Ok(Self::Other),
            Some(("fifo", priority)) => parse_priority(priority).map(Self::Fifo),
            Some(("rr", priority)) => parse_priority(priority).map(Self::RoundRobin),
            Some(("deadline", spans)) => parse_deadline(spans),
            _ => Err(SchedulerError::Class(text.into())),
        }
    }
}

fn parse_priority(text: &str) -> Result<u8, SchedulerError> {
    let priority = text.parse().ok().filter(|priority| (1..=99).contains(priority));
    priority.ok_or_else(|| SchedulerError::Priority(text.into()))
}

fn parse_deadline(text: &str) -> Result<Scheduler, SchedulerError> {
    let unusable = || SchedulerError::Deadline(text.into());
    let mut parts = text.split('/');
    let mut next = || parts.next().ok_or_else(unusable).and_then(|part| Ok(parse_span(part)?));
    let (runtime, deadline, period) = (next()?, next()?, next()?);
    // The kernel's minimum is 1024 ns (sched(7)).
    let ordered = Span::from_nanos(1024) <= runtime && runtime <= deadline && deadline <= period;
    if !ordered || parts.next().is_some() {
        return Err(unusable());
    }
    Ok(Scheduler::Deadline { runtime, deadline, period })
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other => f.write_str("other"),
            Self::Fifo(priority) => write!(f, "fifo:{priority}"),
            Self::RoundRobin(priority) => write!(f, "rr:{priority}"),
            Self::Deadline { runtime, deadline, period } => {
                write!(f, "deadline:{runtime}/{deadline}/{period}")
            }
        }
    }
}

impl Scheduler {
    /// One real-time priority lower, for a serving thread; `fifo:70` for a deadline.
    pub const fn one_below(self) -> Self {
        match self {
            Self::Other => Self::Other,
            Self::Fifo(priority) => Self::Fifo(if priority > 1 { priority - 1 } else { 1 }),
            Self::RoundRobin(priority) => {
                Self::RoundRobin(if priority > 1 { priority - 1 } else { 1 })
            }
            Self::Deadline { .. } => Self::Fifo(70),
        }
    }

    /// The current thread's policy.
    pub fn current() -> Self {
        // SAFETY: all zeros are a valid sched_attr.
        let mut found: libc::sched_attr = unsafe { core::mem::zeroed() };
        let (this_thread, no_flags, size) = (0, 0, size_of::<libc::sched_attr>());
        // SAFETY: `found` has room for a sched_attr of the given size. The C library has no
        // wrapper.
        let answer = unsafe {
            libc::syscall(libc::SYS_sched_getattr, this_thread, &raw mut found, size, no_flags)
        };
        let priority = u8::try_from(found.sched_priority).unwrap_or(99);
        let span = |nanos: u64| Span::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX));
        match found.sched_policy as i32 {
            _ if answer != 0 => Self::Other,
            libc::SCHED_FIFO => Self::Fifo(priority),
            libc::SCHED_RR => Self::RoundRobin(priority),
            libc::SCHED_DEADLINE => Self::Deadline {
                runtime: span(found.sched_runtime),
                deadline: span(found.sched_deadline),
                period: span(found.sched_period),
            },
            _ => Self::Other,
        }
    }

    /// Requests this policy. If refused, the old one stays.
    pub fn apply(self) -> Granted {
        let errno =
            self.request().err().map_or(0, |error| error.raw_os_error().unwrap_or(libc::EPERM));
        Granted { requested: self, errno }
    }

    fn request(self) -> io::Result<()> {
        let (policy, priority) = match self {
            Self::Other => (libc::SCHED_OTHER, 0),
            Self::Fifo(priority) => (libc::SCHED_FIFO, priority),
            Self::RoundRobin(priority) => (libc::SCHED_RR, priority),
            Self::Deadline { .. } => (libc::SCHED_DEADLINE, 0),
        };
        // SAFETY: all zeros are a valid sched_attr.
        let mut wanted: libc::sched_attr = unsafe { core::mem::zeroed() };
        wanted.size = size_of::<libc::sched_attr>() as u32;
        wanted.sched_policy = policy as u32;
        wanted.sched_priority = u32::from(priority);
        if let Self::Deadline { runtime, deadline, period } = self {
            let nanos = |span: Span| span.as_nanos().max(0) as u64;
            wanted.sched_runtime = nanos(runtime);
            wanted.sched_deadline = nanos(deadline);
            wanted.sched_period = nanos(period);
        }
        let (this_thread, no_flags) = (0, 0);
        // SAFETY: a sched_attr of the size that it contains; the C library has no wrapper.
        let answer = unsafe {
            libc::syscall(libc::SYS_sched_setattr, this_thread, &raw const wanted, no_flags)
        };
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Result of requesting a scheduler; `Display` is for the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the report says once how threads run"]
pub struct Granted {
    /// Requested scheduler.
    pub requested: Scheduler,
    /// Error number; 0 if granted.
    pub errno: i32,
}

impl Granted {
    /// Returns whether the request was granted.
    pub const fn is_granted(&self) -> bool {
        self.errno == 0
    }

    pub(crate) const fn hint(&self) -> &'static str {
        match (self.errno, self.requested) {
            (libc::EBUSY, _) => "other deadlines leave too little time: request less runtime",
            (_, Scheduler::Deadline { .. }) => "run it as root, or with CAP_SYS_NICE on all cores",
            _ => {
                "give the user an rtprio limit (/etc/security/limits.d) or the program CAP_SYS_NICE"
            }
        }
    }

    /// Returns the scheduler in effect.
    pub const fn effective(&self) -> Scheduler {
        if self.is_granted() { self.requested } else { Scheduler::Other }
    }
}

impl fmt::Display for Granted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_granted() {
            return write!(f, "{}", self.requested);
        }
        let (why, hint) = (sentence(self.errno), self.hint());
        write!(f, "other: the system refused {}: {why}; {hint}", self.requested)
    }
}

pub(crate) fn sentence(errno: i32) -> String {
    let text = io::Error::from_raw_os_error(errno).to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

/// Minimum stack in bytes. The standard library needs some, too.
const MIN_STACK: usize = 64 << 10;
/// Bytes at the stack's far end not prefaulted: the frames in use.
const STACK_MARGIN: usize = 24 << 10;
const PAGE: usize = 4096;

/// Starts a thread with a prefaulted stack (64 KiB or more) and 1 ns timer slack, under `scheduler`
/// if granted. Returns once that is known.
pub fn spawn<T: Send + 'static>(
    name: &str,
    scheduler: Scheduler,
    stack_bytes: usize,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<(JoinHandle<T>, Granted)> {
    let stack_bytes = stack_bytes.max(MIN_STACK);
    let (sender, receiver) = mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name(name.into()).stack_size(stack_bytes);
    let handle = thread.spawn(move || {
        set_timer_slack();
        touch_stack((stack_bytes - STACK_MARGIN) / PAGE);
        let _ = sender.send(scheduler.apply());
        drop(sender);
        run()
    })?;
    let granted = receiver.recv().unwrap_or(Granted { requested: scheduler, errno: libc::ESRCH });
    Ok((handle, granted))
}

/// Runs `start` with signals blocked. Threads inherit the mask, so foreign signal handlers never
/// run there.
pub fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: both sets are valid and writable; sigfillset fills the set to block.
    unsafe {
        let mut all = MaybeUninit::<libc::sigset_t>::zeroed();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let started = start();
    // SAFETY: the previous set, written by the call above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), core::ptr::null_mut()) };
    started
}

/// From 50 µs to 1 ns.
fn set_timer_slack() {
    let nanos: libc::c_ulong = 1;
    // SAFETY: the call takes no pointers. It cannot fail above 0 (PR_SET_TIMERSLACK(2const)).
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanos) };
}

#[inline(never)]
fn touch_stack(pages: usize) {
    let mut page = [0u8; PAGE - 256];
    core::hint::black_box(&mut page);
    if pages > 1 {
        touch_stack(pages - 1);
    }
    // Prevents a tail call: this frame must stay.
    core::hint::black_box(&mut page);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautline_trial::{Lack, skipped};

    #[test]
    fn scheduler_display_parses_back() {
        for text in ["other", "fifo:70", "rr:1", "deadline:200us/1ms/2.5ms"] {
            assert_eq!(text.parse::<Scheduler>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn invalid_scheduler_error_names_valid_ones() {
        for (text, word) in [
            ("fifo", "fifo:70"),
            ("fifo:0", "1 to 99"),
            ("rr:100", "1 to 99"),
            ("realtime:4", "deadline:"),
            ("deadline:1ms/1ms", "RUNTIME"),
            ("deadline:2ms/1ms/1ms", "rising"),
            ("deadline:1/1ms/1ms", "no unit"),
            ("deadline:1ms/1ms/1ms/1ms", "rising"),
        ] {
            let error = text.parse::<Scheduler>().unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    fn policy_of_this_thread() -> i32 {
        // SAFETY: the call takes no pointers.
        unsafe { libc::sched_getscheduler(0) }
    }

    #[test]
    fn a_thread_runs_as_granted_and_with_fine_timers() {
        let deadline = Scheduler::Deadline {
            runtime: Span::from_micros(100),
            deadline: Span::from_millis(10),
            period: Span::from_millis(10),
        };
        for (requested, policy) in [
            (Scheduler::Fifo(3), libc::SCHED_FIFO),
            (Scheduler::RoundRobin(3), libc::SCHED_RR),
            (deadline, libc::SCHED_DEADLINE),
            (Scheduler::Other, libc::SCHED_OTHER),
        ] {
            let (handle, granted) = spawn("test", requested, 0, policy_of_this_thread).unwrap();
            if granted.is_granted() {
                assert_eq!(handle.join().unwrap(), policy, "{requested}");
            } else {
                skipped(Lack::Privilege, &granted.to_string());
                assert_eq!(handle.join().unwrap(), libc::SCHED_OTHER);
            }
        }
        // SAFETY: the call takes no pointers.
        let slack = || unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) };
        let (handle, _) = spawn("test", Scheduler::Other, 0, slack).unwrap();
        assert_eq!(handle.join().unwrap(), 1);
    }

    #[test]
    fn thread_without_signals_receives_none() {
        let blocked = || {
            let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
            // SAFETY: nothing is set; the current set is written to `set`.
            unsafe {
                libc::pthread_sigmask(libc::SIG_BLOCK, core::ptr::null(), set.as_mut_ptr());
                libc::sigismember(set.as_ptr(), libc::SIGUSR1) == 1
            }
        };
        let there = without_signals(|| std::thread::spawn(blocked));
        assert!(there.join().unwrap() && !blocked());
    }

    #[test]
    fn refusal_is_reported_with_a_hint() {
        let refused = Granted { requested: Scheduler::Fifo(70), errno: libc::EPERM };
        assert_eq!(
            refused.to_string(),
            "other: the system refused fifo:70: operation not permitted; give the user an \
             rtprio limit (/etc/security/limits.d) or the program CAP_SYS_NICE"
        );
        assert_eq!(refused.effective(), Scheduler::Other);
    }

    #[test]
    fn the_whole_of_a_large_stack_is_touched_and_survives() {
        let (handle, _) = spawn("test", Scheduler::Other, 1 << 20, || 7).unwrap();
        assert_eq!(handle.join().unwrap(), 7);
    }
}
