use tautline_io::thread::limits::{Limit, ResourceLimits};
use tautline_io::thread::{Granted, Scheduler, spawn};
use tautline_proto::time::Span;

use crate::Verdict::{Failure, Unknown, Warning};
use crate::{Finding, Machine};

const ASKED: Scheduler = Scheduler::Fifo(70);
/// Minimum latency without real-time priority: a few time slices of 3 ms (`base_slice_ns`, default
/// class in sched(7)).
const NEEDS_PRIORITY: Span = Span::from_millis(20);
/// Sufficient real-time share in microseconds per second.
const ENOUGH_SHARE: i64 = 500_000;
/// Command that grants the limits, from the next log-in on.
pub(crate) const GRANT: &str = "printf '@audio - rtprio 99\\n@audio - memlock unlimited\\n' | sudo tee \
    /etc/security/limits.d/90-tautline.conf && sudo usermod -aG audio \"$(id -un)\"";

pub(crate) fn granted() -> Granted {
    match spawn("taut-doctor", ASKED, 0, || ()) {
        Ok((thread, granted)) => {
            let _ = thread.join();
            granted
        }
        Err(error) => Granted { requested: ASKED, errno: error.raw_os_error().unwrap_or(-1) },
    }
}

pub(crate) fn priority(
    limits: &ResourceLimits,
    granted: Granted,
    is_root: bool,
    latency: Span,
) -> Finding {
    if granted.is_granted() {
        return Finding::passed(format!("threads run as {ASKED}"));
    }
    let verdict = if latency < NEEDS_PRIORITY { Failure } else { Warning };
    let may = |bound: Option<u64>| bound.is_none_or(|maximum| maximum >= 99);
    let limit = limits.priority.now.map_or("unlimited".to_owned(), |limit| limit.to_string());
    let what = format!("{ASKED} is refused, the rtprio limit is {limit}");
    let (more, fix) = if may(limits.priority.maximum) && !may(limits.priority.now) {
        ("this shell may raise the limit for its programs", Some("ulimit -r 99"))
    } else if is_root {
        ("this container lacks CAP_SYS_NICE: grant it that capability", None)
    } else {
        ("the fix takes effect at the next login", Some(GRANT))
    };
    let why =
        "the device's thread waits for other programs, several milliseconds on a busy machine";
    let finding = Finding::new(verdict, what, format!("{why}; {more}"));
    Finding { fix: fix.map(str::to_owned), ..finding }
}

/// Replaces a finding about root's rights, which `sudo` gave, as `user` may lack them.
pub(crate) fn of_user(user: &str) -> Finding {
    let what = format!("unknown for {user}: sudo runs this as root");
    Finding::new(Unknown, what, "sound usually runs without sudo").details("taut doctor")
}

pub(crate) fn memory(limits: &ResourceLimits, is_locked: bool, is_root: bool) -> Finding {
    if is_locked {
        return Finding::passed("memory can be locked");
    }
    let limit = match limits.locked_bytes {
        Limit { now: None, .. } => "unlimited".to_owned(),
        Limit { now: Some(bytes), .. } => format!("{} KiB", bytes >> 10),
    };
    let what = format!("memory cannot be locked, the memlock limit is {limit}");
    let why = "a page swapped to disk takes milliseconds to load; the fix takes effect at the \
               next login";
    let finding = Finding::new(Warning, what, why);
    if is_root { finding } else { finding.fix(GRANT) }
}

pub(crate) fn share(machine: &Machine) -> Option<Finding> {
    // In microseconds per second; -1 for unlimited.
    let share = machine.number("proc/sys/kernel/sched_rt_runtime_us")?;
    let what = match share {
        ..0 => "real-time threads may take all of a core".to_owned(),
        _ => format!("real-time threads may have {} ms of each second", share / 1000),
    };
    if !(0..ENOUGH_SHARE).contains(&share) {
        return Some(Finding::passed(what));
    }
    let verdict = if share == 0 { Failure } else { Warning };
    let why = "the kernel stops the device's thread for the rest of each second \
         (kernel.sched_rt_runtime_us)";
    let fix = "sudo sysctl -w kernel.sched_rt_runtime_us=950000";
    Some(Finding::new(verdict, what, why).fix(fix))
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;
    use crate::Verdict::Passed;

    const NONE: Limit = Limit { now: Some(0), maximum: Some(0) };
    const LIMITS: ResourceLimits = ResourceLimits {
        priority: NONE,
        locked_bytes: Limit { now: Some(8 << 20), ..NONE },
        files: NONE,
    };
    const REFUSED: Granted = Granted { requested: ASKED, errno: 1 };
    const TIGHT: Span = Span::from_millis(5);

    #[test]
    fn refused_priority_is_a_failure_at_short_latency() {
        let found = priority(&LIMITS, REFUSED, false, TIGHT);
        assert_eq!(found.verdict, Failure);
        snapshot!(found.message);
        assert!(found.fix.unwrap().contains("/etc/security/limits.d/90-tautline.conf"));
        let wide = priority(&LIMITS, REFUSED, false, Span::from_millis(100));
        assert_eq!(wide.verdict, Warning);
        let found = priority(&LIMITS, Granted { errno: 0, ..REFUSED }, false, TIGHT);
        assert_eq!((found.verdict, found.command()), (Passed, None));
    }

    #[test]
    fn limit_below_the_hard_limit_has_a_ulimit_fix() {
        let limits = ResourceLimits { priority: Limit { maximum: Some(99), ..NONE }, ..LIMITS };
        let found = priority(&limits, REFUSED, false, TIGHT);
        assert_eq!(found.fix.as_deref(), Some("ulimit -r 99"));
    }

    #[test]
    fn root_without_the_privilege_is_in_a_container() {
        let found = priority(&LIMITS, REFUSED, true, TIGHT);
        assert_eq!(found.command(), None);
        assert!(found.reason.unwrap().contains("container"));
    }

    #[test]
    fn memory_that_cannot_be_locked_warns_with_the_limit() {
        let found = memory(&LIMITS, false, false);
        snapshot!(found.message);
        assert_eq!(found.verdict, Warning);
        assert_eq!(memory(&LIMITS, true, false).verdict, Passed);
    }

    #[test]
    fn real_time_share_is_judged_by_the_need_of_sound() {
        for (given, verdict) in
            [("-1", Passed), ("950000", Passed), ("100000", Warning), ("0", Failure)]
        {
            let machine = Machine::of(&[("proc/sys/kernel/sched_rt_runtime_us", given)]);
            assert_eq!(share(&machine).unwrap().verdict, verdict, "{given}");
        }
        assert_eq!(share(&Machine::empty()), None);
    }
}
