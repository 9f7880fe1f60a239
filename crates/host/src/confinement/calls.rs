//! Allowed system calls. One filter rejects (`EPERM`) calls with effects outside the process. The
//! other answers unlisted calls with `ENOSYS`, so that the C library falls back. The kernel caches
//! calls that pass both.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter, apply_filter_all_threads,
};

use super::Missing;

/// Refused calls. They reach other processes, the network or the file system's structure.
const REFUSED: &[c_long] = &[
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_setsockopt,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_truncate,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_chdir,
    libc::SYS_fchdir,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_OLD: &[c_long] = &[
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_creat,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_mknod,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_OLD: &[c_long] = &[];

/// Calls that are refused once the plugin's thread has its priority. Further filters could fake
/// results.
const FIXED: &[c_long] = &[
    libc::SYS_seccomp,
    libc::SYS_setpriority,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setaffinity,
];

const CONDITIONAL: &[c_long] = &[
    libc::SYS_copy_file_range,
    libc::SYS_dup,
    libc::SYS_fallocate,
    libc::SYS_ftruncate,
    libc::SYS_lseek,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_clone,
    libc::SYS_tgkill,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_prctl,
    libc::SYS_prlimit64,
    DUP2,
    libc::SYS_dup3,
];

#[cfg(target_arch = "x86_64")]
const DUP2: c_long = libc::SYS_dup2;
#[cfg(not(target_arch = "x86_64"))]
const DUP2: c_long = libc::SYS_dup3;

/// Permitted calls. They lack `clone3`, whose flags are in memory: the C library falls back to
/// `clone`.
const PASSED: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_memfd_create,
    libc::SYS_mincore,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_mlockall,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_msync,
    libc::SYS_munlock,
    libc::SYS_munlockall,
    libc::SYS_munmap,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_eventfd2,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_pipe2,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_read,
    libc::SYS_readahead,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_sendfile,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getcpu,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getpriority,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_getsid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getattr,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_rr_get_interval,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_sysinfo,
    libc::SYS_times,
    libc::SYS_umask,
    libc::SYS_uname,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_timer_create,
    libc::SYS_timer_delete,
    libc::SYS_timer_getoverrun,
    libc::SYS_timer_gettime,
    libc::SYS_timer_settime,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime,
    libc::SYS_timerfd_settime,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
];

#[cfg(target_arch = "x86_64")]
const PASSED_OLD: &[c_long] = &[
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_getpgrp,
    libc::SYS_getrlimit,
    libc::SYS_lstat,
    libc::SYS_open,
    libc::SYS_pause,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_select,
    libc::SYS_setrlimit,
    libc::SYS_stat,
    libc::SYS_time,
];
#[cfg(target_arch = "aarch64")]
const PASSED_OLD: &[c_long] = &[libc::SYS_getrlimit, libc::SYS_setrlimit];
#[cfg(target_arch = "riscv64")]
const PASSED_OLD: &[c_long] = &[libc::SYS_riscv_flush_icache];

/// Permitted, harmless commands. `TIOCSTI`, for example, types into a terminal. From
/// asm-generic/ioctls.h, because libc's types differ.
const IOCTLS: [u64; 6] = [
    0x5401, // TCGETS, by which the C library tells a terminal
    0x5413, // TIOCGWINSZ
    0x541b, // FIONREAD
    FIONBIO, 0x5450, // FIONCLEX
    0x5451, // FIOCLEX
];

const FIONBIO: u64 = 0x5421;

const STANDARD: [u64; 2] = [1, 2];

/// Commands that copy a descriptor, or change its shared mode.
const SHARED: [libc::c_int; 3] = [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC, libc::F_SETFL];

const PRCTLS: [libc::c_int; 7] = [
    libc::PR_SET_NO_NEW_PRIVS,
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_SET_TIMERSLACK,
    libc::PR_GET_TIMERSLACK,
    libc::PR_GET_DUMPABLE,
    libc::PR_SET_VMA,
];

/// Commands that make the kernel signal any process.
const SIGNALLING: [libc::c_int; 4] = [libc::F_SETOWN, F_SETSIG, F_SETOWN_EX, libc::F_NOTIFY];
const F_SETSIG: libc::c_int = 10;
const F_SETOWN_EX: libc::c_int = 15;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Restricts this thread and those it starts, except for scheduling: see [`fix`].
pub(super) fn restrict() -> Result<(), Missing> {
    let (refuse, unknown) = (libc::EPERM as u32, libc::ENOSYS as u32);
    let known = program(known(), SeccompAction::Errno(unknown), SeccompAction::Allow)?;
    let denied = denied(std::process::id()).map_err(|error| refused(&error))?;
    let denied = program(denied, SeccompAction::Allow, SeccompAction::Errno(refuse))?;
    for filter in [known, denied] {
        apply_filter(&filter).map_err(missing)?;
    }
    Ok(())
}

/// Fixes the scheduling of all threads. Rejects further filters.
pub(super) fn fix() -> Result<(), Missing> {
    let rules = FIXED.iter().map(|call| (*call, Vec::new())).collect();
    let fixed = program(rules, SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32))?;
    apply_filter_all_threads(&fixed).map_err(missing)
}

fn program(
    rules: Rules,
    otherwise: SeccompAction,
    matched: SeccompAction,
) -> Result<BpfProgram, Missing> {
    let arch = std::env::consts::ARCH.try_into().map_err(|_| Missing::Architecture)?;
    let filter = SeccompFilter::new(rules, otherwise, matched, arch);
    filter.and_then(BpfProgram::try_from).map_err(|error| refused(&error))
}

fn refused(error: &dyn core::fmt::Display) -> Missing {
    Missing::Refused(error.to_string())
}

fn missing(error: seccompiler::Error) -> Missing {
    match error {
        seccompiler::Error::Seccomp(error) | seccompiler::Error::Prctl(error)
            if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL)) =>
        {
            Missing::NotBuilt
        }
        error => refused(&error),
    }
}

fn known() -> Rules {
    let all = [PASSED, PASSED_OLD, CONDITIONAL, FIXED, REFUSED, REFUSED_OLD];
    all.into_iter().flatten().map(|call| (*call, Vec::new())).collect()
}

fn denied(own: u32) -> Result<Rules, seccompiler::BackendError> {
    let always = REFUSED.iter().chain(REFUSED_OLD);
    let mut rules: Rules = always.map(|call| (*call, Vec::new())).collect();
    for call in CONDITIONAL {
        let conditions = conditions(*call, own).into_iter().map(|all| {
            let all = all.into_iter().map(|(argument, operator, value)| {
                SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
            });
            SeccompRule::new(all.collect::<Result<_, _>>()?)
        });
        rules.insert(*call, conditions.collect::<Result<_, _>>()?);
    }
    Ok(rules)
}

type Condition = (u8, SeccompCmpOp, u64);

fn conditions(call: c_long, own: u32) -> Vec<Vec<Condition>> {
    use SeccompCmpOp::{Eq, Ge, Le, MaskedEq, Ne};
    let signal = |number: libc::c_int| number as u64;
    match call {
        // Standard error and output may be the worker's log: append only. A descriptor's copy would
        // bypass this.
        libc::SYS_copy_file_range => STANDARD.map(|fd| vec![(2, Eq, fd)]).to_vec(),
        libc::SYS_dup
        | DUP2
        | libc::SYS_dup3
        | libc::SYS_fallocate
        | libc::SYS_ftruncate
        | libc::SYS_lseek
        | libc::SYS_pwrite64
        | libc::SYS_pwritev
        | libc::SYS_pwritev2 => STANDARD.map(|fd| vec![(0, Eq, fd)]).to_vec(),
        // A separate process would outlive the stream.
        libc::SYS_clone => vec![vec![(0, MaskedEq(libc::CLONE_THREAD as u64), 0)]],
        // Its own threads, as abort() does, without stop signals.
        libc::SYS_tgkill => vec![
            vec![(0, Ne, u64::from(own))],
            vec![(2, Ge, signal(libc::SIGSTOP)), (2, Le, signal(libc::SIGTTOU))],
        ],
        libc::SYS_fcntl => {
            let signalling = SIGNALLING.map(|command| vec![(1, Eq, command as u64)]);
            let shared = STANDARD
                .into_iter()
                .flat_map(|fd| SHARED.map(|command| vec![(0, Eq, fd), (1, Eq, command as u64)]));
            signalling.into_iter().chain(shared).collect()
        }
        libc::SYS_ioctl => {
            let queries = vec![IOCTLS.map(|command| (1, Ne, command)).to_vec()];
            let shared = STANDARD.map(|fd| vec![(0, Eq, fd), (1, Eq, FIONBIO)]);
            queries.into_iter().chain(shared).collect()
        }
        libc::SYS_prctl => vec![PRCTLS.map(|option| (0, Ne, option as u64)).to_vec()],
        _ => vec![vec![(0, Ne, 0)]],
    }
}
