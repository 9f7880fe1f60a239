//! Where the sockets of a user's programs lie: in a folder that is its user's alone.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::effective_user;

/// The folders in which this user's programs have their sockets, those of new ones first:
/// `$XDG_RUNTIME_DIR/tautline` where that is set and not what it usually is, or else
/// `/run/user/UID/tautline`, where there is such a folder, and `/tmp/tautline-UID`.
pub fn places() -> Vec<PathBuf> {
    let user = effective_user();
    let usual = PathBuf::from(format!("/run/user/{user}"));
    let set = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    // A relative one counts for nothing, as the specification of these folders has it.
    if let Some(set) = set.filter(|set| set.is_absolute() && *set != usual) {
        return vec![set.join("tautline")];
    }
    let usual = usual.is_dir().then(|| usual.join("tautline"));
    usual.into_iter().chain([without_runtime(user)]).collect()
}

/// Where the system makes no folder for users that are logged in.
pub fn without_runtime(user: u32) -> PathBuf {
    PathBuf::from(format!("/tmp/tautline-{user}"))
}

/// Why a folder is not to be had.
#[derive(Debug)]
pub enum NotPrivate {
    /// It is somebody else's, or others may look into it.
    Others,
    /// It cannot be made.
    System(io::Error),
}

/// Makes the folder, if it is not there.
pub fn make_private(folder: &Path) -> Result<(), NotPrivate> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if fs::symlink_metadata(folder).is_err() => Err(NotPrivate::System(error)),
        _ if is_private(folder) => Ok(()),
        _ => Err(NotPrivate::Others),
    }
}

/// Whether this is a folder of this user's alone, and no link to another.
pub fn is_private(folder: &Path) -> bool {
    is_private_to(folder, effective_user())
}

/// The same of the user with this number.
pub fn is_private_to(folder: &Path, user: u32) -> bool {
    let belongs =
        |found: fs::Metadata| found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0;
    fs::symlink_metadata(folder).is_ok_and(belongs)
}
