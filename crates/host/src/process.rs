//! A child with untrusted code, with pipes and timeouts.

#![expect(unsafe_code, reason = "a socket is handed over, and the end of a process is waited for")]

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use tautline_io::clock::now;
use tautline_io::control::wait;
use tautline_proto::time::{LocalTime, Span};

pub const SCAN: &str = "scan-child";
pub const WORK: &str = "work-child";

const LONGEST_LINE: usize = 16 << 20;
const LAST_WAIT: Span = Span::from_secs(5);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildProgram {
    path: PathBuf,
    readable: Vec<PathBuf>,
}

impl ChildProgram {
    pub fn this() -> Self {
        Self::at("/proc/self/exe")
    }

    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), readable: Vec::new() }
    }

    #[must_use]
    pub fn reading(mut self, readable: Vec<PathBuf>) -> Self {
        self.readable = readable;
        self
    }

    pub(crate) fn readable(&self) -> &[PathBuf] {
        &self.readable
    }
}

#[derive(Debug, Default)]
pub(crate) struct Starting<'a> {
    pub(crate) words: Vec<OsString>,
    pub(crate) kept: Vec<BorrowedFd<'a>>,
    pub(crate) received: bool,
}

#[derive(Debug)]
pub(crate) struct ChildProcess {
    child: Child,
    ended: OwnedFd,
    begun: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChildMessage {
    Line(String),
    Nothing,
    Late,
}

impl ChildProcess {
    pub(crate) fn start(program: &ChildProgram, starting: &Starting<'_>) -> io::Result<Self> {
        let mut command = Command::new(&program.path);
        command.args(&starting.words).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(if starting.received { Stdio::inherit() } else { Stdio::null() });
        command.process_group(0);
        let kept: Vec<_> = starting.kept.iter().map(|kept| kept.as_raw_fd()).collect();
        let parent = std::process::id();
        let before_exec = move || {
            end_with(parent)?;
            keep_only(&kept)
        };
        // SAFETY: `before_exec` only makes system calls, which is allowed between fork and exec.
        unsafe { command.pre_exec(before_exec) };
        let mut child = command.spawn()?;
        match pidfd(child.id()) {
            Ok(ended) => Ok(Self { child, ended, begun: Vec::new() }),
            Err(error) => {
                let _ = child.kill();
                child.wait()?;
                Err(error)
            }
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn notify(&mut self, line: &str) -> io::Result<()> {
        let Some(stdin) = &mut self.child.stdin else { return Ok(()) };
        stdin.write_all(format!("{line}\n").as_bytes())?;
        stdin.flush()
    }

    pub(crate) fn line(&mut self, until: LocalTime, also: Option<BorrowedFd<'_>>) -> ChildMessage {
        let Some(stdout) = &mut self.child.stdout else { return ChildMessage::Nothing };
        let mut room = [0; 4096];
        // Bytes already searched: searching a long line again per read would take seconds.
        let mut searched = 0;
        loop {
            let end = self.begun[searched..].iter().position(|byte| *byte == b'\n');
            if let Some(end) = end.map(|end| searched + end) {
                let rest = self.begun.split_off(end + 1);
                let line = core::mem::replace(&mut self.begun, rest);
                return ChildMessage::Line(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            searched = self.begun.len();
            if searched > LONGEST_LINE {
                return ChildMessage::Nothing;
            }
            let pipe = stdout.as_fd();
            if !wait(&[&pipe, &also.unwrap_or(pipe)], until) {
                return ChildMessage::Late;
            }
            if also.is_some_and(|also| wait(&[&also], LocalTime::ZERO)) {
                return ChildMessage::Late;
            }
            match stdout.read(&mut room) {
                Ok(0) | Err(_) => return ChildMessage::Nothing,
                Ok(read) => self.begun.extend_from_slice(&room[..read]),
            }
        }
    }

    pub(crate) fn leave_alone(&mut self) {
        self.child.stdin = None;
    }

    pub(crate) fn end(&mut self, until: LocalTime) -> Option<ExitStatus> {
        self.child.stdin = None;
        if !wait(&[&self.ended], until) {
            self.kill();
            if !wait(&[&self.ended], now() + LAST_WAIT) {
                return None;
            }
        }
        self.child.wait().ok()
    }

    pub(crate) fn has_ended(&self) -> bool {
        wait(&[&self.ended], LocalTime::ZERO)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        let only_look = libc::WSTOPPED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: all zeros are a valid siginfo_t.
        let mut found: libc::siginfo_t = unsafe { core::mem::zeroed() };
        // SAFETY: the kernel writes to `found`, which is valid.
        let answer =
            unsafe { libc::waitid(libc::P_PID, self.child.id(), &raw mut found, only_look) };
        // SAFETY: for a stopped child the kernel fills in its process id; otherwise it stays zero.
        answer == 0 && unsafe { found.si_pid() } != 0
    }

    pub(crate) fn processor_time(&self) -> Option<Span> {
        let (mut clock, mut time) = (0, libc::timespec { tv_sec: 0, tv_nsec: 0 });
        let process = self.child.id() as libc::pid_t;
        // SAFETY: the kernel writes to `clock`, which is valid.
        let found = unsafe { libc::clock_getcpuclockid(process, &raw mut clock) };
        // SAFETY: the kernel writes to `time`, which is valid.
        if found != 0 || unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
            return None;
        }
        Some(Span::from_secs(time.tv_sec) + Span::from_nanos(time.tv_nsec))
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.end(LocalTime::ZERO);
    }
}

impl AsFd for ChildProcess {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }
}

/// Makes the kernel kill this process with its starting thread; an error if `parent` has ended. A
/// plugin could hide that.
fn end_with(parent: u32) -> io::Result<()> {
    kill_with_parent()?;
    // SAFETY: the call takes no pointers.
    if unsafe { libc::getppid() } == parent as libc::pid_t {
        return Ok(());
    }
    Err(io::Error::from_raw_os_error(libc::ESRCH))
}

/// A program with file capabilities resets this, so a child sets it again.
pub(crate) fn kill_with_parent() -> io::Result<()> {
    // SAFETY: the call takes no pointers.
    let answer = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// exec closes all descriptors but the standard descriptors and `kept`.
fn keep_only(kept: &[RawFd]) -> io::Result<()> {
    // SAFETY: the call takes no pointers. Kernels before 5.11 lack it and Landlock: plugins can
    // open files themselves there.
    unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    for fd in kept {
        // SAFETY: the call takes no pointers.
        if unsafe { libc::fcntl(*fd, libc::F_SETFD, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

fn pidfd(process: u32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, process as libc::pid_t, 0) };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the descriptor was created above and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub(crate) fn words_of(status: Option<ExitStatus>) -> String {
    match status {
        None => "it cannot be ended".to_owned(),
        Some(status) => match (status.signal(), status.code()) {
            (Some(signal), _) => format!("it crashed ({})", name_of(signal)),
            (None, Some(code)) => format!("it exited with status {code}"),
            (None, None) => "it exited".to_owned(),
        },
    }
}

fn name_of(signal: i32) -> String {
    match signal {
        libc::SIGSEGV => "SIGSEGV: invalid memory access".to_owned(),
        libc::SIGBUS => "SIGBUS: unavailable memory".to_owned(),
        libc::SIGABRT => "SIGABRT: it aborted".to_owned(),
        libc::SIGFPE => "SIGFPE: a division by zero".to_owned(),
        libc::SIGILL => "SIGILL: unsupported instruction".to_owned(),
        libc::SIGKILL => {
            "SIGKILL: killed by the kernel for lack of memory, or by a user; see `dmesg`".to_owned()
        }
        libc::SIGXCPU => "SIGXCPU: CPU time limit exceeded".to_owned(),
        other => format!("signal {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line_of(script: &str, kept: Vec<BorrowedFd<'_>>) -> ChildMessage {
        let words = ["-c", script].map(OsString::from).to_vec();
        let starting = Starting { words, kept, received: false };
        let mut child = ChildProcess::start(&ChildProgram::at("/bin/sh"), &starting).unwrap();
        child.line(now() + Span::from_secs(10), None)
    }

    #[test]
    fn child_inherits_no_descriptor_but_those_it_is_given() {
        let file = tempfile::tempfile().unwrap();
        let copy = |minimum: libc::c_int| {
            // SAFETY: the call takes no pointers.
            let copy = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD, minimum) };
            assert!(copy >= minimum, "{}", io::Error::last_os_error());
            // SAFETY: the descriptor is new, so it has no other owner. exec does not close it.
            unsafe { OwnedFd::from_raw_fd(copy) }
        };
        let (left_open, kept) = (copy(700), copy(800));
        let is_open = |fd: &OwnedFd, kept| {
            let script = format!("test -e /proc/self/fd/{}; echo $?", fd.as_raw_fd());
            line_of(&script, kept)
        };
        let answer = |status: &str| ChildMessage::Line(status.to_owned());
        assert_eq!(is_open(&left_open, vec![kept.as_fd()]), answer("1"));
        assert_eq!(is_open(&kept, vec![kept.as_fd()]), answer("0"));
    }

    #[test]
    fn lines_are_split_wherever_the_child_paused() {
        let script = "printf 'one\\ntw'; sleep 0.05; printf 'o\\n'; head -c 10000 /dev/zero | tr '\\0' x; echo";
        let words = ["-c", script].map(OsString::from).to_vec();
        let starting = Starting { words, ..Starting::default() };
        let mut child = ChildProcess::start(&ChildProgram::at("/bin/sh"), &starting).unwrap();
        let mut next = || child.line(now() + Span::from_secs(10), None);
        let line = |text: &str| ChildMessage::Line(text.to_owned());
        assert_eq!([next(), next()], [line("one"), line("two")]);
        assert_eq!([next(), next()], [line(&"x".repeat(10_000)), ChildMessage::Nothing]);
    }

    #[test]
    fn child_is_killed_when_the_thread_that_started_it_ends() {
        let start = || {
            let words = ["-c", "echo; exec sleep 60"].map(OsString::from).to_vec();
            let starting = Starting { words, ..Starting::default() };
            let mut child = ChildProcess::start(&ChildProgram::at("/bin/sh"), &starting).unwrap();
            assert_eq!(
                child.line(now() + Span::from_secs(10), None),
                ChildMessage::Line("".into())
            );
            child
        };
        let mut child = std::thread::spawn(start).join().unwrap();
        assert!(wait(&[&child.ended], now() + Span::from_secs(10)), "it goes on");
        let status = child.end(LocalTime::NEVER);
        assert_eq!(status.and_then(|status| status.signal()), Some(libc::SIGKILL));
    }

    #[test]
    fn processor_time_is_that_of_the_child() {
        let words = ["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo; read line"];
        let words = words.map(OsString::from).to_vec();
        let starting = Starting { words, ..Starting::default() };
        let begun = now();
        let mut child = ChildProcess::start(&ChildProgram::at("/bin/sh"), &starting).unwrap();
        assert_eq!(child.line(now() + Span::from_secs(30), None), ChildMessage::Line("".into()));
        let (first, elapsed) = (child.processor_time().unwrap(), now() - begun);
        assert!(
            Span::ZERO < first && first <= elapsed + Span::from_millis(50),
            "{first}, {elapsed}"
        );
        assert!(child.processor_time().unwrap() - first < Span::from_millis(5));
    }
}
