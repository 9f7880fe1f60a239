//! Named memory of one user's processes: a [`SharedFile`] in `/dev/shm`, mapped as
//! [`SharedMemory`]. Others can write anything at any time, so contents are atomic and never
//! trusted.

use core::ffi::{c_int, c_short};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tautline_proto::time::Span;

use crate::clock::{now, sleep_until};
use crate::system::checked;

const FOLDER: &str = "/dev/shm";
const ASKED_EVERY: Span = Span::from_millis(1);
const OTHERS: u32 = 0o077;
const SLICE: u64 = 1 << 20;

/// Reason why memory cannot be shared, with its fix.
#[derive(Debug, thiserror::Error)]
pub enum SharedError {
    /// Other users own this file or can access it.
    #[error("{} is not a private file of this user\nhint: remove it, or use another name", path.display())]
    NotYours {
        /// Path of the file.
        path: PathBuf,
    },
    /// The lock was held for unusually long.
    #[error(
        "{}: another process has held its lock for {}\nhint: end that process (fuser {}), or use another name",
        path.display(), waited, path.display()
    )]
    Held {
        /// Path of the file.
        path: PathBuf,
        /// Time waited.
        waited: Span,
    },
    /// A system call failed.
    #[error("{}: {error}\nhint: check the free space (df /dev/shm) and the owner (ls -l)", path.display())]
    Refused {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system call.
        error: io::Error,
    },
}

/// One of 256 locks of a file, released when it closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lock(pub u8);

/// How a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Not held.
    Free,
    /// With other shared holders.
    Shared,
    /// Held exclusively.
    Alone,
}

/// An open file. Its locks end when it closes, even by a kill.
#[derive(Debug)]
pub struct SharedFile {
    file: File,
    path: PathBuf,
}

impl SharedFile {
    /// Opens or creates file `name`. Rejects files that other users own or can access.
    pub fn open(name: &str) -> Result<Self, SharedError> {
        let user = crate::local::effective_user();
        let path = Path::new(FOLDER).join(format!("{name}-{user}"));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o600);
        options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let file = match options.open(&path) {
            Ok(file) => file,
            Err(error) => return Err(SharedError::Refused { path, error }),
        };
        let shared = Self { file, path };
        let found = shared.file.metadata().map_err(|error| shared.refused(error))?;
        // Two names: a hard link elsewhere. None: removed.
        let alone = found.nlink() <= 1;
        if !found.is_file() || found.uid() != user || found.mode() & OTHERS != 0 || !alone {
            return Err(SharedError::NotYours { path: shared.path });
        }
        Ok(shared)
    }

    /// Wraps an open file from another process.
    pub fn handed(file: OwnedFd) -> Self {
        Self { file: file.into(), path: PathBuf::from("received memory") }
    }

    /// Adds the path to a system error.
    pub fn refused(&self, error: io::Error) -> SharedError {
        SharedError::Refused { path: self.path.clone(), error }
    }

    /// Whether the path still leads to this file.
    pub fn is_there(&self) -> bool {
        let same = |there: std::fs::Metadata, here: std::fs::Metadata| {
            (there.dev(), there.ino()) == (here.dev(), here.ino())
        };
        let there = std::fs::symlink_metadata(&self.path);
        there.ok().zip(self.file.metadata().ok()).is_some_and(|(there, here)| same(there, here))
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> Result<u64, SharedError> {
        self.file.metadata().map(|found| found.len()).map_err(|error| self.refused(error))
    }

    /// Returns whether the file is empty.
    pub fn is_empty(&self) -> Result<bool, SharedError> {
        self.len().map(|len| len == 0)
    }

    /// Fills the file with zeros. Must not be [mapped](Self::map): losing mapped memory kills a
    /// process.
    pub fn renew(&self, bytes: u64) -> Result<(), SharedError> {
        let renewed = self.file.set_len(0).and_then(|()| {
            libc::off_t::try_from(bytes).map_err(io::Error::other)?;
            in_slices(bytes, |from, bytes| {
                let (from, bytes) = (from as libc::off_t, bytes as libc::off_t);
                // SAFETY: the call takes no pointers, and the descriptor is open.
                unsafe { libc::posix_fallocate(self.file.as_raw_fd(), from, bytes) }
            })
        });
        renewed.map_err(|error| {
            // A partial allocation would look complete but short.
            let _ = self.file.set_len(0);
            self.refused(error)
        })
    }

    /// Removes the name. Opening it again creates another file.
    pub fn remove(&self) {
        if self.is_there() {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// Acquires or releases a lock. Waits up to `timeout`: a stopped process holds it forever.
    pub fn lock(&self, lock: Lock, hold: Hold, timeout: Span) -> Result<(), SharedError> {
        let until = now() + timeout;
        while !self.try_lock(lock, hold)? {
            if now() >= until {
                return Err(SharedError::Held { path: self.path.clone(), waited: timeout });
            }
            sleep_until(now() + ASKED_EVERY);
        }
        Ok(())
    }

    /// Acquires or releases a lock; `false` if another process holds it.
    pub fn try_lock(&self, lock: Lock, hold: Hold) -> Result<bool, SharedError> {
        match self.request(libc::F_OFD_SETLK, lock, hold) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
                Ok(false)
            }
            Err(error) => Err(self.refused(error)),
        }
    }

    fn request(&self, command: c_int, Lock(place): Lock, hold: Hold) -> io::Result<()> {
        // SAFETY: all zeros are a valid value of this plain structure.
        let mut requested: libc::flock = unsafe { core::mem::zeroed() };
        let kind = match hold {
            Hold::Free => libc::F_UNLCK,
            Hold::Shared => libc::F_RDLCK,
            Hold::Alone => libc::F_WRLCK,
        };
        requested.l_type = kind as c_short;
        requested.l_whence = libc::SEEK_SET as c_short;
        // A lock is one byte, even beyond the file's end.
        (requested.l_start, requested.l_len) = (place.into(), 1);
        // SAFETY: the structure outlives the call, which keeps no pointer to it.
        checked(unsafe { libc::fcntl(self.file.as_raw_fd(), command, &raw const requested) })
            .map(drop)
    }

    /// Maps `longs` 64-bit, then `words` 32-bit numbers, with every page in memory. `None` if the
    /// file is shorter.
    pub fn map(&self, longs: usize, words: usize) -> Result<Option<SharedMemory>, SharedError> {
        let len = longs * size_of::<AtomicU64>() + words * size_of::<AtomicU32>();
        if len == 0 || self.len()? < len as u64 {
            return Ok(None);
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let file = self.file.as_raw_fd();
        // SAFETY: the call maps an open file at an address that the system chooses; existing
        // mappings are untouched.
        let start = unsafe { libc::mmap(core::ptr::null_mut(), len, access, flags, file, 0) };
        match NonNull::new(start).filter(|_| start != libc::MAP_FAILED) {
            Some(start) => Ok(Some(SharedMemory { start, longs, words })),
            None => Err(self.refused(io::Error::last_os_error())),
        }
    }
}

/// `allocate` takes offset and length and returns an errno. Signals undo a call, so a large one
/// might never finish.
fn in_slices(bytes: u64, mut allocate: impl FnMut(u64, u64) -> c_int) -> io::Result<()> {
    let mut from = 0;
    while from < bytes {
        let slice = SLICE.min(bytes - from);
        match allocate(from, slice) {
            0 => from += slice,
            libc::EINTR => {}
            errno => return Err(io::Error::from_raw_os_error(errno)),
        }
    }
    Ok(())
}

/// Numbers that other processes can change at any time. Outlives the open file.
#[derive(Debug)]
pub struct SharedMemory {
    start: NonNull<libc::c_void>,
    longs: usize,
    words: usize,
}

// SAFETY: the mapping belongs to this value alone, and is accessed only with atomic operations.
unsafe impl Send for SharedMemory {}
// SAFETY: as above. Several threads may use atomics.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Returns the 64-bit numbers.
    pub fn longs(&self) -> &[AtomicU64] {
        // SAFETY: `longs` numbers are mapped from a page's start while this value lives; any bits
        // are valid. Other processes use atomic operations, too. A process of this user
        // that does not could kill this process anyway.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr().cast(), self.longs) }
    }

    /// Returns the 32-bit numbers.
    pub fn words(&self) -> &[AtomicU32] {
        // SAFETY: `words` numbers are mapped after the longs, whose size is a multiple of theirs;
        // otherwise as above.
        unsafe {
            let start = self.start.as_ptr().cast::<AtomicU64>().add(self.longs);
            core::slice::from_raw_parts(start.cast(), self.words)
        }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        let len = self.longs * size_of::<AtomicU64>() + self.words * size_of::<AtomicU32>();
        // SAFETY: `SharedFile::map` mapped this length. No borrows remain.
        unsafe { libc::munmap(self.start.as_ptr(), len) };
    }
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use core::sync::atomic::Ordering;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    struct Own(SharedFile, String);

    impl Own {
        fn new(test: &str) -> Self {
            let name = format!("tautline-io-{}-{test}", std::process::id());
            Self(SharedFile::open(&name).unwrap(), name)
        }

        fn again(&self) -> SharedFile {
            SharedFile::open(&self.1).unwrap()
        }
    }

    impl Drop for Own {
        fn drop(&mut self) {
            self.0.remove();
        }
    }

    #[test]
    fn shared_memory_is_read_by_another_mapping() {
        let own = Own::new("written");
        own.0.renew(8 * 2 + 4 * 3).unwrap();
        let other = own.again();
        let (here, there) = (own.0.map(2, 3).unwrap().unwrap(), other.map(2, 3).unwrap().unwrap());
        here.longs()[1].store(u64::MAX, Ordering::Relaxed);
        here.words()[0].store(7, Ordering::Relaxed);
        here.words()[2].store(9, Ordering::Relaxed);
        let longs: Vec<_> = there.longs().iter().map(|n| n.load(Ordering::Relaxed)).collect();
        let words: Vec<_> = there.words().iter().map(|n| n.load(Ordering::Relaxed)).collect();
        assert_eq!((longs, words), (vec![0, u64::MAX], vec![7, 0, 9]));
    }

    #[test]
    fn allocation_succeeds_despite_signals() {
        let (mut until, mut calls) = (0, 0);
        let whole = 5 * SLICE + 12;
        in_slices(whole, |from, bytes| {
            assert_eq!(from, until, "without gaps, and nothing twice");
            calls += 1;
            assert!(calls < 100, "the loop does not end");
            if bytes > 1 << 20 || calls % 2 == 0 {
                return libc::EINTR;
            }
            until = from + bytes;
            0
        })
        .unwrap();
        assert_eq!((until, calls), (whole, 11));
        let full = in_slices(whole, |from, _| if from == 0 { 0 } else { libc::ENOSPC });
        assert_eq!(full.unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    }

    #[test]
    fn memory_of_several_slices_has_the_requested_length() {
        let own = Own::new("slices");
        own.0.renew(2 * SLICE + 4096).unwrap();
        assert_eq!(own.0.len().unwrap(), 2 * SLICE + 4096);
        let there = 512 * own.0.file.metadata().unwrap().blocks();
        assert!(there >= 2 * SLICE + 4096, "{there} bytes are there");
    }

    #[test]
    fn no_more_is_mapped_than_there_is() {
        let own = Own::new("short");
        assert!(own.0.is_empty().unwrap() && own.0.map(1, 0).unwrap().is_none());
        own.0.renew(12).unwrap();
        assert!(own.0.map(1, 1).unwrap().is_some() && own.0.map(1, 2).unwrap().is_none());
    }

    #[test]
    fn lock_is_exclusive_or_shared_and_ends_with_its_file() {
        let own = Own::new("locked");
        let (other, third) = (own.again(), own.again());
        let lock = Lock(3);
        assert!(own.0.try_lock(lock, Hold::Alone).unwrap());
        assert!(!other.try_lock(lock, Hold::Shared).unwrap());
        assert!(other.try_lock(Lock(4), Hold::Alone).unwrap());
        own.0.lock(lock, Hold::Shared, Span::ZERO).unwrap();
        assert!(other.try_lock(lock, Hold::Shared).unwrap());
        assert!(!other.try_lock(lock, Hold::Alone).unwrap());
        own.0.lock(lock, Hold::Free, Span::ZERO).unwrap();
        drop(other);
        assert!(third.try_lock(lock, Hold::Alone).unwrap());
        assert!(third.try_lock(Lock(4), Hold::Alone).unwrap());
    }

    #[test]
    fn lock_held_forever_times_out_with_an_error() {
        let own = Own::new("held");
        let (other, lock) = (own.again(), Lock(0));
        other.lock(lock, Hold::Alone, Span::ZERO).unwrap();
        let begun = now();
        let timeout = Span::from_millis(30);
        let held = own.0.lock(lock, Hold::Alone, timeout).unwrap_err().to_string();
        assert!(now() - begun >= timeout);
        snapshot!(held);
        other.lock(lock, Hold::Free, Span::ZERO).unwrap();
        own.0.lock(lock, Hold::Alone, Span::ZERO).unwrap();
    }

    #[test]
    fn a_file_that_has_another_name_is_refused() {
        let own = Own::new("linked");
        let second = own.0.path.with_extension("second");
        std::fs::hard_link(&own.0.path, &second).unwrap();
        let refused = SharedFile::open(&own.1);
        std::fs::remove_file(&second).unwrap();
        assert!(matches!(refused, Err(SharedError::NotYours { .. })));
        assert!(SharedFile::open(&own.1).is_ok());
    }

    #[test]
    fn file_readable_by_others_and_symlinks_are_refused() {
        let own = Own::new("open");
        let path = own.0.path.clone();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o604)).unwrap();
        let refused = SharedFile::open(&own.1).unwrap_err().to_string();
        assert!(refused.contains("private file") && refused.contains("another name"), "{refused}");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        let link = format!("{}-link", own.1);
        let at =
            path.with_file_name(path.file_name().unwrap().to_str().unwrap().replace(&own.1, &link));
        std::os::unix::fs::symlink(&path, &at).unwrap();
        let followed = SharedFile::open(&link);
        std::fs::remove_file(&at).unwrap();
        assert!(followed.is_err());
    }

    #[test]
    fn removed_file_is_not_confused_with_its_successor() {
        let own = Own::new("removed");
        assert!(own.0.is_there());
        own.0.remove();
        assert!(!own.0.is_there());
        let other = own.again();
        assert!(other.is_there() && !own.0.is_there());
        own.0.remove();
        assert!(other.is_there(), "it removes its own only");
        other.remove();
    }
}
