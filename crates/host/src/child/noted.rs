//! A seal that opens nothing that a dead process of the stream opened before: whoever recorded a datagram could have it
//! worked on again by making a plugin crash.

use tautline_api::seal::Sealed;
use tautline_io::link::seal::Seal;

use crate::child_notes::HeardNote;

/// A seal, and where the next process finds what it opened.
pub(super) struct NotedSeal {
    sealed: Sealed,
    note: HeardNote,
}

impl NotedSeal {
    /// It goes on behind what is noted.
    pub(super) fn new(sealed: Sealed, note: HeardNote) -> Self {
        Self { sealed: sealed.after(note.newest()), note }
    }
}

impl Seal for NotedSeal {
    fn room(&self) -> usize {
        self.sealed.room()
    }

    fn seal(&mut self, bytes: &mut [u8], len: usize) -> usize {
        self.sealed.seal(bytes, len)
    }

    fn open<'a>(&mut self, bytes: &'a mut [u8]) -> Option<&'a [u8]> {
        let opened = self.sealed.open(bytes)?;
        if let Some(newest) = self.sealed.newest() {
            self.note.note(newest);
        }
        Some(opened)
    }
}
