//! Closes sockets in forks, which lack the threads but would keep ports in use and groups joined.

use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::os::fd::RawFd;

/// Maximum sockets closed in a fork. The fork keeps any further sockets open.
const MAX: usize = 1024;
const NONE: RawFd = -1;

static OPEN: [AtomicI32; MAX] = [const { AtomicI32::new(NONE) }; MAX];

/// Makes future forks close their copies. The calling library must never be unloaded.
pub fn leave_sockets() -> std::io::Result<()> {
    static LEFT: AtomicBool = AtomicBool::new(false);
    // SAFETY: the handler only makes async-signal-safe calls, and is never unloaded.
    unsafe { at_forks(&LEFT, leave) }
}

/// Runs `handler` once in every fork. `registered` prevents a second registration.
///
/// # Safety
/// `handler` is async-signal-safe and never unloaded.
pub unsafe fn at_forks(registered: &AtomicBool, handler: extern "C" fn()) -> std::io::Result<()> {
    if registered.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    // SAFETY: the signature matches; the caller guarantees the rest.
    let answer = unsafe { libc::pthread_atfork(None, None, Some(handler)) };
    if answer == 0 {
        return Ok(());
    }
    registered.store(false, Ordering::Relaxed);
    Err(std::io::Error::from_raw_os_error(answer))
}

/// The sockets' owners are neither used nor dropped here: their threads do not exist.
extern "C" fn leave() {
    for known in &OPEN {
        let fd = known.swap(NONE, Ordering::Relaxed);
        if fd != NONE {
            // SAFETY: `fd` is open, because its owner removes it from the list before closing it.
            unsafe { libc::close(fd) };
        }
    }
}

pub(crate) fn remember(fd: RawFd) {
    let free =
        |known: &&AtomicI32| known.compare_exchange(NONE, fd, Ordering::Relaxed, Ordering::Relaxed);
    let _ = OPEN.iter().find(|known| free(known).is_ok());
}

pub(crate) fn forget(fd: RawFd) {
    let known =
        |entry: &&AtomicI32| entry.compare_exchange(fd, NONE, Ordering::Relaxed, Ordering::Relaxed);
    let _ = OPEN.iter().find(|entry| known(entry).is_ok());
}
