//! The ledger of every packet as lines of text, for those who want more than distributions.
//!
//! A receiver's line and its sender's begin with the same RTP timestamp, so that the two join.
//! Instants are nanoseconds on the writer's own monotonic clock; what is unknown is empty.

use std::collections::VecDeque;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use tautline_io::output::{OutputFile, write_hint};
use tautline_io::thread::memory;
use tautline_proto::ledger::{Departure, Passage};
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::wrap;

use crate::error::RunError;

/// A line of a ledger, as it is kept until it is written.
pub(crate) trait LedgerEntry {
    /// What the columns are called.
    const HEAD: &'static str;

    fn write(&self, out: &mut impl Write) -> std::io::Result<()>;
}

/// A ledger that is kept in memory while the run lasts: neither the writing nor what a disk makes of it is to be
/// in what it measures. A run of more packets than there is room for has its oldest lines written meanwhile.
pub(crate) struct LedgerFile<L> {
    path: PathBuf,
    out: BufWriter<OutputFile>,
    lines: VecDeque<L>,
    failed: Option<std::io::Error>,
}

/// Of so many packets the lines are kept: two minutes of one stream in packets of a millisecond, in 23 MB.
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
        // An error is reported before the run, not after it; the reader of a pipe may come later.
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

    /// The newest line of this kind that is not written yet.
    pub(crate) fn newest(&mut self, of: impl Fn(&L) -> bool) -> Option<&mut L> {
        self.lines.iter_mut().rev().find(|line| of(line))
    }

    /// Writes the oldest line; whether there was one.
    fn write_oldest(&mut self) -> bool {
        let Some(line) = self.lines.pop_front() else { return false };
        // The first failure is told: the sound goes on.
        if let (Err(error), None) = (line.write(&mut self.out), &self.failed) {
            self.failed = Some(error);
        }
        true
    }

    /// What could not be written so far, in a sentence.
    pub(crate) fn flaw(&self) -> Option<String> {
        let (path, error) = (self.path.display(), self.failed.as_ref()?);
        let hint = write_hint(error, &self.path, "make room, or write it elsewhere");
        Some(format!("the ledger {path} is not whole: {error}; {hint}"))
    }

    /// Writes what is left. What could not be written is no reason to lose the report: it is a
    /// sentence in it.
    pub(crate) fn finish(mut self) -> Option<String> {
        while self.write_oldest() {}
        if let (Err(error), None) = (self.out.flush(), &self.failed) {
            self.failed = Some(error);
        }
        self.flaw()
    }
}

/// A packet that was played, or came too late for that.
pub(crate) struct HeardEntry {
    /// The how many-th stream it is of.
    pub(crate) stream: usize,
    pub(crate) passage: Passage,
    /// What the sound itself said, if it was found.
    pub(crate) measured: Option<Span>,
}

impl LedgerEntry for HeardEntry {
    const HEAD: &'static str = "rtp_timestamp,capture,sender_taken,packed,handed,arrival,read,taken,written,dac,measured_ns,\
         stream,late,resample_ns,launched";

    fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        let Self { stream, passage, measured } = self;
        let sender = passage.origin.and_then(|origin| origin.sender);
        write!(out, "{}", wrap::rtp_timestamp(passage.media.as_frames()))?;
        for instant in [
            passage.origin.map(|origin| origin.capture),
            sender.map(|s| s.taken),
            sender.map(|s| s.packed),
            sender.map(|s| s.handed),
            Some(passage.arrival),
            Some(passage.read),
            Some(passage.taken),
            Some(passage.written),
            Some(passage.dac),
        ] {
            column(out, instant.map(LocalTime::as_nanos))?;
        }
        column(out, measured.map(Span::as_nanos))?;
        let late = u8::from(passage.late);
        write!(out, ",{stream},{late},{}", passage.resample.as_nanos())?;
        column(out, sender.map(|s| s.launched.as_nanos()))?;
        writeln!(out)
    }
}

/// What is unknown is empty.
fn column(out: &mut impl Write, nanos: Option<i64>) -> std::io::Result<()> {
    match nanos {
        Some(nanos) => write!(out, ",{nanos}"),
        None => write!(out, ","),
    }
}

/// A packet that was sent.
pub(crate) struct SentEntry {
    pub(crate) rtp_timestamp: u32,
    pub(crate) departure: Departure,
    /// Given to the driver by the kernel, if that was stamped.
    pub(crate) left: Option<LocalTime>,
    /// Whether the queue dropped it, since it was handed over too late for its launch.
    pub(crate) unlaunched: bool,
}

impl LedgerEntry for SentEntry {
    const HEAD: &'static str =
        "rtp_timestamp,capture,taken,packed,due,handed,launched,left,unlaunched";

    fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        let Departure { capture, taken, packed, due, handed, launched, .. } = self.departure;
        write!(out, "{}", self.rtp_timestamp)?;
        for instant in [capture, taken, packed, due, handed, launched] {
            column(out, Some(instant.as_nanos()))?;
        }
        column(out, self.left.map(LocalTime::as_nanos))?;
        writeln!(out, ",{}", u8::from(self.unlaunched))
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
    fn lines_are_kept_until_the_run_is_over_and_the_oldest_are_written_where_there_is_no_room() {
        let path = std::env::temp_dir().join(format!("tautline-ledger-{}", std::process::id()));
        let mut ledger = LedgerFile::with_room(&path, 100).unwrap();
        let room = ledger.lines.capacity() as u32;
        let written = || std::fs::read_to_string(&path).unwrap();
        (0..room).for_each(|number| ledger.push(Number(number)));
        assert_eq!((written().as_str(), ledger.lines.len()), ("number\n", room as usize));
        (room..room + 5).for_each(|number| ledger.push(Number(number)));
        assert_eq!((ledger.lines.len(), ledger.lines[0].0), (room as usize, 5));
        assert_eq!(ledger.lines.capacity(), room as usize, "room was asked for while it ran");
        assert_eq!(ledger.finish(), None);
        let all: Vec<String> = (0..room + 5).map(|number| number.to_string()).collect();
        assert_eq!(written(), format!("number\n{}\n", all.join("\n")));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn pipe_that_no_program_reads_has_its_own_hint() {
        let path = std::env::temp_dir().join(format!("tautline-unread-{}", std::process::id()));
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let told = LedgerFile::<Number>::with_room(&path, 1).unwrap().finish().unwrap();
        let end =
            format!("no program reads it; start its reader first, as in: cat {}", path.display());
        assert!(told.ends_with(&end), "{told}");
        let full = LedgerFile::<Number>::with_room(Path::new("/dev/full"), 1).unwrap();
        assert!(full.finish().unwrap().ends_with("; make room, or write it elsewhere"));
        std::fs::remove_file(&path).unwrap();
    }
}
