//! Confines a child before it loads a library, with Landlock (landlock(7)) and seccomp
//! (seccomp(2)), without privileges. Both apply to this thread and those it starts, so call
//! `Confinement::enter` while single-threaded.

#![expect(unsafe_code, reason = "a resource limit is set")]

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
mod calls;
mod files;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
mod calls {
    use super::Missing;

    pub(super) fn restrict() -> Result<(), Missing> {
        Err(Missing::Architecture)
    }

    pub(super) fn fix() -> Result<(), Missing> {
        Err(Missing::Architecture)
    }
}

use core::fmt;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confinement {
    pub files: Result<u32, Missing>,
    pub calls: Result<(), Missing>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    NotBuilt,
    NotEnabled,
    Architecture,
    Refused(String),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuilt => f.write_str("not in this kernel"),
            Self::NotEnabled => f.write_str("not enabled at boot"),
            Self::Architecture => write!(f, "unsupported on {}", std::env::consts::ARCH),
            Self::Refused(error) => write!(f, "refused: {error}"),
        }
    }
}

impl Confinement {
    /// Permanent: reads only `readable` and system libraries; no writes, sockets, processes or
    /// signals to others. Skips missing kernel features.
    pub(crate) fn enter(readable: &[PathBuf]) -> Self {
        // A core file would contain the stream's key and audio.
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the limit is read only during the call. Lowering it cannot fail.
        unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) };
        Self::of_thread(readable)
    }

    /// Fixes all threads' scheduling permanently, if the kernel supports it. Before a library is
    /// loaded.
    pub(crate) fn fix_scheduling() {
        let _ = calls::fix();
    }

    pub fn of_this_kernel() -> Self {
        let failed = |why: &str| Self {
            files: Err(Missing::Refused(why.to_owned())),
            calls: Err(Missing::Refused(why.to_owned())),
        };
        match std::thread::Builder::new().spawn(|| Self::of_thread(&[])) {
            Ok(thread) => thread.join().unwrap_or_else(|_| failed("the trial failed")),
            Err(error) => failed(&format!("cannot start a thread: {error}")),
        }
    }

    pub const fn is_whole(&self) -> bool {
        self.files.is_ok() && self.calls.is_ok()
    }

    fn of_thread(readable: &[PathBuf]) -> Self {
        // Landlock first: seccomp blocks its calls.
        let files = files::restrict(readable);
        Self { files, calls: calls::restrict() }
    }
}

impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.files, &self.calls) {
            (Ok(abi), Ok(())) => write!(f, "confined by Landlock (ABI {abi}) and seccomp"),
            (Ok(abi), Err(why)) => {
                write!(f, "confined by Landlock (ABI {abi}) alone; seccomp is {why}")
            }
            (Err(why), Ok(())) => write!(f, "confined by seccomp alone; Landlock is {why}"),
            (Err(files), Err(calls)) => {
                write!(f, "not confined; Landlock is {files}, and seccomp is {calls}")
            }
        }
    }
}

pub(crate) fn folders_of(library: &Path) -> impl Iterator<Item = PathBuf> {
    let target = library.canonicalize().ok();
    let files = [Some(library.to_owned()), target];
    files.into_iter().flatten().filter_map(|file| file.parent().map(Path::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_is_described() {
        let refused = Missing::Refused("Permission denied".into());
        for (files, calls, text) in [
            (Ok(7), Ok(()), "confined by Landlock (ABI 7) and seccomp"),
            (
                Ok(1),
                Err(refused),
                "confined by Landlock (ABI 1) alone; seccomp is refused: Permission denied",
            ),
            (
                Err(Missing::NotEnabled),
                Ok(()),
                "confined by seccomp alone; Landlock is not enabled at boot",
            ),
            (
                Err(Missing::NotBuilt),
                Err(Missing::NotBuilt),
                "not confined; Landlock is not in this kernel, and seccomp is not in this kernel",
            ),
        ] {
            let confinement = Confinement { files, calls };
            assert_eq!(confinement.to_string(), text);
            assert_eq!(confinement.is_whole(), !text.contains(';'));
        }
    }

    #[test]
    fn trying_it_confines_no_other_thread() {
        let _ = Confinement::of_this_kernel();
        assert!(std::net::UdpSocket::bind("127.0.0.1:0").is_ok());
        assert!(tempfile::tempfile().is_ok());
    }
}
