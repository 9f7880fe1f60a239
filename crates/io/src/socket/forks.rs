//! Sockets of a process that forks. While the fork lives, its copies keep UDP ports taken and groups joined, and it has
//! none of the threads that use them.

use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::os::fd::RawFd;

/// Sockets that are known; a fork keeps those opened beyond.
const MOST: usize = 1024;
const NONE: RawFd = -1;

static OPEN: [AtomicI32; MOST] = [const { AtomicI32::new(NONE) }; MOST];

/// From now on a fork of this process closes its copies. The caller is never unloaded.
pub fn leave_sockets() -> std::io::Result<()> {
    static LEFT: AtomicBool = AtomicBool::new(false);
    // SAFETY: the handler calls what a signal's handler may, and stays.
    unsafe { at_forks(&LEFT, leave) }
}

/// Has every fork of this process call `handler`, once in each; `registered` remembers that.
///
/// # Safety
/// `handler` does only what a signal's handler may, and is never unloaded.
pub unsafe fn at_forks(registered: &AtomicBool, handler: extern "C" fn()) -> std::io::Result<()> {
    if registered.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    // SAFETY: the signature fits; the caller vouches for the rest.
    let answer = unsafe { libc::pthread_atfork(None, None, Some(handler)) };
    if answer == 0 {
        return Ok(());
    }
    registered.store(false, Ordering::Relaxed);
    Err(std::io::Error::from_raw_os_error(answer))
}

/// In the fork. Nothing there uses or drops their owners: those belonged to threads that are not there.
extern "C" fn leave() {
    for known in &OPEN {
        let fd = known.swap(NONE, Ordering::Relaxed);
        if fd != NONE {
            // SAFETY: a descriptor of the list, forgotten before its owner closes it.
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
