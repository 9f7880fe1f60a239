//! Encryption state that rejects datagrams accepted by the stream's dead processes. Otherwise an
//! attacker could crash a plugin and replay recorded datagrams.

use tautline_api::seal::{ROOM, Sealed, StreamKeys};
use tautline_io::socket::seal::Seal;

use crate::child_notes::PendingNote;

pub(super) struct NotedSeal {
    keys: StreamKeys,
    incarnation: u32,
    note: PendingNote,
    sealed: Option<Sealed>,
}

impl NotedSeal {
    pub(super) fn new(keys: StreamKeys, incarnation: u32, note: PendingNote) -> Self {
        Self { keys, incarnation, note, sealed: None }
    }

    fn sealed(&mut self) -> &mut Sealed {
        let Self { keys, incarnation, note, sealed } = self;
        sealed.get_or_insert_with(|| Sealed::worker(keys, *incarnation).after(note.newest()))
    }
}

impl Seal for NotedSeal {
    fn room(&self) -> usize {
        ROOM
    }

    fn seal(&mut self, bytes: &mut [u8], len: usize) -> usize {
        self.sealed().seal(bytes, len)
    }

    fn open<'a>(&mut self, bytes: &'a mut [u8]) -> Option<&'a [u8]> {
        let opened = self.sealed().open(bytes)?;
        if let Some(newest) = self.sealed.as_ref().and_then(Sealed::newest) {
            self.note.note(newest);
        }
        Some(opened)
    }
}
