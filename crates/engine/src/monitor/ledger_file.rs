//! A running stream's ledger.

use std::collections::VecDeque;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use tautline_io::output::{OutputFile, write_hint};
use tautline_io::thread::memory;
use tautline_report::ledger::LedgerEntry;

use crate::error::RunError;

/// Lines stay in memory, because disk writes disturb the measurement. When full, it writes the
/// oldest.
pub(crate) struct LedgerFile<L> {
    path: PathBuf,
    out: BufWriter<OutputFile>,
    lines: VecDeque<L>,
    failed: Option<std::io::Error>,
}

/// Maximum lines in memory: two minutes of 1 ms packets, 23 MB.
const KEPT: usize = 1 << 17;

impl<L: LedgerEntry> LedgerFile<L> {
    pub(crate) fn create(path: &Path) -> Result<Self, RunError> {
        Self::with_room(path, KEPT)
    }

    fn with_room(path: &Path, room: usize) -> Result<Self, RunError> {
        let file = OutputFile::create(path)
            .map_err(|error| RunError::Ledger { path: path.to_owned(), error })?;
        let is_awaited = file.is_awaited();
        let mut out = BufWriter::new(file);
        // Reports write errors before the run. The reader of a pipe may connect later.
        let begin = writeln!(out, "{}", L::HEAD);
        let failed = begin.and_then(|()| if is_awaited { Ok(()) } else { out.flush() }).err();
        let mut lines = Vec::with_capacity(room);
        memory::prefault(lines.spare_capacity_mut());
        Ok(Self { path: path.to_owned(), out, lines: lines.into(), failed })
    }

    pub(crate) fn push(&mut self, line: L) {
        if self.lines.len() == self.lines.capacity() {
            self.write_oldest();
        }
        self.lines.push_back(line);
    }

    pub(crate) fn newest(&mut self, of: impl Fn(&L) -> bool) -> Option<&mut L> {
        self.lines.iter_mut().rev().find(|line| of(line))
    }

    fn write_oldest(&mut self) -> bool {
        let Some(line) = self.lines.pop_front() else { return false };
        if let (Err(error), None) = (line.write(&mut self.out), &self.failed) {
            self.failed = Some(error);
        }
        true
    }

    pub(crate) fn flaw(&self) -> Option<String> {
        let (path, error) = (self.path.display(), self.failed.as_ref()?);
        let hint = write_hint(error, &self.path, "make room, or write it elsewhere");
        Some(format!("the packet log {path} is incomplete: {error}; {hint}"))
    }

    pub(crate) fn finish(mut self) -> Option<String> {
        while self.write_oldest() {}
        if let (Err(error), None) = (self.out.flush(), &self.failed) {
            self.failed = Some(error);
        }
        self.flaw()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Number(u32);

    impl LedgerEntry for Number {
        const HEAD: &'static str = "number";

        fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
            writeln!(out, "{}", self.0)
        }
    }

    #[test]
    fn log_lines_stay_in_memory_until_full_or_finished() {
        let path = std::env::temp_dir().join(format!("tautline-ledger-{}", std::process::id()));
        let mut ledger = LedgerFile::with_room(&path, 100).unwrap();
        let room = ledger.lines.capacity() as u32;
        let written = || std::fs::read_to_string(&path).unwrap();
        (0..room).for_each(|number| ledger.push(Number(number)));
        assert_eq!((written().as_str(), ledger.lines.len()), ("number\n", room as usize));
        (room..room + 5).for_each(|number| ledger.push(Number(number)));
        assert_eq!((ledger.lines.len(), ledger.lines[0].0), (room as usize, 5));
        assert_eq!(ledger.lines.capacity(), room as usize, "it allocated during the run");
        assert_eq!(ledger.finish(), None);
        let all: Vec<String> = (0..room + 5).map(|number| number.to_string()).collect();
        assert_eq!(written(), format!("number\n{}\n", all.join("\n")));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn pipe_that_no_program_reads_has_its_own_hint() {
        let path = std::env::temp_dir().join(format!("tautline-unread-{}", std::process::id()));
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let reported = LedgerFile::<Number>::with_room(&path, 1).unwrap().finish().unwrap();
        let end =
            format!("no program reads it; start its reader first, as in: cat {}", path.display());
        assert!(reported.ends_with(&end), "{reported}");
        let full = LedgerFile::<Number>::with_room(Path::new("/dev/full"), 1).unwrap();
        assert!(full.finish().unwrap().ends_with("; make room, or write it elsewhere"));
        std::fs::remove_file(&path).unwrap();
    }
}
