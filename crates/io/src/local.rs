//! Local sockets and their users.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::socket::descriptor::option;
use crate::system::{checked, owned};

/// Returns the effective user id of this process.
pub fn effective_user() -> u32 {
    // SAFETY: the call takes no pointers and cannot fail.
    unsafe { libc::geteuid() }
}

/// Connects a non-blocking stream. Returns [`WouldBlock`](io::ErrorKind::WouldBlock) for a full
/// backlog, [`ConnectionRefused`](io::ErrorKind::ConnectionRefused) without a listener.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    // SAFETY: all zeros are a valid value of this plain structure.
    let mut address: libc::sockaddr_un = unsafe { core::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let path = path.as_os_str().as_bytes();
    if path.len() >= address.sun_path.len() {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    for (room, byte) in address.sun_path.iter_mut().zip(path) {
        *room = *byte as libc::c_char;
    }
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the call takes no pointers, and the descriptor is new.
    let socket = unsafe { owned(libc::socket(libc::AF_UNIX, kind, 0)) }?;
    let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: a complete address of this length, which outlives the call.
    checked(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    Ok(socket.into())
}

/// User id of the process at the other end (`SO_PEERCRED`, unix(7)).
pub fn peer_user(stream: &UnixStream) -> io::Result<u32> {
    option::<libc::ucred>(stream, libc::SOL_SOCKET, libc::SO_PEERCRED).map(|peer| peer.uid)
}

/// Whether this user or root opened the other end: both can access this user's data.
pub fn is_of_our_user(stream: &UnixStream) -> io::Result<bool> {
    peer_user(stream).map(|user| user == effective_user() || user == 0)
}

/// Socket directories, the directory for new sockets first: `$XDG_RUNTIME_DIR/tautline` alone if
/// non-standard; otherwise `/run/user/UID/tautline`, if its parent exists, and `/tmp/tautline-UID`.
pub fn places() -> Vec<PathBuf> {
    let user = effective_user();
    let usual = PathBuf::from(format!("/run/user/{user}"));
    let set = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    // XDG requires ignoring relative paths.
    if let Some(set) = set.filter(|set| set.is_absolute() && *set != usual) {
        return vec![set.join("tautline")];
    }
    let usual = usual.is_dir().then(|| usual.join("tautline"));
    usual.into_iter().chain([without_runtime(user)]).collect()
}

/// The directory on systems without `/run/user`.
pub fn without_runtime(user: u32) -> PathBuf {
    PathBuf::from(format!("/tmp/tautline-{user}"))
}

/// Why a directory is unusable.
#[derive(Debug)]
pub enum NotPrivate {
    /// Another user owns it or has access.
    Others,
    /// The directory cannot be created.
    System(io::Error),
}

/// Creates the directory if it is missing.
pub fn make_private(folder: &Path) -> Result<(), NotPrivate> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if fs::symlink_metadata(folder).is_err() => Err(NotPrivate::System(error)),
        _ if is_private(folder) => Ok(()),
        _ => Err(NotPrivate::Others),
    }
}

/// Whether this is a directory (not a link) that only this user can access.
pub fn is_private(folder: &Path) -> bool {
    is_private_to(folder, effective_user())
}

/// Whether this is a directory (not a link) that only `user` can access.
pub fn is_private_to(folder: &Path, user: u32) -> bool {
    let belongs =
        |found: fs::Metadata| found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0;
    fs::symlink_metadata(folder).is_ok_and(belongs)
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
    fn a_folder_that_another_prepared_is_not_taken() {
        use std::os::unix::fs::{PermissionsExt, chown, symlink};
        let tmp = std::env::temp_dir().join(format!("taut-squat-{}", std::process::id()));
        let at = |name: &str| tmp.join(name);
        assert!(matches!(make_private(&at("none")), Err(NotPrivate::System(_))));
        fs::create_dir(&tmp).unwrap();
        let [own, link, open, file] = ["own", "link", "open", "file"].map(at);
        make_private(&own).unwrap();
        assert_eq!(fs::symlink_metadata(&own).unwrap().mode() & 0o777, 0o700);
        make_private(&own).unwrap();
        symlink(&own, &link).unwrap();
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o711)).unwrap();
        fs::write(&file, "").unwrap();
        for squatted in [&link, &open, &file] {
            assert!(matches!(make_private(squatted), Err(NotPrivate::Others)), "{squatted:?}");
        }
        if chown(&own, Some(65_534), None).is_ok() {
            assert!(matches!(make_private(&own), Err(NotPrivate::Others)));
        }
        fs::remove_dir_all(&tmp).unwrap();
    }

    #[test]
    fn connecting_never_waits() {
        let name = format!("taut-local-{}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        // Limits the backlog. SAFETY: the descriptor is open; a second call only changes the
        // backlog.
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
