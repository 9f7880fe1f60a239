//! Results of system calls as Rust types.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

pub(crate) fn checked(answer: libc::c_int) -> io::Result<libc::c_int> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

/// A new descriptor.
///
/// # Safety
/// It has no other owner.
pub(crate) unsafe fn owned(answer: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: as above.
    checked(answer).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

pub(crate) fn errno() -> libc::c_int {
    // SAFETY: the location is valid for the life of the thread.
    unsafe { *libc::__errno_location() }
}

pub(crate) fn granting(capability: &str) -> String {
    let program = std::env::current_exe();
    let program = program.map_or_else(|_| "PROGRAM".to_owned(), |path| path.display().to_string());
    format!("run it as root, or grant it once with `setcap {capability}+ep {program}`")
}

#[cfg(test)]
mod tests {
    use super::granting;

    #[test]
    fn capability_is_granted_to_the_requesting_program() {
        let reported = granting("cap_net_raw");
        let own = std::env::current_exe().unwrap();
        assert!(
            reported.ends_with(&format!("`setcap cap_net_raw+ep {}`", own.display())),
            "{reported}"
        );
    }
}
