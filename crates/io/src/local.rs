//! Local sockets: reaching one without waiting, who is at its other end, and who we are.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::system::checked;

pub mod place;

/// The number of the user as whom this process acts.
pub fn effective_user() -> u32 {
    // SAFETY: no pointers, and it cannot fail.
    unsafe { libc::geteuid() }
}

/// Connects to the socket at this path and waits for nobody, then or later: the stream does not block.
/// [`WouldBlock`](io::ErrorKind::WouldBlock) where more wait to be let in than the other end keeps,
/// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused) where nobody listens.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    // SAFETY: all zeros are a valid value of this plain structure.
    let mut address: libc::sockaddr_un = unsafe { core::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let path = path.as_os_str().as_bytes();
    // A zero ends it.
    if path.len() >= address.sun_path.len() {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    for (room, byte) in address.sun_path.iter_mut().zip(path) {
        *room = *byte as libc::c_char;
    }
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers.
    let socket = checked(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
    // SAFETY: the descriptor is new and belongs to nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: a whole address of this length, which outlives the call.
    checked(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    Ok(socket.into())
}

/// The number of the user who opened the other end (`SO_PEERCRED`, unix(7)).
pub fn peer_user(stream: &UnixStream) -> io::Result<u32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the descriptor is open as long as `stream` is borrowed; `peer` is a writable ucred of the
    // length that is told.
    let answer = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    if answer == 0 { Ok(peer.uid) } else { Err(io::Error::last_os_error()) }
}

/// Whether this user or root opened the other end: whoever that is has what is ours already.
pub fn is_of_our_user(stream: &UnixStream) -> io::Result<bool> {
    peer_user(stream).map(|user| user == effective_user() || user == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_end_of_our_own_socket_is_ours() {
        let (one, other) = UnixStream::pair().unwrap();
        let shown = std::fs::read_to_string("/proc/self/status").unwrap();
        let users = shown.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
        let effective: u32 = users.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert_eq!(effective_user(), effective);
        assert_eq!([&one, &other].map(|end| peer_user(end).unwrap()), [effective; 2]);
    }

    #[test]
    fn nobody_is_waited_for_by_who_connects() {
        let name = format!("taut-local-{}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        // As many as are kept; nobody lets them in.
        // SAFETY: the descriptor is open; a second call only changes how many are kept.
        assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 1) }, 0);
        let mut kept = Vec::new();
        let full = loop {
            match connect(&path) {
                Ok(stream) => kept.push(stream),
                Err(error) => break error,
            }
        };
        assert!((1..5).contains(&kept.len()) && full.kind() == io::ErrorKind::WouldBlock, "{full}");
        drop(listener);
        let refused = connect(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(connect(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        let long = Path::new("/tmp").join("x".repeat(200));
        assert_eq!(connect(&long).unwrap_err().raw_os_error(), Some(libc::ENAMETOOLONG));
    }
}
