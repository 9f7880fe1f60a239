//! Output files and pipes; no call waits for a pipe's reader.

use std::fs::{File, OpenOptions, metadata, symlink_metadata};
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::local::effective_user;
use crate::system::checked;

const TIMEOUT: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(1);

/// Opens a file without waiting; `None` for a FIFO without a reader. Writes do not wait; see
/// [`set_blocking`].
pub fn open_now(path: &Path, options: &mut OpenOptions) -> io::Result<Option<File>> {
    open_with(path, options, 0)
}

fn open_with(path: &Path, options: &mut OpenOptions, flags: i32) -> io::Result<Option<File>> {
    match options.custom_flags(libc::O_NONBLOCK | flags).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) && is_fifo(path) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens a recording like [`open_now`]: new with mode 0600, or truncated. In a folder writable by
/// all, rejects links and other users' files.
pub fn create_private(path: &Path) -> io::Result<Option<File>> {
    open_private(path, OpenOptions::new().create(true).mode(0o600))
}

/// Opens an existing file under [`create_private`]'s conditions.
pub fn open_private(path: &Path, options: &mut OpenOptions) -> io::Result<Option<File>> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let shared = metadata(folder.unwrap_or(Path::new(".")))?.mode() & 0o002 != 0;
    let opened = open_with(path, options.write(true), if shared { libc::O_NOFOLLOW } else { 0 });
    let refused = || io::Error::other("a link, or another user's file, in a shared folder");
    let is_own = |uid| uid == effective_user();
    match opened {
        Ok(None) if shared && !is_own(symlink_metadata(path)?.uid()) => Err(refused()),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) && shared => Err(refused()),
        Ok(Some(file)) => {
            let found = file.metadata()?;
            if shared && (!is_own(found.uid()) || found.nlink() > 1) {
                return Err(refused());
            }
            if found.is_file() {
                file.set_len(0)?;
            }
            Ok(Some(file))
        }
        other => other,
    }
}

/// Makes writes wait for the reader.
pub fn set_blocking(file: &File) -> io::Result<()> {
    let fd = file.as_raw_fd();
    // SAFETY: the descriptor is open as long as `file` is; the call touches no memory of ours.
    let flags = checked(unsafe { libc::fcntl(fd, libc::F_GETFL) })?;
    // SAFETY: as above.
    checked(unsafe { libc::fcntl(fd, libc::F_SETFL, flags & !libc::O_NONBLOCK) })?;
    Ok(())
}

/// A write beyond `ulimit -f` then returns an error instead of ending the process.
pub fn ignore_file_size_signal() {
    // SAFETY: ignoring a signal calls no handler.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

fn is_fifo(path: &Path) -> bool {
    metadata(path).is_ok_and(|found| found.file_type().is_fifo())
}

/// Standard output or error, if `path` is one; not truncated or replaced.
fn standard(path: &Path) -> Option<io::Result<File>> {
    let shared = match path.to_str()? {
        "/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1" => {
            io::stdout().as_fd().try_clone_to_owned()
        }
        "/dev/stderr" | "/dev/fd/2" | "/proc/self/fd/2" => {
            io::stderr().as_fd().try_clone_to_owned()
        }
        _ => return None,
    };
    Some(shared.map(File::from))
}

/// The fix for an [`OutputFile`] error: start the pipe's reader, or `otherwise`.
pub fn write_hint(error: &io::Error, path: &Path, otherwise: &str) -> String {
    match error.kind() {
        ErrorKind::TimedOut => format!("start its reader first, as in: cat {}", path.display()),
        _ => otherwise.to_owned(),
    }
}

/// A report's file, pipe or device. A write waits 1 s for a pipe's reader; then all fail.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    state: State,
}

#[derive(Debug)]
enum State {
    Open(File),
    Awaited,
    Failed,
}

impl OutputFile {
    /// Opens `path`. Truncates an existing file.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::open(path, OpenOptions::new().write(true).create(true).truncate(true))
    }

    /// Opens an existing `path` to append.
    pub fn append(path: &Path) -> io::Result<Self> {
        Self::open(path, OpenOptions::new().append(true))
    }

    /// Opens `path` with these options.
    pub fn open(path: &Path, options: &mut OpenOptions) -> io::Result<Self> {
        let opened = match standard(path) {
            Some(shared) => Some(shared?),
            None => open_now(path, options)?,
        };
        let state = opened.map_or(State::Awaited, State::Open);
        Ok(Self { path: path.to_owned(), state })
    }

    /// Checks that `path` is writable. Opens no pipe: its reader would see the end of the data.
    pub fn check(path: &Path) -> io::Result<()> {
        let special = metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
        if !special && standard(path).is_none() {
            File::create(path)?;
        }
        Ok(())
    }

    /// The file, unless it is a pipe without a reader or a standard stream.
    pub fn file(&self) -> Option<&File> {
        match &self.state {
            State::Open(file) if standard(&self.path).is_none() => Some(file),
            _ => None,
        }
    }

    /// Whether the output is a pipe without a reader.
    pub const fn is_awaited(&self) -> bool {
        matches!(self.state, State::Awaited)
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let until = Instant::now() + TIMEOUT;
        loop {
            match &mut self.state {
                State::Open(file) => match file.write(bytes) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    written => return written,
                },
                State::Awaited => {
                    if let Some(file) = open_now(&self.path, OpenOptions::new().write(true))? {
                        self.state = State::Open(file);
                        continue;
                    }
                }
                State::Failed => return Err(io::Error::other("an earlier write failed")),
            }
            if Instant::now() >= until {
                return Err(io::Error::new(ErrorKind::TimedOut, "no program reads it"));
            }
            thread::sleep(INTERVAL);
        }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.try_write(bytes);
        if written.as_ref().is_err_and(|error| error.kind() != ErrorKind::Interrupted) {
            self.state = State::Failed;
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;

    fn fifo(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("tautline-{}-{name}", std::process::id()));
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }

    #[test]
    fn pipe_is_written_once_its_reader_connects() {
        let path = fifo("late");
        let mut output = OutputFile::create(&path).unwrap();
        assert!(output.is_awaited() && output.file().is_none());
        let mut reader = open_now(&path, OpenOptions::new().read(true)).unwrap().unwrap();
        output.write_all(b"to the other end").unwrap();
        drop(output);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "to the other end");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_pipe_that_no_program_reads_fails_once_and_then_at_once() {
        let path = fifo("unread");
        let mut output = OutputFile::create(&path).unwrap();
        let kind = |written: io::Result<usize>| written.map_err(|error| error.kind());
        assert_eq!(kind(output.write(b"x")), Err(ErrorKind::TimedOut));
        assert_eq!(kind(output.write(b"x")), Err(ErrorKind::Other));
        let _reader = open_now(&path, OpenOptions::new().read(true)).unwrap().unwrap();
        let mut output = OutputFile::append(&path).unwrap();
        let error = output.write_all(&[0; 1 << 20]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn recording_is_private_and_rejects_links_in_shared_folders() {
        let folder = std::env::temp_dir().join(format!("tautline-{}-shared", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let (take, link) = (folder.join("take.wav"), folder.join("link.wav"));
        let hard = folder.join("hard.wav");
        assert!(create_private(&take).unwrap().is_some());
        assert_eq!(metadata(&take).unwrap().mode() & 0o777, 0o600);
        std::fs::write(&take, "an earlier take").unwrap();
        std::os::unix::fs::symlink(&take, &link).unwrap();
        for mode in [0o777, 0o1777] {
            set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
            assert!(create_private(&link).is_err(), "{mode:o}");
            std::fs::hard_link(&take, &hard).unwrap();
            assert!(create_private(&hard).is_err(), "{mode:o}");
            std::fs::remove_file(&hard).unwrap();
            assert_eq!(std::fs::read(&take).unwrap(), b"an earlier take", "{mode:o}");
        }
        assert!(create_private(&take).unwrap().is_some());
        set_permissions(&folder, Permissions::from_mode(0o775)).unwrap();
        std::fs::write(&take, "an earlier take").unwrap();
        assert!(create_private(&link).unwrap().is_some());
        assert_eq!(std::fs::read(&take).unwrap(), b"");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn another_users_file_in_a_shared_folder_is_not_recorded_to() {
        let folder = std::env::temp_dir().join(format!("tautline-{}-squat", std::process::id()));
        let (take, pipe) = (folder.join("take.wav"), folder.join("pipe.wav"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(&take, "").unwrap();
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        assert!(create_private(&pipe).unwrap().is_none(), "its own");
        let given = [&take, &pipe].map(|file| std::os::unix::fs::chown(file, Some(65_534), None));
        let created = [&take, &pipe].map(|file| create_private(file).is_err());
        let _reader = open_now(&pipe, OpenOptions::new().read(true));
        let opened = open_private(&pipe, &mut OpenOptions::new());
        std::fs::remove_dir_all(&folder).unwrap();
        let [given, _] = given;
        match given {
            Ok(()) => assert!(created == [true; 2] && opened.is_err(), "{created:?}, {opened:?}"),
            Err(_) => tautline_trial::skipped(
                tautline_trial::Lack::Privilege,
                "needs root to give a file away",
            ),
        }
    }

    #[test]
    fn standard_output_is_no_file_of_its_own() {
        for path in ["/dev/stdout", "/proc/self/fd/2"] {
            assert!(OutputFile::check(Path::new(path)).is_ok(), "{path}");
            let output = OutputFile::create(Path::new(path)).unwrap();
            assert!(output.file().is_none() && !output.is_awaited(), "{path}");
        }
    }
}
