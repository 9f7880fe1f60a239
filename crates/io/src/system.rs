//! What system calls answer, in Rust's types.

use std::io;

/// The answer of a system call that returns −1 with `errno` when it fails.
pub(crate) fn checked(answer: libc::c_int) -> io::Result<libc::c_int> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

/// The `errno` of the system call that failed last on this thread.
pub(crate) fn errno() -> libc::c_int {
    // SAFETY: the location is valid for the life of the thread.
    unsafe { *libc::__errno_location() }
}
