//! Whether threads that keep time may run before all others, and memory may stay in memory.

use tautline_io::thread::limits::{Limit, ResourceLimits};
use tautline_io::thread::memory::{LockRefused, lock};
use tautline_io::thread::{Granted, Scheduler, spawn};
use tautline_proto::time::Span;

use super::root::Root;
use super::{Finding, Requirements, Verdict};

/// What `--scheduler` is by default.
const ASKED: Scheduler = Scheduler::Fifo(70);
/// Below this, waiting for the slices of a few other programs (3 ms each, `base_slice_ns` in
/// sched(7)'s default class) takes all of the latency.
const NEEDS_PRIORITY: Span = Span::from_millis(20);
/// Microseconds of each second that real-time threads may have; half is more than sound ever takes.
const ENOUGH_SHARE: i64 = 500_000;
/// What `pam_limits` reads at the next log-in, and the group that it is for.
const GRANT: &str = "printf '@audio - rtprio 99\\n@audio - memlock unlimited\\n' | sudo tee \
    /etc/security/limits.d/90-tautline.conf && sudo usermod -aG audio \"$(id -un)\"";

/// What is asked of the system.
struct Privileges {
    /// What became of [`ASKED`] on a thread.
    granted: Granted,
    limits: ResourceLimits,
    /// `kernel.sched_rt_runtime_us`, of a second; -1 for no bound.
    share: Option<i64>,
    locked: Result<(), LockRefused>,
    is_root: bool,
}

pub(crate) fn check(root: &Root, asked: &Requirements) -> Vec<Finding> {
    let granted = match spawn("taut-doctor", ASKED, 0, || ()) {
        Ok((thread, granted)) => {
            // It does nothing that could panic.
            let _ = thread.join();
            granted
        }
        Err(error) => Granted { asked: ASKED, errno: error.raw_os_error().unwrap_or(-1) },
    };
    let privileges = Privileges {
        granted,
        limits: ResourceLimits::read(),
        share: root.number("proc/sys/kernel/sched_rt_runtime_us"),
        locked: lock(),
        is_root: is_root(root),
    };
    let mut found = vec![priority(&privileges, asked), memory(&privileges)];
    found.extend(share(&privileges));
    found
}

/// Whether the effective user is root: the second figure of `Uid:` (proc_pid_status(5)).
pub(crate) fn is_root(root: &Root) -> bool {
    let status = root.read("proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    line.and_then(|line| line.split_whitespace().nth(1)) == Some("0")
}

fn priority(privileges: &Privileges, asked: &Requirements) -> Finding {
    const CHECK: &str = "real-time";
    let Privileges { granted, limits, is_root, .. } = privileges;
    if granted.is_granted() {
        return Finding::fine(CHECK, format!("threads run as {ASKED}"));
    }
    let verdict = if asked.latency < NEEDS_PRIORITY { Verdict::Spoils } else { Verdict::Warns };
    let may = |bound: Option<u64>| bound.is_none_or(|most| most >= 99);
    let limit = limits.priority.now.map_or("unlimited".to_owned(), |limit| limit.to_string());
    let what = format!("{ASKED} is refused, the rtprio limit is {limit}");
    let why =
        "the device's thread waits for other programs, several milliseconds on a busy machine";
    if may(limits.priority.most) && !may(limits.priority.now) {
        let why = format!("{why}; this shell may raise the limit for what it starts");
        return Finding::of(verdict, CHECK, what, why).mended_by("ulimit -r 99");
    }
    if *is_root {
        let why = format!("{why}; root without CAP_SYS_NICE is in a container: give it that");
        return Finding::of(verdict, CHECK, what, why);
    }
    let why = format!("{why}; the mend counts from the next log-in on");
    Finding::of(verdict, CHECK, what, why).mended_by(GRANT)
}

fn memory(privileges: &Privileges) -> Finding {
    const CHECK: &str = "locked-memory";
    let Privileges { locked, limits: ResourceLimits { locked_bytes, .. }, is_root, .. } =
        privileges;
    let limit = match locked_bytes {
        Limit { now: None, .. } => "unlimited".to_owned(),
        Limit { now: Some(bytes), .. } => format!("{} KiB", bytes >> 10),
    };
    match locked {
        Ok(()) => Finding::fine(CHECK, "memory can be locked"),
        Err(_) => {
            let what = format!("memory cannot be locked, the memlock limit is {limit}");
            let why = "a page that was put out to disk takes milliseconds to come back; the mend \
                       counts from the next log-in on";
            let finding = Finding::of(Verdict::Warns, CHECK, what, why);
            if *is_root { finding } else { finding.mended_by(GRANT) }
        }
    }
}

fn share(privileges: &Privileges) -> Option<Finding> {
    const CHECK: &str = "real-time-share";
    let share = privileges.share?;
    let what = match share {
        ..0 => "real-time threads may take all of a core".to_owned(),
        _ => format!("real-time threads may have {} ms of each second", share / 1000),
    };
    if !(0..ENOUGH_SHARE).contains(&share) {
        return Some(Finding::fine(CHECK, what));
    }
    let verdict = if share == 0 { Verdict::Spoils } else { Verdict::Warns };
    let why =
        "the kernel stops the device's thread for the rest of it (kernel.sched_rt_runtime_us)";
    let mend = "sudo sysctl -w kernel.sched_rt_runtime_us=950000";
    Some(Finding::of(verdict, CHECK, what, why).mended_by(mend))
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;
    use crate::root::fake::Machine;
    use crate::tests::asked;

    const NONE: Limit = Limit { now: Some(0), most: Some(0) };

    fn ordinary() -> Privileges {
        Privileges {
            granted: Granted { asked: ASKED, errno: 1 },
            limits: ResourceLimits {
                priority: NONE,
                locked_bytes: Limit { now: Some(8 << 20), ..NONE },
                files: NONE,
            },
            share: Some(950_000),
            locked: Err(LockRefused { errno: 12 }),
            is_root: false,
        }
    }

    #[test]
    fn a_refused_priority_spoils_what_has_no_time_to_wait() {
        let (tight, wide) = (asked(5), asked(100));
        let found = priority(&ordinary(), &tight);
        assert_eq!(found.verdict, Verdict::Spoils);
        snapshot!(found.what);
        assert!(found.mend().unwrap().contains("/etc/security/limits.d/90-tautline.conf"));
        assert_eq!(priority(&ordinary(), &wide).verdict, Verdict::Warns);
        let granted = Granted { asked: ASKED, errno: 0 };
        let found = priority(&Privileges { granted, ..ordinary() }, &tight);
        assert_eq!((found.verdict, found.command), (Verdict::Fine, None));
    }

    #[test]
    fn a_limit_that_the_shell_may_raise_is_mended_by_the_shell() {
        let priority_limit = Limit { now: Some(0), most: Some(99) };
        let limits = ResourceLimits { priority: priority_limit, ..ordinary().limits };
        let found = priority(&Privileges { limits, ..ordinary() }, &asked(5));
        assert_eq!(found.mend(), Some("ulimit -r 99"));
    }

    #[test]
    fn root_without_the_privilege_is_told_that_this_is_a_container() {
        let found = priority(&Privileges { is_root: true, ..ordinary() }, &asked(5));
        assert!(found.why.contains("container") && found.command.is_none(), "{found:?}");
    }

    #[test]
    fn memory_that_cannot_be_locked_warns_with_the_limit() {
        let found = memory(&ordinary());
        snapshot!(found.what);
        assert_eq!(found.verdict, Verdict::Warns);
        let found = memory(&Privileges { locked: Ok(()), ..ordinary() });
        assert_eq!(found.verdict, Verdict::Fine);
    }

    #[test]
    fn the_share_of_real_time_threads_is_judged_by_what_sound_needs() {
        for (given, verdict) in [
            (-1, Verdict::Fine),
            (950_000, Verdict::Fine),
            (100_000, Verdict::Warns),
            (0, Verdict::Spoils),
        ] {
            let found = share(&Privileges { share: Some(given), ..ordinary() }).unwrap();
            assert_eq!(found.verdict, verdict, "{given}");
        }
        assert_eq!(share(&Privileges { share: None, ..ordinary() }), None);
    }

    #[test]
    fn root_is_who_acts_as_root() {
        for (uids, root) in [("0 0 0 0", true), ("1000 0 0 0", true), ("0 1000 0 1000", false)] {
            let status = format!("Name:\ttaut\nUid:\t{}\nGid:\t0\n", uids.replace(' ', "\t"));
            let machine = Machine::of(&[("proc/self/status", &status)]);
            assert_eq!(is_root(&machine.root()), root, "{uids}");
        }
    }
}
