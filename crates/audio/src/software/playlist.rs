//! Files one after the other. Unreadable files are skipped, and tried again.

use std::collections::BTreeSet;

use tautline_proto::device::DeviceError;

use crate::software::convert::Wanted;
use crate::software::file::{FileReader, SoundFile, is_pipe};
use crate::toolbox::Notes;

pub(super) struct Playlist {
    files: Vec<SoundFile>,
    looped: bool,
    wanted: Wanted,
    /// Index of the present file.
    turn: usize,
    /// Indexes of files that could not be opened.
    skipped: BTreeSet<usize>,
    /// Files in succession without a sample.
    silent: usize,
    notes: Notes,
}

impl Playlist {
    /// At its first file.
    pub(super) fn new(file: &SoundFile, looped: bool, wanted: Wanted, notes: &Notes) -> Self {
        let (files, skipped, notes) = (file.files(), BTreeSet::new(), notes.clone());
        Self { files, looped, wanted, turn: 0, skipped, silent: 0, notes }
    }

    /// Opens the first readable file. Without one, returns the error of the first file.
    pub(super) fn open(
        file: &SoundFile,
        looped: bool,
        wanted: Wanted,
        notes: &Notes,
    ) -> Result<(Self, FileReader), DeviceError> {
        let mut list = Self::new(file, looped, wanted, notes);
        let mut first = list.open_file(0);
        for turn in 1..list.files.len() {
            // The other files are opened only to note the unreadable ones. A pipe would block.
            if first.is_ok() && is_pipe(&list.files[turn]) {
                continue;
            }
            let opened = list.open_file(turn);
            if first.is_err() && opened.is_ok() {
                (list.turn, first) = (turn, opened);
            }
        }
        Ok((list, first?))
    }

    /// Opens the next readable file; `None` at the end. `is_empty` is whether the present file had
    /// no samples.
    pub(super) fn next(&mut self, is_empty: bool) -> Option<FileReader> {
        let count = self.files.len();
        self.silent = if is_empty { self.silent + 1 } else { 0 };
        // A fault then ends soon after its repair, even in a playlist of many hours.
        for turn in self.skipped.clone() {
            if !is_pipe(&self.files[turn]) {
                drop(self.open_file(turn));
            }
        }
        loop {
            self.turn += 1;
            if self.silent >= count || (self.turn == count && !self.looped) {
                return None;
            }
            self.turn %= count;
            match self.open_file(self.turn) {
                Ok(reader) => return Some(reader),
                Err(_) => self.silent += 1,
            }
        }
    }

    fn open_file(&mut self, turn: usize) -> Result<FileReader, DeviceError> {
        let file = &self.files[turn];
        let opened = file.take(self.wanted);
        let name = file.display().to_string();
        match &opened {
            Ok(_) if self.skipped.remove(&turn) => self.notes.set_file(&name, Vec::new()),
            Ok(_) => {}
            Err(error) => {
                self.skipped.insert(turn);
                let skipped = if self.files.len() > 1 { "skipped " } else { "" };
                self.notes.set_file(&name, vec![format!("{skipped}{error}")]);
            }
        }
        opened
    }

    /// Name of the present file.
    pub(super) fn name(&self) -> String {
        self.files[self.turn].display().to_string()
    }

    pub(super) fn has_pipes(&self) -> bool {
        self.files.iter().any(|file| is_pipe(file))
    }

    /// Samples before the first file, for its channels.
    pub(super) fn prelude(&self, channels: usize) -> Vec<f32> {
        self.files.first().map(|first| first.prelude(channels)).unwrap_or_default()
    }
}
