//! Sockets of a process that is forked.
//!
//! A fork has copies of them and none of the threads that use them. While it lives, the UDP ports
//! stay taken and groups joined, whatever the process that opened them does.

use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::os::fd::RawFd;

/// Sockets that are known. What is opened beyond them a fork keeps.
const MOST: usize = 1024;
const NONE: RawFd = -1;

static OPEN: [AtomicI32; MOST] = [const { AtomicI32::new(NONE) }; MOST];

/// From now on a fork of this process closes its copies. For code that lives in programs of others,
/// which fork as they like; whoever calls it is never unloaded, as a fork would run what is gone.
pub fn leave_sockets() -> std::io::Result<()> {
    static LEFT: AtomicBool = AtomicBool::new(false);
    // SAFETY: the handler calls what a signal's handler may, and stays.
    unsafe { at_forks(&LEFT, leave) }
}

/// From now on every fork of this process calls `handler`: once in each, however often this is
/// asked for, which `registered` remembers.
///
/// # Safety
/// `handler` does only what a signal's handler may, and is never unloaded.
pub unsafe fn at_forks(registered: &AtomicBool, handler: extern "C" fn()) -> std::io::Result<()> {
    if registered.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    // SAFETY: a function of this signature is all that is asked for; the caller vouches that it may run
    // in a fork and is never unloaded.
    let answer = unsafe { libc::pthread_atfork(None, None, Some(handler)) };
    if answer == 0 {
        return Ok(());
    }
    registered.store(false, Ordering::Relaxed);
    Err(std::io::Error::from_raw_os_error(answer))
}

/// In the fork. Nothing there uses or drops what owns them: that belonged to threads that are not
/// there.
extern "C" fn leave() {
    for known in &OPEN {
        let fd = known.swap(NONE, Ordering::Relaxed);
        if fd != NONE {
            // SAFETY: a descriptor of the list, forgotten before its owner closes it.
            unsafe { libc::close(fd) };
        }
    }
}

/// A socket was opened.
pub(crate) fn remember(fd: RawFd) {
    let free =
        |known: &&AtomicI32| known.compare_exchange(NONE, fd, Ordering::Relaxed, Ordering::Relaxed);
    let _ = OPEN.iter().find(|known| free(known).is_ok());
}

/// A socket is about to be closed.
pub(crate) fn forget(fd: RawFd) {
    let known =
        |entry: &&AtomicI32| entry.compare_exchange(fd, NONE, Ordering::Relaxed, Ordering::Relaxed);
    let _ = OPEN.iter().find(|entry| known(entry).is_ok());
}
