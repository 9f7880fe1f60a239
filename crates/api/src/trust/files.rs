//! Files that only their owner can read or change.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use tautline_io::local::effective_user;

use super::TrustError;

const HERE: &str = "fix the permissions, or set TAUT_HOME to a folder of yours";

pub(crate) fn refused(tried: &'static str, path: &Path, error: std::io::Error) -> TrustError {
    TrustError::Io { tried, path: path.to_owned(), error, hint: HERE }
}

pub(crate) struct FileRules {
    pub(crate) forbidden: u32,
    /// Error message, advice, and correct mode.
    pub(crate) otherwise: (&'static str, &'static str, u32),
    pub(crate) max_bytes: u64,
    pub(crate) own: bool,
}

const FOLDER: FileRules = FileRules {
    forbidden: 0o022,
    otherwise: (
        "other users can change which machines this one trusts",
        "then check them with taut trust --list",
        0o700,
    ),
    max_bytes: 0,
    own: true,
};

impl FileRules {
    pub(crate) fn allow(&self, path: &Path, there: &Metadata) -> Result<(), TrustError> {
        let owner = there.uid();
        if self.own && owner != effective_user() && owner != 0 {
            return Err(TrustError::Owner { path: path.to_owned(), owner });
        }
        let mode = there.mode() & 0o777;
        if mode & self.forbidden == 0 {
            return Ok(());
        }
        let (what, hint, right) = self.otherwise;
        Err(TrustError::Rights { what, path: path.to_owned(), mode, hint, right })
    }
}

/// Like [`read`], after checking the directory.
pub(crate) fn read_in_own_folder(
    path: &Path,
    expected: &FileRules,
) -> Result<Option<String>, TrustError> {
    let folder = path.parent().unwrap_or(path);
    match fs::metadata(folder) {
        Ok(found) => FOLDER.allow(folder, &found)?,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(refused("reading", folder, error)),
    }
    read(path, expected)
}

/// `None` if it is missing.
pub(crate) fn read(path: &Path, expected: &FileRules) -> Result<Option<String>, TrustError> {
    let cannot = |error| refused("reading", path, error);
    // Opening a pipe would block until a writer opens it.
    if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return Err(cannot(std::io::Error::other("it is a pipe or a device")));
    }
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(cannot(error)),
    };
    // Checks the opened file, whatever the path leads to by now.
    expected.allow(path, &file.metadata().map_err(cannot)?)?;
    let mut text = String::new();
    file.take(expected.max_bytes + 1).read_to_string(&mut text).map_err(cannot)?;
    if text.len() as u64 > expected.max_bytes {
        let what = format!("more than {} bytes", expected.max_bytes);
        let hint = "move it away and create a new one";
        return Err(TrustError::Content { path: path.to_owned(), what, hint });
    }
    Ok(Some(text))
}

static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Locks this directory until dropped.
pub(crate) fn hold(folder: &Path) -> Result<File, TrustError> {
    make_folder(folder)?;
    let held = File::open(folder).and_then(|folder| folder.lock().map(|()| folder));
    held.map_err(|error| refused("locking", folder, error))
}

pub(crate) fn make_folder(folder: &Path) -> Result<(), TrustError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| refused("making", folder, error))
}

pub(crate) struct NewFile<'a> {
    pub(crate) path: &'a Path,
    pub(crate) text: &'a str,
    pub(crate) mode: u32,
}

impl NewFile<'_> {
    /// Atomic.
    pub(crate) fn replace(&self) -> Result<(), TrustError> {
        self.alongside(|new| fs::rename(new, self.path))
    }

    pub(crate) fn make(&self) -> Result<bool, TrustError> {
        let mut made = true;
        self.alongside(|new| match fs::hard_link(new, self.path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                made = false;
                Ok(())
            }
            other => other,
        })?;
        Ok(made)
    }

    /// `place` moves the temporary file.
    fn alongside(
        &self,
        place: impl FnOnce(&Path) -> Result<(), std::io::Error>,
    ) -> Result<(), TrustError> {
        let (process, file) = (std::process::id(), WRITTEN.fetch_add(1, Ordering::Relaxed));
        let new = self.path.with_extension(format!("new-{process}-{file}"));
        let write = || {
            let mut options = OpenOptions::new();
            // A leftover from a dead process has unknown permissions.
            let _ = fs::remove_file(&new);
            let mut file = options.write(true).create_new(true).mode(self.mode).open(&new)?;
            file.write_all(self.text.as_bytes())?;
            file.sync_all()?;
            place(&new)
        };
        let written = write();
        let _ = fs::remove_file(&new);
        written.map_err(|error| refused("writing", self.path, error))
    }
}
