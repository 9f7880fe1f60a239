//! Notes shared with the parent: the block of a death, and the newest accepted datagrams.

#![expect(unsafe_code, reason = "memory without a name is made")]

use core::sync::atomic::{AtomicU64, Ordering};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tautline_io::shm::{SharedError, SharedFile, SharedMemory};

const RUN_LONGS: usize = 3;
/// Newest accepted datagram: sender's incarnation plus one (0: none), and count.
const HEARD_LONGS: usize = 2;
const LINKS: usize = 2;
const LONGS: usize = RUN_LONGS + LINKS * HEARD_LONGS;
const LONG: usize = size_of::<u64>();

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BlockOfEpoch {
    pub(crate) epoch: u32,
    pub(crate) block: u64,
}

#[derive(Debug)]
pub(crate) struct ChildNotes(File);

impl ChildNotes {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: the name is NUL-terminated.
        let made = unsafe { libc::memfd_create(c"taut-last-run".as_ptr(), libc::MFD_CLOEXEC) };
        if made < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was created above and has no other owner.
        let notes = Self(unsafe { OwnedFd::from_raw_fd(made) }.into());
        notes.0.write_all_at(&[0; LONGS * LONG], 0)?;
        Ok(notes)
    }

    pub(crate) fn forget_run(&self) -> io::Result<()> {
        self.0.write_all_at(&[0; RUN_LONGS * LONG], 0)
    }

    /// The current block. Read, not mapped, so plugins' changes do no harm.
    pub(crate) fn under_way(&self) -> Option<BlockOfEpoch> {
        let mut bytes = [0; RUN_LONGS * LONG];
        self.0.read_exact_at(&mut bytes, 0).ok()?;
        let [flag, epoch, block] = bytes.as_chunks().0 else { return None };
        let number = |bytes: &[u8; 8]| u64::from_ne_bytes(*bytes);
        let epoch = u32::try_from(number(epoch)).ok().filter(|_| number(flag) == 1)?;
        Some(BlockOfEpoch { epoch, block: number(block) })
    }
}

impl AsFd for ChildNotes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

pub(crate) fn notes(handed: OwnedFd) -> Result<(RunNote, [PendingNote; LINKS]), SharedError> {
    let file = SharedFile::handed(handed);
    let memory = file.map(LONGS, 0)?;
    let memory = memory.ok_or_else(|| file.refused(io::ErrorKind::UnexpectedEof.into()))?;
    let memory = Arc::new(memory);
    let received =
        |link| PendingNote { memory: Arc::clone(&memory), at: RUN_LONGS + link * HEARD_LONGS };
    let received = core::array::from_fn(received);
    Ok((RunNote(memory), received))
}

#[derive(Debug)]
pub(crate) struct PendingNote {
    memory: Arc<SharedMemory>,
    at: usize,
}

impl PendingNote {
    fn longs(&self) -> [&AtomicU64; HEARD_LONGS] {
        core::array::from_fn(|n| &self.memory.longs()[self.at + n])
    }

    pub(crate) fn newest(&self) -> Option<(u32, u64)> {
        let [incarnation, count] = self.longs().map(|long| long.load(Ordering::Acquire));
        Some((u32::try_from(incarnation.checked_sub(1)?).ok()?, count))
    }

    pub(crate) fn note(&self, (incarnation, count): (u32, u64)) {
        let [noted, counted] = self.longs();
        // Dying between the stores lowers the older incarnation's count, never raises this one's.
        counted.store(count, Ordering::Relaxed);
        noted.store(u64::from(incarnation) + 1, Ordering::Release);
    }
}

#[derive(Debug)]
pub(crate) struct RunNote(Arc<SharedMemory>);

impl RunNote {
    fn longs(&self) -> [&AtomicU64; RUN_LONGS] {
        core::array::from_fn(|n| &self.0.longs()[n])
    }

    pub(crate) fn begin(&self, place: BlockOfEpoch) {
        let [flag, epoch, block] = self.longs();
        epoch.store(place.epoch.into(), Ordering::Relaxed);
        block.store(place.block, Ordering::Relaxed);
        // The plugin may crash anywhere from here.
        flag.store(1, Ordering::Release);
    }

    pub(crate) fn end(&self) {
        self.longs()[0].store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parent_reads_the_current_block_only_during_a_run() {
        let last = ChildNotes::new().unwrap();
        let (note, _) = notes(last.as_fd().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!(last.under_way(), None);
        let place = BlockOfEpoch { epoch: u32::MAX, block: 0 };
        note.begin(place);
        assert_eq!(last.under_way(), Some(place));
        note.end();
        assert_eq!(last.under_way(), None);
        note.begin(BlockOfEpoch { epoch: 1, block: u64::MAX });
        last.forget_run().unwrap();
        assert_eq!(last.under_way(), None);
    }

    #[test]
    fn replay_windows_pass_to_the_next_process() {
        let kept = ChildNotes::new().unwrap();
        let child = || notes(kept.as_fd().try_clone_to_owned().unwrap()).unwrap();
        let (run, [master, before]) = child();
        assert_eq!((master.newest(), before.newest()), (None, None));
        run.begin(BlockOfEpoch { epoch: 1, block: 2 });
        master.note((0, 0));
        before.note((u32::MAX, u64::MAX));
        kept.forget_run().unwrap();
        let (_, [master, before]) = child();
        assert_eq!((master.newest(), before.newest()), (Some((0, 0)), Some((u32::MAX, u64::MAX))));
    }
}
